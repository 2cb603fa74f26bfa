package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"understudy/admin"
	"understudy/authz"
)

const (
	// doneKept is how long a Txn can be repeated.
	doneKept = time.Hour
	// outcomeTime bounds how long a Txn whose reply was lost is asked for again.
	outcomeTime = 3 * time.Second
	// outcomePause is the time between two such tries.
	outcomePause = 50 * time.Millisecond
)

// Commit implements admin.Store. The client repeats a call whose reply was lost;
// the ID of the Txn makes the repeat harmless. What it gives up on is asked for
// again for a while, for a change that may have been made is the worst answer.
func (s *Store) Commit(ctx context.Context, txn admin.Txn) (int64, error) {
	args := s.arguments(txn)
	sequence, err := s.tryCommit(ctx, txn, args)
	if err == nil || !errors.Is(err, admin.ErrOutcomeUnknown) {
		return sequence, err
	}
	deadline := time.Now().Add(outcomeTime)
	for ctx.Err() == nil && time.Now().Before(deadline) {
		again, retryErr := s.tryCommit(ctx, txn, args)
		var failed *admin.ConditionError
		if retryErr == nil || errors.As(retryErr, &failed) {
			return again, retryErr
		}
		select {
		case <-ctx.Done():
		case <-time.After(outcomePause):
		}
	}
	return 0, err
}

func (s *Store) tryCommit(ctx context.Context, txn admin.Txn, args []any) (int64, error) {
	reply, err := commitScript.Run(ctx, s.client, []string{base(txn.Project)}, args...).Slice()
	switch {
	case err != nil && neverSent(err):
		return 0, fmt.Errorf("committing: %w: %w", admin.ErrUnavailable, err)
	case err != nil:
		return 0, fmt.Errorf("committing: %w: %w", admin.ErrOutcomeUnknown, err)
	case len(reply) != 2:
		return 0, errors.New("committing: the reply is damaged")
	}
	word, _ := reply[0].(string)
	switch word {
	case "ok":
		text, _ := reply[1].(string)
		return strconv.ParseInt(text, 10, 64)
	case "failed":
		index, _ := reply[1].(int64)
		return 0, &admin.ConditionError{Index: int(index), Condition: txn.Conditions[index]}
	default:
		return 0, fmt.Errorf("committing: the store is damaged at %v", reply[1])
	}
}

// arguments writes a Txn as commit.lua reads it.
func (s *Store) arguments(txn admin.Txn) []any {
	args := []any{
		milliseconds(s.now()), txn.ID, int64(doneKept / time.Second), s.stream, expireGrace.Milliseconds(),
		len(txn.Conditions),
	}
	for _, c := range txn.Conditions {
		args = append(args, conditionArguments(c)...)
	}
	args = append(args, len(txn.Writes))
	for _, w := range txn.Writes {
		args = append(args, writeArguments(w)...)
	}
	args = append(args, len(txn.Events))
	for _, e := range txn.Events {
		args = append(args, string(e.Location), rand.Text(), joinNames(e.Policies))
	}
	return args
}

func conditionArguments(c admin.Condition) []any {
	switch c := c.(type) {
	case admin.Exists:
		return []any{"exists", string(c.Key), c.Etag}
	case admin.Absent:
		return []any{"absent", string(c.Key)}
	case admin.Unchanged:
		return []any{"unchanged", string(c.Key), c.Sequence}
	case admin.FewerThan:
		return []any{"fewer", kindOf(c.Collection), string(c.Collection) + "/", c.N}
	default:
		return []any{fmt.Sprintf("unknown condition %T", c)}
	}
}

func writeArguments(w admin.Write) []any {
	switch w := w.(type) {
	case admin.Put:
		return []any{
			"put", kindOf(collectionOf(w.Key)), string(w.Key), w.Value, w.Etag,
			milliseconds(w.ExpireTime), w.Sequence,
		}
	case admin.Delete:
		return []any{"delete", kindOf(collectionOf(w.Key)), string(w.Key)}
	case admin.DeleteCollection:
		return []any{"clear", kindOf(w.Collection), string(w.Collection) + "/"}
	default:
		return []any{fmt.Sprintf("unknown write %T", w)}
	}
}

func joinNames(names []authz.PolicyName) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = string(n)
	}
	return strings.Join(texts, "\n")
}
