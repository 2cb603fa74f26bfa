package admin

import (
	"context"
	"errors"
	"slices"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"understudy/admin/apierror"
	"understudy/admin/audit"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Change is one mutation, worked out but not made: what a method returns once it
// has read and checked everything.
type Change struct {
	// Target is the resource that the caller asked to change.
	Target Key
	// Verb is the method, such as create.
	Verb Verb
	// Conditions are what the change was worked out from.
	Conditions []Condition
	// refused turns a condition that does not hold into the caller's error. Nil,
	// or a nil result, means that the change has to be worked out again.
	refused func(Condition) error
	// Writes are the resources that change, without the operation.
	Writes []Write
	// Policies are those in the event for the sidecars of the target's location; nil
	// means the target's, unless that is a dataset.
	Policies []authz.PolicyName
	// ended are the experiments that end by the change: their evidence is dropped.
	ended []EvidenceName
	// before and after are the etags of the resource whose content changes, for the audit log:
	// of the policy, if an experiment is committed. Empty if there is none, or more than one.
	before, after string
	// Response is the result of the operation.
	Response proto.Message
	// revision and report are for the metadata of a commit. The report is nil if there was none
	// that could be read, and nothing was required.
	revision string
	report   *adminpb.Report
	// ExistingSequence is the sequence of the change that already made it so; with it,
	// nothing is written but the operation. For a resource that is not there, it
	// is NoSequence.
	ExistingSequence int64
}

// NoSequence is the ExistingSequence of a change that no sidecar needs to apply.
const NoSequence = -1

// silent reports whether the change changes no resource.
func (c *Change) silent() bool { return c.ExistingSequence != 0 }

// Mutate works a change out, makes it and returns its operation, after waiting a
// moment for the operation to be done. workOut is called again whenever the change
// loses a race; it has to read what it depends on each time.
func (s *Server) Mutate(
	ctx context.Context, validateOnly bool, workOut func(context.Context) (*Change, error),
) (*longrunningpb.Operation, error) {
	for range MaxAttempts {
		c, err := workOut(ctx)
		if err != nil {
			return nil, err
		}
		audit.FromContext(ctx).Resource(string(c.Target))
		if validateOnly {
			return c.rehearsed()
		}
		op, err := s.make(ctx, c)
		var lost *lostRace
		if errors.As(err, &lost) {
			if ctx.Err() != nil {
				return nil, s.storeFailed(ctx, "retrying", ctx.Err())
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		s.dropEvidence(ctx, c.ended)
		return s.awaitBriefly(ctx, op)
	}
	return nil, s.tooManyRaces(ctx, workOut)
}

// tooManyRaces names the target of a change that never won.
func (s *Server) tooManyRaces(ctx context.Context, workOut func(context.Context) (*Change, error)) error {
	c, err := workOut(ctx)
	if err != nil {
		return err
	}
	return apierror.ConcurrentChange(c.Target)
}

// lostRace says that a condition failed which the caller did not set.
type lostRace struct{ cause *ConditionError }

// Error is that of the condition.
func (e *lostRace) Error() string { return e.cause.Error() }

// make commits a change together with its operation.
func (s *Server) make(ctx context.Context, c *Change) (*storedOperation, error) {
	op, err := s.newOperation(ctx, c)
	if err != nil {
		return nil, err
	}
	operationPut, err := op.put()
	if err != nil {
		return nil, err
	}
	txn := Txn{
		ID:         Key(op.message.Name).ID(),
		Project:    c.Target.Project(),
		Conditions: c.Conditions,
		Writes:     append(slices.Clip(c.Writes), operationPut),
	}
	if !c.silent() {
		txn.Events = []Event{c.event()}
	}
	commit := s.commit
	if len(c.Writes) == 0 {
		commit = s.commitAside
	}
	sequence, err := commit(ctx, txn)
	if err == nil || errors.Is(err, ErrOutcomeUnknown) {
		audit.FromContext(ctx).Operation(op.message.Name)
	}
	if err != nil {
		return nil, s.refusal(ctx, c, err)
	}
	audit.FromContext(ctx).Changed(audit.Etags{Before: c.before, After: c.after})
	if op.sequence == 0 {
		op.sequence = sequence
	}
	return op, nil
}

// event is what the sidecars of the target's location have to apply.
func (c *Change) event() Event {
	if IsDataset(c.Target) {
		return Event{Location: c.Target.Location(), Datasets: []authz.DatasetName{authz.DatasetName(c.Target)}}
	}
	policies := c.Policies
	if policies == nil {
		policies = []authz.PolicyName{authz.PolicyName(c.Target.Policy())}
	}
	return Event{Location: c.Target.Location(), Policies: policies}
}

// refusal turns the error of a Txn into that of the call.
func (s *Server) refusal(ctx context.Context, c *Change, err error) error {
	var failed *ConditionError
	if !errors.As(err, &failed) {
		return s.storeFailed(ctx, "committing "+string(c.Target), err)
	}
	if c.refused != nil {
		if refused := c.refused(failed.Condition); refused != nil {
			return refused
		}
	}
	return &lostRace{failed}
}

// rehearsed is the answer of a validate_only call: done, without a name, with the
// resource as it would be (AIP-163).
func (c *Change) rehearsed() (*longrunningpb.Operation, error) {
	op := &longrunningpb.Operation{Done: true}
	if err := setResponse(op, c.Response); err != nil {
		return nil, err
	}
	return op, nil
}

// NewID returns a random ID for a resource or an operation.
func NewID() string { return uuid.NewString() }
