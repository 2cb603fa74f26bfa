package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"understudy/admin"
)

const (
	// doneKept is how long a Txn can be repeated.
	doneKept = time.Hour
	// expiredKept is for how long expired records stay, unseen, so that a server
	// whose clock is ahead destroys nothing.
	expiredKept = time.Hour
)

var commitFunction = function{name: "commit"}

// Commit implements admin.Store.
func (s *Store) Commit(ctx context.Context, txn admin.Txn) (int64, error) {
	keys, args, err := s.encodeTxn(txn)
	if err != nil {
		return 0, err
	}
	var reply []any
	err = callOnce(ctx, "committing", func(ctx context.Context) (err error) {
		reply, err = s.run(ctx, s.short, commitFunction, keys, args...).Slice()
		return err
	})
	if err != nil {
		return 0, err
	}
	return decodeCommit(txn, reply)
}

// Watermark implements admin.Store.
func (s *Store) Watermark(ctx context.Context, project string) (watermark int64, err error) {
	of := keysOfProject(project)
	doing := "reading the watermark of " + project
	var stored []any
	err = call(ctx, doing, func(ctx context.Context) (err error) {
		stored, err = s.short.MGet(ctx, of.watermark(), of.sequence()).Result()
		return err
	})
	if err != nil || len(stored) != 2 || stored[0] == nil && stored[1] == nil {
		return 0, err
	}
	if stored[0] == nil {
		return 1, nil // all changes are of a version that kept none
	}
	text, _ := stored[0].(string)
	if watermark, err = strconv.ParseInt(text, 10, 64); err != nil {
		return 0, fmt.Errorf("%s: %w: %w", doing, admin.ErrUnavailable, errReply)
	}
	return watermark, nil
}

// decodeCommit is the result of commit.lua: a sequence, the condition that does not
// hold, or admin.ErrWentBack.
func decodeCommit(txn admin.Txn, reply []any) (int64, error) {
	if len(reply) == 2 {
		word, _ := reply[0].(string)
		n, ok := reply[1].(int64)
		switch {
		case ok && word == "ok":
			return n, nil
		case ok && word == "failed" && int(n) < len(txn.Conditions):
			return 0, &admin.ConditionError{Index: int(n), Condition: txn.Conditions[n]}
		case ok && word == "behind":
			return 0, fmt.Errorf("committing: %w: its watermark is %d, and %d is known", admin.ErrWentBack, n, txn.Known)
		}
	}
	return 0, fmt.Errorf("committing: %w: %w", admin.ErrOutcomeUnknown, errReply)
}

// encodeTxn returns KEYS and ARGV of commit.lua.
func (s *Store) encodeTxn(txn admin.Txn) (keys []string, args []any, err error) {
	var in partitions
	conditions, err := in.encodeConditions(txn.Conditions)
	if err != nil {
		return nil, nil, err
	}
	writes, err := in.encodeWrites(txn.Writes)
	if err != nil {
		return nil, nil, err
	}
	of := keysOfProject(txn.Project)
	keys = append([]string{of.sequence(), of.done(txn.ID), of.locations(), of.watermark()}, in.keys...)
	lowest, raises := txn.Known, ""
	if txn.Accepts {
		lowest = 0
	}
	if txn.Raises {
		raises = "raises"
	}
	args = []any{
		s.now().UnixMilli(), rand.Text(), s.stream, int(doneKept.Seconds()), expiredKept.Milliseconds(),
		lowest, txn.Known, raises, len(in.locations),
	}
	keys = append(keys, in.contents.keys...)
	args = append(append(args, in.locations...), len(in.contents.keys))
	args = append(append(args, conditions...), writes...)
	for _, e := range txn.Events {
		keys = append(keys, keysOf(string(e.Location)).changes())
		args = append(args, encodeNames(e.Policies), encodeNames(e.Datasets))
	}
	return keys, args, nil
}

// partitions are those of a Txn, in the order in which it names them first.
type partitions struct {
	// keys are four of each, and locations the ID of the location of each that is the first of
	// one; empty for others.
	keys      []string
	locations []any
	// numbers :: partition → its number, from 1.
	numbers map[partition]int
	// contents are those that the Txn is about.
	contents contents
}

// number returns the number of the partition of a record.
func (p *partitions) number(name string) int {
	of, location := partitionOf(name)
	if n := p.numbers[of]; n > 0 {
		return n
	}
	if p.numbers == nil {
		p.numbers = make(map[partition]int)
	}
	p.keys = append(p.keys, of.index(), of.versions(), of.values(), of.expiries())
	if slices.Contains(p.locations, any(location)) {
		location = ""
	}
	p.locations = append(p.locations, location)
	p.numbers[of] = len(p.locations)
	return p.numbers[of]
}

// all returns the partition of a collection and the bounds of its records.
func (p *partitions) all(c admin.Collection) (number int, minimum, maximum string) {
	all := newSpan(admin.Query{Collection: c})
	return p.number(string(c) + "/" + anySegment), all.min, all.max
}

// encodeConditions writes conditions as the arguments that commit.lua describes.
func (p *partitions) encodeConditions(conditions []admin.Condition) ([]any, error) {
	args := []any{len(conditions)}
	for _, c := range conditions {
		switch c := c.(type) {
		case admin.Exists:
			args = append(args, "exists", p.number(string(c.Key)), string(c.Key), c.Etag)
		case admin.Absent:
			args = append(args, "absent", p.number(string(c.Key)), string(c.Key))
		case admin.Unchanged:
			args = append(args, "unchanged", p.number(string(c.Key)), string(c.Key), c.Sequence)
		case admin.FewerThan:
			number, minimum, maximum := p.all(c.Collection)
			args = append(args, "fewer", number, minimum, maximum, c.N)
		case admin.Complete:
			args = append(args, p.contents.encodeComplete(c)...)
		default:
			return nil, fmt.Errorf("committing: %w: unknown condition %T", admin.ErrUnavailable, c)
		}
	}
	return args, nil
}

// encodeWrites writes writes as the arguments that commit.lua describes.
func (p *partitions) encodeWrites(writes []admin.Write) ([]any, error) {
	args := []any{len(writes)}
	for _, w := range writes {
		switch w := w.(type) {
		case admin.Put:
			args = append(args, "put", p.number(string(w.Key)), member(w.Key), string(w.Key), w.Value, w.Summary, w.Etag, encodeExpiry(w.ExpireTime), w.Sequence)
		case admin.Delete:
			args = append(args, "delete", p.number(string(w.Key)), member(w.Key))
		case admin.DeleteCollection:
			number, minimum, maximum := p.all(w.Collection)
			args = append(args, "clear", number, minimum, maximum)
		case admin.TrimCollection:
			number, minimum, maximum := p.all(w.Collection)
			args = append(args, "trim", number, minimum, maximum, w.Keep)
		case admin.ExpireCollection:
			number, minimum, maximum := p.all(w.Collection)
			args = append(args, "expire", number, minimum, maximum, encodeExpiry(w.ExpireTime))
		case admin.ExpireContent:
			args = append(args, p.contents.encodeKeep(w)...)
		default:
			return nil, fmt.Errorf("committing: %w: unknown write %T", admin.ErrUnavailable, w)
		}
	}
	return args, nil
}

// encodeNames joins names by blanks, which no name contains.
func encodeNames[N ~string](names []N) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, " ")
}
