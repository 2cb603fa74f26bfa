package admin

import (
	"context"
	"time"

	"understudy/authz/background"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
)

// awaitBriefly waits for an operation that was just stored to be done, but not for long.
func (s *Server) awaitBriefly(ctx context.Context, op *storedOperation) (*longrunningpb.Operation, error) {
	if err := s.await(ctx, op, s.operationWait); err != nil {
		// The change is stored: a store that is lost now is no reason to call it
		// a failure.
		s.log.WarnContext(ctx, "it is not known whether an operation is done", "operation", op.message.Name, "error", err)
	}
	return op.forCaller()
}

// await brings an operation up to date until it has ended, the context is done or
// the time is over. It does so at growing intervals: most changes are applied within
// milliseconds, and a caller that waits for minutes must not load the store.
func (s *Server) await(ctx context.Context, op *storedOperation, atMost time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if err := s.refresh(ctx, op); err != nil || op.ended() {
			return ignoreTimeout(ctx, err)
		}
		if !background.Sleep(ctx, pause) {
			return nil
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
// that it stays so whatever becomes of the nodes: it has ended only once that is stored.
func (s *Server) refresh(ctx context.Context, op *storedOperation) error {
	if op.ended() {
		return nil
	}
	target := Key(op.metadata.Target)
	nodes, err := s.store.Nodes(ctx, target.Location())
	if err != nil {
		return err
	}
	before := op.clone()
	if !op.progress(nodes, s.now()) {
		return nil
	}
	replaced, err := s.replaceOperation(ctx, op, s.commitAside)
	if err == nil && !replaced {
		err = s.readAgain(ctx, op)
	}
	if err != nil {
		*op = *before
	}
	return err
}

// readAgain replaces an operation by what is stored of it. One that was deleted stays as it is.
func (s *Server) readAgain(ctx context.Context, op *storedOperation) error {
	records, err := s.store.Get(ctx, Key(op.message.Name))
	if err != nil || records[0].Key == "" {
		return err
	}
	stored, err := readOperation(records[0])
	if err != nil {
		return err
	}
	*op = *stored
	return nil
}

// replaceOperation stores a new version of an operation and reports whether it did: one that was
// deleted or replaced meanwhile is left alone.
func (s *Server) replaceOperation(
	ctx context.Context, op *storedOperation, commit func(context.Context, Txn) (int64, error),
) (replaced bool, err error) {
	known := Exists{Key: Key(op.message.Name), Etag: op.etag}
	write, err := op.put()
	if err != nil {
		return false, err
	}
	_, err = commit(ctx, Txn{
		ID: NewID(), Project: known.Key.Project(),
		Conditions: []Condition{known}, Writes: []Write{write},
	})
	if failed := (*ConditionError)(nil); asCondition(err, &failed) {
		return false, nil
	}
	return err == nil, err
}
