package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// An operation is stored together with the change that it is about, by the same Txn, and
// with its result from the start. What is computed later is only whether it is done:
// whether every live sidecar of the location has applied the change. That is worked out
// on each read from what the sidecars report, so nothing has to run in the background,
// and no server that crashes leaves an operation behind that never ends. Once an
// operation is seen to be done, that is stored, so that it stays done when a sidecar
// starts later.

// Verb is the method of an operation, as in OperationMetadata.verb.
type Verb string

// The verbs. Each is the name of a method of the API without its resource.
const (
	VerbCreate       Verb = "create"
	VerbUpdate       Verb = "update"
	VerbDelete       Verb = "delete"
	VerbUndelete     Verb = "undelete"
	VerbStartPreview Verb = "startPreview"
	VerbStopPreview  Verb = "stopPreview"
	VerbCommit       Verb = "commit"
	VerbRollback     Verb = "rollback"
	VerbPromote      Verb = "promote"
	VerbUpload       Verb = "upload"
	VerbPatch        Verb = "patch"
)

// storedOperation is an operation as it is kept: with its result from the start,
// and without an end_time until it is seen to be done. Whether it is done is
// computed on each read from what the sidecars report (AIP-151).
type storedOperation struct {
	message  *longrunningpb.Operation
	metadata *adminpb.OperationMetadata
	// wrapper is metadata, or the message of the verb that holds it.
	wrapper proto.Message
	// sequence is the number of the change that the sidecars have to apply.
	sequence int64
	// applied are the resources of that change, once targets has worked them out.
	applied []Key
	// etag is that of the record, a new one for each version of it.
	etag string
	// expire is when the record ceases to exist.
	expire time.Time
}

// newOperation returns the operation of a change that is about to be made.
func (s *Server) newOperation(ctx context.Context, c *Change) (*storedOperation, error) {
	now, by := s.now(), access.FromContext(ctx)
	op := &storedOperation{
		message: &longrunningpb.Operation{
			Name: string(Key(c.Target.Location()).In("operations").Key(NewID())),
		},
		metadata: &adminpb.OperationMetadata{
			CreateTime:     timestamppb.New(now),
			Target:         string(c.Target),
			Verb:           string(c.Verb),
			Creator:        by.Member,
			CreatorDisplay: by.Display,
		},
		expire: now.Add(operationsKept),
	}
	op.wrapper = wrapMetadata(c, op.metadata)
	if c.ExistingSequence > 0 {
		op.sequence = c.ExistingSequence
	}
	if c.ExistingSequence == NoSequence {
		op.end(now)
	}
	return op, setResponse(op.message, c.Response)
}

// wrapMetadata returns the metadata message that the verb has in the API.
func wrapMetadata(c *Change, m *adminpb.OperationMetadata) proto.Message {
	switch c.Verb {
	case VerbStartPreview:
		return &adminpb.StartPreviewPolicyExperimentMetadata{Operation: m}
	case VerbStopPreview:
		return &adminpb.StopPreviewPolicyExperimentMetadata{Operation: m}
	case VerbCommit:
		return &adminpb.CommitPolicyExperimentMetadata{Operation: m, Revision: c.revision, Report: c.report}
	default:
		return m
	}
}

// commonMetadata returns the OperationMetadata in a metadata message, or nil.
func commonMetadata(m proto.Message) *adminpb.OperationMetadata {
	switch m := m.(type) {
	case *adminpb.OperationMetadata:
		return m
	case interface {
		GetOperation() *adminpb.OperationMetadata
	}:
		return m.GetOperation()
	default:
		return nil
	}
}

// packedTypes are the types that an operation may hold in a field, for filters.
func packedTypes(field protoreflect.FieldDescriptor) []protoreflect.MessageDescriptor {
	held := []proto.Message{
		&adminpb.OperationMetadata{}, &adminpb.StartPreviewPolicyExperimentMetadata{},
		&adminpb.StopPreviewPolicyExperimentMetadata{}, &adminpb.CommitPolicyExperimentMetadata{},
	}
	if field.Name() == "response" {
		held = []proto.Message{&adminpb.Policy{}, &adminpb.PolicyExperiment{}, &adminpb.PromotePoliciesResponse{}, &adminpb.Dataset{}}
	}
	var out []protoreflect.MessageDescriptor
	for _, m := range held {
		out = append(out, m.ProtoReflect().Descriptor())
	}
	return out
}

// unpacked returns what an operation holds. Metadata that has the common metadata inside
// stands for that too, so that one filter, such as metadata.verb, fits all verbs.
func unpacked(packed *anypb.Any) []proto.Message {
	m, err := packed.UnmarshalNew()
	if err != nil {
		return nil
	}
	if common := commonMetadata(m); common != nil {
		return []proto.Message{m, common}
	}
	return []proto.Message{m}
}

// readOperation decodes a record.
func readOperation(r Record) (*storedOperation, error) {
	message, err := Decode(r, &longrunningpb.Operation{})
	if err != nil {
		return nil, err
	}
	wrapper, err := message.GetMetadata().UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("decoding the metadata of %s: %w", r.Key, err)
	}
	metadata := commonMetadata(wrapper)
	if metadata == nil {
		return nil, fmt.Errorf("decoding the metadata of %s: unknown type %T", r.Key, wrapper)
	}
	return &storedOperation{
		message: message, metadata: metadata, wrapper: wrapper,
		sequence: r.Sequence, etag: r.Etag, expire: r.ExpireTime,
	}, nil
}

// clone returns a copy that shares nothing that changes.
func (op *storedOperation) clone() *storedOperation {
	c := *op
	c.message, c.wrapper = proto.CloneOf(op.message), proto.Clone(op.wrapper)
	c.metadata = commonMetadata(c.wrapper)
	return &c
}

// put returns the write that stores the operation in a new version.
func (op *storedOperation) put() (Put, error) {
	if err := op.packMetadata(); err != nil {
		return Put{}, err
	}
	op.etag = NewID()
	p, err := NewPut(Key(op.message.Name), op.etag, op.message)
	p.ExpireTime = op.expire
	p.Sequence = op.sequence
	return p, err
}

// packMetadata writes the metadata back into the message, in the type that the verb has
// in the API.
func (op *storedOperation) packMetadata() error {
	packed, err := anypb.New(op.wrapper)
	if err != nil {
		return fmt.Errorf("encoding the metadata of %s: %w", op.message.Name, err)
	}
	op.message.Metadata = packed
	return nil
}

// ended reports whether the operation was seen to be done.
func (op *storedOperation) ended() bool { return op.metadata.EndTime != nil }

// end says that the operation is done, for good: its result stays whatever becomes of the
// nodes.
func (op *storedOperation) end(now time.Time) {
	op.message.Done = true
	op.metadata.EndTime = timestamppb.New(now)
}

// targets returns the resources that the nodes have to apply: the target, or the
// policies of a promotion, whose target is their location.
func (op *storedOperation) targets() []Key {
	if op.applied != nil {
		return op.applied
	}
	promoted := &adminpb.PromotePoliciesResponse{}
	if op.message.GetResponse().UnmarshalTo(promoted) != nil {
		op.applied = []Key{Key(op.metadata.Target)}
	}
	for _, p := range promoted.Policies {
		op.applied = append(op.applied, Key(p.Name))
	}
	return op.applied
}

// progress brings an operation that has not ended up to date with what the nodes
// of its location report, and reports whether that ended it.
func (op *storedOperation) progress(nodes []NodeReport, now time.Time) bool {
	op.metadata.NodeCount, op.metadata.AppliedNodeCount = 0, 0
	var refused *adminpb.Node
	targets := op.targets()
	for _, n := range nodes {
		if !n.Alive() {
			continue
		}
		op.metadata.NodeCount++
		switch {
		case slices.ContainsFunc(targets, func(t Key) bool { return failedToApply(n.Node, t, op.sequence) }):
			refused = n.Node
		case n.Node.AppliedSequence >= op.sequence:
			op.metadata.AppliedNodeCount++
		}
	}
	if refused != nil {
		op.message.Result = &longrunningpb.Operation_Error{Error: nodeFailed(refused, op.metadata.Target)}
		op.end(now)
		return true
	}
	if op.metadata.AppliedNodeCount == op.metadata.NodeCount {
		op.end(now)
		return true
	}
	return false
}

// failedToApply reports whether a node says that it could not apply the change of
// target with this sequence, or a later one that replaced it.
func failedToApply(node *adminpb.Node, target Key, sequence int64) bool {
	for _, d := range status.FromProto(node.GetError()).Details() {
		info, ok := d.(*errdetails.ErrorInfo)
		if !ok || info.Reason != authz.ReasonNotApplied {
			continue
		}
		var failed int64
		if _, err := fmt.Sscan(info.Metadata["sequence"], &failed); err != nil {
			continue
		}
		if Key(info.Metadata["resource"]).concerns(target) && failed >= sequence {
			return true
		}
	}
	return false
}

// concerns reports whether the resource is target, the policy of it or part of it.
func (k Key) concerns(target Key) bool {
	return k.Type() != "" && target.Type() != "" && k.Policy() == target.Policy() &&
		(k == target || k == target.Policy() || target == k.Policy())
}

// nodeFailed is the error of an operation that a node could not apply.
func nodeFailed(node *adminpb.Node, target string) *statuspb.Status {
	err := apierror.New(codes.FailedPrecondition, apierror.ReasonNodeFailed,
		fmt.Sprintf("Node '%s' could not apply '%s' and keeps what it had: %s", node.Name, target, node.GetError().GetMessage()),
		apierror.Facts{"node": node.Name, "resource": target, "cause": node.GetError().GetMessage()})
	return status.Convert(err).Proto()
}

// forCaller returns the operation as callers see it.
func (op *storedOperation) forCaller() (*longrunningpb.Operation, error) {
	if err := op.packMetadata(); err != nil {
		return nil, err
	}
	if !op.ended() {
		op.message.Done = false
		op.message.Result = nil
	}
	return op.message, nil
}

// setResponse makes m the result of an operation.
func setResponse(op *longrunningpb.Operation, m proto.Message) error {
	packed, err := anypb.New(m)
	if err != nil {
		return fmt.Errorf("encoding a response: %w", err)
	}
	op.Result = &longrunningpb.Operation_Response{Response: packed}
	return nil
}
