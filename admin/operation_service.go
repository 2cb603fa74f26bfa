package admin

import (
	"context"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"understudy/admin/apierror"
)

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
		if _, err := s.replaceOperation(ctx, op, s.commit); err != nil {
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
