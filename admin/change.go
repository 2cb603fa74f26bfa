package admin

import (
	"context"
	"errors"
	"slices"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
)

// change is one mutation, worked out but not made: what a method returns once it
// has read and checked everything.
type change struct {
	// target is the resource that the caller asked to change.
	target Key
	// verb is the method, such as create.
	verb verb
	// conditions are what the change was worked out from.
	conditions []Condition
	// refused turns a condition that does not hold into the caller's error. Nil,
	// or a nil result, means that the change has to be worked out again.
	refused func(Condition) error
	// writes are the resources that change, without the operation.
	writes []Write
	// policies are those that the sidecars of the target's location are told of; nil
	// means the target's.
	policies []authz.PolicyName
	// response is the result of the operation.
	response proto.Message
	// revision is for the metadata of a commit.
	revision string
	// settled is the sequence of the change that already made it so; with it,
	// nothing is written but the operation. For a resource that is not there, it
	// is noSequence.
	settled int64
}

// noSequence is the settled sequence of a change that no sidecar needs to apply.
const noSequence = -1

// silent reports whether the change changes no resource.
func (c *change) silent() bool { return c.settled != 0 }

// mutate works a change out, makes it and returns its operation, after waiting a
// moment for the operation to be done. workOut is called again whenever the change
// loses a race; it has to read what it depends on each time.
func (s *Server) mutate(
	ctx context.Context, validateOnly bool, workOut func(context.Context) (*change, error),
) (*longrunningpb.Operation, error) {
	for range maxAttempts {
		c, err := workOut(ctx)
		if err != nil {
			return nil, err
		}
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
		return s.settle(ctx, op)
	}
	return nil, s.tooManyRaces(ctx, workOut)
}

// tooManyRaces names the target of a change that never won.
func (s *Server) tooManyRaces(ctx context.Context, workOut func(context.Context) (*change, error)) error {
	c, err := workOut(ctx)
	if err != nil {
		return err
	}
	return concurrentChange(c.target)
}

// lostRace says that a condition failed which the caller did not set.
type lostRace struct{ cause *ConditionError }

func (e *lostRace) Error() string { return e.cause.Error() }

// make commits a change together with its operation.
func (s *Server) make(ctx context.Context, c *change) (*storedOperation, error) {
	op, err := s.newOperation(c)
	if err != nil {
		return nil, err
	}
	operationPut, err := op.put()
	if err != nil {
		return nil, err
	}
	txn := Txn{
		ID:         Key(op.message.Name).id(),
		Project:    c.target.project(),
		Conditions: c.conditions,
		Writes:     append(slices.Clip(c.writes), operationPut),
	}
	if !c.silent() {
		policies := c.policies
		if policies == nil {
			policies = []authz.PolicyName{authz.PolicyName(c.target.policy())}
		}
		txn.Events = []Event{{c.target.location(), policies}}
	}
	sequence, err := s.store.Commit(ctx, txn)
	if err != nil {
		return nil, s.refusal(ctx, c, err)
	}
	if op.sequence == 0 {
		op.sequence = sequence
	}
	return op, nil
}

// refusal turns the error of a Txn into that of the call.
func (s *Server) refusal(ctx context.Context, c *change, err error) error {
	var failed *ConditionError
	if !errors.As(err, &failed) {
		return s.storeFailed(ctx, "committing "+string(c.target), err)
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
func (c *change) rehearsed() (*longrunningpb.Operation, error) {
	op := &longrunningpb.Operation{Done: true}
	if err := setResponse(op, c.response); err != nil {
		return nil, err
	}
	return op, nil
}

// newID returns a random ID for a resource or an operation.
func newID() string { return uuid.NewString() }
