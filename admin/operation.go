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
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
	"understudy/authz/background"
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
	if c.Settled > 0 {
		op.sequence = c.Settled
	}
	if c.Settled == NoSequence {
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
		held = []proto.Message{&adminpb.Policy{}, &adminpb.PolicyExperiment{}, &adminpb.PromotePoliciesResponse{}}
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

// NewPut returns the write that stores the operation in a new version.
func (op *storedOperation) put() (Put, error) {
	if err := op.packMetadata(); err != nil {
		return Put{}, err
	}
	op.etag = NewID()
	p, err := NewPut(op.message.Name, op.etag, op.message)
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
		if !ok {
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

// settle waits for an operation that was just stored to be done, but not for long.
func (s *Server) settle(ctx context.Context, op *storedOperation) (*longrunningpb.Operation, error) {
	if err := s.await(ctx, op, settleTime); err != nil {
		// The change is stored: a store that is lost now is no reason to call it
		// a failure.
		s.log.WarnContext(ctx, "it is not known whether an operation is done", "operation", op.message.Name, "error", err)
	}
	return op.forCaller()
}

// await brings an operation up to date until it has ended, the context is done or
// the time is over.
func (s *Server) await(ctx context.Context, op *storedOperation, atMost time.Duration) (err error) {
	background.Wait(ctx, func() { err = s.poll(ctx, op, atMost) })
	return err
}

// poll refreshes an operation at growing intervals: most changes are applied within
// milliseconds, and a caller that waits for minutes must not load the store.
func (s *Server) poll(ctx context.Context, op *storedOperation, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if err := s.refresh(ctx, op); err != nil || op.ended() {
			return ignoreTimeout(ctx, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// ignoreTimeout takes an error for none if the time was over by then: the wait has ended
// as it should, and the store may have failed by that deadline alone.
func ignoreTimeout(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// refresh brings an operation up to date. One that ends is stored as it ended, so
// that it stays so whatever becomes of the nodes.
func (s *Server) refresh(ctx context.Context, op *storedOperation) error {
	if op.ended() {
		return nil
	}
	target := Key(op.metadata.Target)
	nodes, err := s.store.Nodes(ctx, target.Location())
	if err != nil {
		return err
	}
	if !op.progress(nodes, s.now()) {
		return nil
	}
	return s.replaceOperation(ctx, op, s.commitAside)
}

// replaceOperation stores a new version of an operation. One that was deleted or
// replaced meanwhile is left alone: others see to it.
func (s *Server) replaceOperation(
	ctx context.Context, op *storedOperation, commit func(context.Context, Txn) (int64, error),
) error {
	known := Exists{Key: Key(op.message.Name), Etag: op.etag}
	write, err := op.put()
	if err != nil {
		return err
	}
	_, err = commit(ctx, Txn{
		ID: NewID(), Project: known.Key.Project(),
		Conditions: []Condition{known}, Writes: []Write{write},
	})
	if failed := (*ConditionError)(nil); asCondition(err, &failed) {
		return nil
	}
	return err
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

// maxWait bounds a WaitOperation, and is the timeout of one that gives none.
const maxWait = time.Minute

// GetOperation returns the latest state of an operation (AIP-151).
func (s *Server) GetOperation(
	ctx context.Context, r *longrunningpb.GetOperationRequest,
) (*longrunningpb.Operation, error) {
	op, err := s.readOperationNamed(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	return s.current(ctx, op)
}

// WaitOperation returns once the operation is done or the timeout is over,
// whichever is first.
func (s *Server) WaitOperation(
	ctx context.Context, r *longrunningpb.WaitOperationRequest,
) (*longrunningpb.Operation, error) {
	op, err := s.readOperationNamed(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	timeout := maxWait
	if r.GetTimeout() != nil {
		timeout = min(r.GetTimeout().AsDuration(), maxWait)
	}
	if timeout < 0 {
		return nil, apierror.Invalid(apierror.ReasonInvalidField, "timeout", "The timeout cannot be negative.")
	}
	if err := s.await(ctx, op, timeout); err != nil {
		return nil, s.storeFailed(ctx, "waiting for "+op.message.Name, err)
	}
	return op.forCaller()
}

// CancelOperation notes that a cancellation was asked for. The change is stored
// already, so it stays and is applied all the same (AIP-151: best effort).
func (s *Server) CancelOperation(
	ctx context.Context, r *longrunningpb.CancelOperationRequest,
) (*emptypb.Empty, error) {
	op, err := s.readOperationNamed(ctx, r.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.refresh(ctx, op); err != nil {
		return nil, s.storeFailed(ctx, "reading "+op.message.Name, err)
	}
	if !op.ended() && !op.metadata.CancelRequested {
		op.metadata.CancelRequested = true
		if err := s.replaceOperation(ctx, op, s.commit); err != nil {
			return nil, s.storeFailed(ctx, "cancelling "+op.message.Name, err)
		}
	}
	return &emptypb.Empty{}, nil
}

// DeleteOperation forgets an operation. It does not cancel it.
func (s *Server) DeleteOperation(
	ctx context.Context, r *longrunningpb.DeleteOperationRequest,
) (*emptypb.Empty, error) {
	name, err := operationKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	_, err = s.commit(ctx, Txn{
		ID: NewID(), Project: name.Project(),
		Conditions: []Condition{Exists{Key: name}}, Writes: []Write{Delete{name}},
	})
	if failed := (*ConditionError)(nil); asCondition(err, &failed) {
		return nil, apierror.NotFound(name)
	}
	if err != nil {
		return nil, s.storeFailed(ctx, "deleting "+string(name), err)
	}
	return &emptypb.Empty{}, nil
}

// readOperationNamed reads an operation as calls name it. The error of one that cannot be
// read is DATA_LOSS.
func (s *Server) readOperationNamed(ctx context.Context, given string) (*storedOperation, error) {
	name, err := operationKind.parse("name", given)
	if err != nil {
		return nil, err
	}
	records, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if records[0].Key == "" {
		return nil, apierror.NotFound(name)
	}
	op, err := readOperation(records[0])
	if err != nil {
		return nil, s.damaged(ctx, name, err)
	}
	return op, nil
}

// current brings an operation up to date and returns it as callers see it.
func (s *Server) current(ctx context.Context, op *storedOperation) (*longrunningpb.Operation, error) {
	if err := s.refresh(ctx, op); err != nil {
		return nil, s.storeFailed(ctx, "reading "+op.message.Name, err)
	}
	return op.forCaller()
}
