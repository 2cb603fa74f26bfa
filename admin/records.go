package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"understudy/admin/apierror"
	"understudy/admin/audit"
	"understudy/admin/content"
	"understudy/authz"
	"understudy/authz/background"
)

// Get is Store.Get with the error of a caller.
func (s *Server) Get(ctx context.Context, keys ...Key) ([]Record, error) {
	records, err := s.store.Get(ctx, keys...)
	if err != nil {
		return nil, s.storeFailed(ctx, "reading "+string(keys[0]), err)
	}
	return records, nil
}

// Summaries is Store.Summaries with the error of a caller.
func (s *Server) Summaries(ctx context.Context, keys ...Key) ([]Summary, error) {
	summaries, err := s.store.Summaries(ctx, keys...)
	if err != nil {
		return nil, s.storeFailed(ctx, "reading "+string(keys[0]), err)
	}
	return summaries, nil
}

// List is Store.List with the error of a caller.
func (s *Server) List(ctx context.Context, query Query) ([]Record, error) {
	records, err := s.store.List(ctx, query)
	if err != nil {
		return nil, s.storeFailed(ctx, "listing "+string(query.Collection), err)
	}
	return records, nil
}

// ListSummaries is Store.ListSummaries with the error of a caller.
func (s *Server) ListSummaries(ctx context.Context, query Query) ([]Summary, error) {
	summaries, err := s.store.ListSummaries(ctx, query)
	if err != nil {
		return nil, s.storeFailed(ctx, "listing "+string(query.Collection), err)
	}
	return summaries, nil
}

// PolicyOfOperation returns the policy that an operation is about, as its metadata.target
// says; empty if the name is not that of an operation, there is none, it cannot be read, or
// it is about no policy. The error is that of the store.
func PolicyOfOperation(ctx context.Context, store Store, name string) (Key, error) {
	key, err := operationKind.parse("name", name)
	if err != nil {
		return "", nil // what is no name of an operation has no policy
	}
	records, err := store.Get(ctx, key)
	if err != nil || records[0].Key == "" {
		return "", err
	}
	op, err := readOperation(records[0])
	if err != nil {
		return "", nil // it is as if it were not there, and says nothing of itself
	}
	return Key(op.metadata.Target).Policy(), nil
}

// ErrChanged says that what was read is of two instants. A condition would not show it:
// what was absent at first may be absent again.
var ErrChanged = errors.New("it changed while it was read")

// Commit makes a Txn that no sidecar has to apply before the caller is answered. workOut,
// which leaves ID and Project to commit, is called again whenever the Txn loses a race or
// the error is ErrChanged; one without writes is not made. what is the resource that errors
// name.
func (s *Server) Commit(ctx context.Context, what Key, workOut func(context.Context) (Txn, error)) error {
	for range MaxAttempts {
		txn, err := workOut(ctx)
		if errors.Is(err, ErrChanged) {
			continue
		}
		if err != nil || len(txn.Writes) == 0 {
			return err
		}
		txn.ID, txn.Project = NewID(), what.Project()
		_, err = s.commit(ctx, txn)
		if failed := (*ConditionError)(nil); asCondition(err, &failed) {
			continue
		}
		if err != nil {
			return s.storeFailed(ctx, "changing "+string(what), err)
		}
		return nil
	}
	return apierror.ConcurrentChange(what)
}

// commit commits a Txn of a call that changes something, if the call has the places for its
// events that it has to have. Unless the Txn was certainly not made, the audit log has it as a
// change.
func (s *Server) commit(ctx context.Context, txn Txn) (int64, error) {
	entry := audit.FromContext(ctx)
	if err := entry.Reserve(); err != nil {
		return 0, err
	}
	txn.Raises = raisesWatermark(txn.Writes)
	commit := s.store.Commit
	if s.guard != nil {
		commit = s.guard.commit
	}
	sequence, err := commit(ctx, txn)
	if failed := (*ConditionError)(nil); !asCondition(err, &failed) && !errors.Is(err, ErrUnavailable) {
		entry.Made()
	}
	return sequence, err
}

// commitAside commits a Txn that is no change in the eyes of the audit log: operations as they
// are seen to end, and those of calls that find all to be so already.
func (s *Server) commitAside(ctx context.Context, txn Txn) (int64, error) {
	return s.store.Commit(ctx, txn)
}

// UnchangedRecord is the condition under which key still is as it was read.
func UnchangedRecord(key Key, r Record) Condition {
	if r.Key == "" {
		return Absent{key}
	}
	return Unchanged{key, r.Sequence}
}

// asCondition reports whether err is a condition that did not hold.
func asCondition(err error, failed **ConditionError) bool { return errors.As(err, failed) }

// Decode unmarshals a record into a message.
func Decode[M authz.Resource](r Record, m M) (M, error) {
	var err error
	background.Run(len(r.Value), func() { err = r.Resource().Decode(m) })
	if err != nil {
		return m, fmt.Errorf("decoding %s: %w", r.Key, err)
	}
	return m, nil
}

// NewPut is the Put of a resource under its name.
func NewPut(name Key, etag string, m proto.Message) (Put, error) {
	p := Put{Key: name, Etag: etag}
	var err error
	background.Run(proto.Size(m), func() { err = p.setValue(m) })
	return p, err
}

// setValue sets the value of a Put, and with it the summary, which is the basic view.
func (p *Put) setValue(m proto.Message) (err error) {
	if p.Value, err = proto.Marshal(m); err != nil {
		return fmt.Errorf("encoding %s: %w", p.Key, err)
	}
	if p.Summary, err = proto.Marshal(content.Basic(m)); err != nil {
		return fmt.Errorf("encoding the summary of %s: %w", p.Key, err)
	}
	if len(p.Summary) == len(p.Value) {
		p.Summary = nil
	}
	return nil
}

// storeFailed turns an error of the store into a status. It names no technology
// and, as UNAVAILABLE invites a retry, uses it only where nothing was written
// (AIP-194).
func (s *Server) storeFailed(ctx context.Context, doing string, err error) error {
	return StoreFailed(ctx, s.log, doing, err)
}

// StoreFailed is the error of a caller whose call the store failed. The cause is for the
// log.
func StoreFailed(ctx context.Context, log *slog.Logger, doing string, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return apierror.New(codes.DeadlineExceeded, apierror.ReasonDeadlineExceeded, "The call ran out of time.", nil)
	case errors.Is(err, context.Canceled):
		return apierror.New(codes.Canceled, apierror.ReasonCancelled, "The call was cancelled.", nil)
	case errors.Is(err, ErrNoCompiler):
		log.ErrorContext(ctx, "content could not be compiled", "doing", doing, "error", err)
		return apierror.New(codes.Unavailable, apierror.ReasonCompilerUnavailable,
			"The process in which policies are compiled cannot be used at the moment; nothing was changed. Try again later.", nil)
	case errors.Is(err, ErrWentBack):
		return apierror.New(codes.Unavailable, apierror.ReasonStoreWentBack,
			"The store of policies has gone back: it has lost its last changes, so a role that was taken away may be there again. Nothing was changed. "+
				"Only owners can change something until an operator has looked at bindings and configuration and runs `understudy restore --newer` or `understudy restore --accept`.", nil)
	case errors.Is(err, audit.ErrNoSlot):
		return apierror.New(codes.Unavailable, apierror.ReasonAuditUnavailable,
			"Every change has to be recorded, and the queue of records is full: their collector is away. Nothing was changed. Try again later.", nil)
	}
	log.ErrorContext(ctx, "the store failed", "doing", doing, "error", err)
	switch {
	case errors.Is(err, ErrUnavailable):
		return apierror.New(codes.Unavailable, apierror.ReasonStoreUnavailable,
			"The store of policies cannot be reached; nothing was changed. Try again later.", nil)
	case errors.Is(err, ErrOutcomeUnknown):
		return apierror.New(codes.Internal, apierror.ReasonOutcomeUnknown,
			"The store of policies was lost during the change, which was made as a whole or not at all. "+
				"Read the resource to see which.", nil)
	default:
		return apierror.Internal()
	}
}
