package redisstore

import (
	"context"
	"crypto/rand"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
)

const (
	// doneKept is how long a Txn can be repeated.
	doneKept = time.Hour
	// expiredKept is for how long expired records stay, unseen, so that a server
	// whose clock is ahead destroys nothing.
	expiredKept = time.Hour
)

var (
	//go:embed commit.lua
	commitSource string
	commitScript = redis.NewScript(commitSource)
)

// Commit implements admin.Store.
func (s *Store) Commit(ctx context.Context, txn admin.Txn) (int64, error) {
	keys, args, err := s.encodeTxn(txn)
	if err != nil {
		return 0, err
	}
	var reply []any
	err = callOnce(ctx, "committing", func(ctx context.Context) (err error) {
		reply, err = commitScript.Run(ctx, s.short, keys, args...).Slice()
		return err
	})
	if err != nil {
		return 0, err
	}
	return decodeCommit(txn, reply)
}

// decodeCommit is the result of the script: a sequence, or the condition that does not
// hold.
func decodeCommit(txn admin.Txn, reply []any) (int64, error) {
	if len(reply) == 2 {
		word, _ := reply[0].(string)
		n, ok := reply[1].(int64)
		switch {
		case ok && word == "ok":
			return n, nil
		case ok && word == "failed" && int(n) < len(txn.Conditions):
			return 0, &admin.ConditionError{Index: int(n), Condition: txn.Conditions[n]}
		}
	}
	return 0, fmt.Errorf("committing: %w: %w", admin.ErrOutcomeUnknown, errReply)
}

// encodeTxn returns KEYS and ARGV of commit.lua.
func (s *Store) encodeTxn(txn admin.Txn) (keys []string, args []any, err error) {
	k := projectKeys(txn.Project)
	keys = []string{k.sequence(), k.index(), k.versions(), k.values(), k.expiries(), k.done(txn.ID)}
	args = []any{
		s.now().UnixMilli(), rand.Text(), s.stream, int(doneKept.Seconds()), expiredKept.Milliseconds(),
	}
	args = append(args, len(txn.Conditions))
	for _, c := range txn.Conditions {
		encoded, err := encodeCondition(c)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, encoded...)
	}
	args = append(args, len(txn.Writes))
	for _, w := range txn.Writes {
		encoded, err := encodeWrite(w)
		if err != nil {
			return nil, nil, err
		}
		args = append(args, encoded...)
	}
	for _, e := range txn.Events {
		keys = append(keys, k.changes(e.Location))
		args = append(args, encodeNames(e))
	}
	return keys, args, nil
}

// encodeCondition writes a condition as the arguments that commit.lua describes.
func encodeCondition(c admin.Condition) ([]any, error) {
	switch c := c.(type) {
	case admin.Exists:
		return []any{"exists", string(c.Key), c.Etag}, nil
	case admin.Absent:
		return []any{"absent", string(c.Key)}, nil
	case admin.Unchanged:
		return []any{"unchanged", string(c.Key), c.Sequence}, nil
	case admin.FewerThan:
		all := newSpan(admin.Query{Collection: c.Collection})
		return []any{"fewer", all.min, all.max, c.N}, nil
	default:
		return nil, fmt.Errorf("committing: %w: unknown condition %T", admin.ErrUnavailable, c)
	}
}

// encodeWrite writes a write as the arguments that commit.lua describes.
func encodeWrite(w admin.Write) ([]any, error) {
	switch w := w.(type) {
	case admin.Put:
		return []any{
			"put", member(w.Key), string(w.Key), w.Value, w.Etag, encodeExpiry(w.ExpireTime), w.Sequence,
		}, nil
	case admin.Delete:
		return []any{"delete", member(w.Key)}, nil
	case admin.DeleteCollection:
		all := newSpan(admin.Query{Collection: w.Collection})
		return []any{"clear", all.min, all.max}, nil
	case admin.TrimCollection:
		all := newSpan(admin.Query{Collection: w.Collection})
		return []any{"trim", all.min, all.max, w.Keep}, nil
	case admin.ExpireCollection:
		all := newSpan(admin.Query{Collection: w.Collection})
		return []any{"expire", all.min, all.max, encodeExpiry(w.ExpireTime)}, nil
	default:
		return nil, fmt.Errorf("committing: %w: unknown write %T", admin.ErrUnavailable, w)
	}
}

// encodeNames joins names by blanks, which no name contains.
func encodeNames(e admin.Event) string {
	names := make([]string, len(e.Policies))
	for i, name := range e.Policies {
		names[i] = string(name)
	}
	return strings.Join(names, " ")
}
