package redisstore

import (
	"context"
	"maps"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"understudy/admin"
	"understudy/authz"
)

// Load implements authz.Feed. The answer may take its time, so a connection that does not
// answer any more is found out before.
func (s *Store) Load(ctx context.Context, location authz.Location) (authz.Update, error) {
	err := call(ctx, "loading "+string(location), func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, shortTimeout)
		defer cancel()
		return s.bulk.Ping(ctx).Err()
	})
	if err != nil {
		return authz.Update{}, err
	}
	found, err := s.read(ctx, "loading "+string(location), request{
		headOf: location,
		spans: []span{
			newSpan(admin.Query{Collection: admin.Collection(location + "/policies")}),
			newSpan(admin.Query{Collection: admin.Collection(location + "/policies/-/experiments")}),
		},
		bulk: true,
	})
	if err != nil {
		return authz.Update{}, err
	}
	return authz.Update{Cursor: found.head, Policies: decodeStates(found.records)}, nil
}

// Next implements authz.Feed.
func (s *Store) Next(ctx context.Context, location authz.Location, after authz.Cursor) (authz.Update, error) {
	for {
		changes, err := s.changesAfter(ctx, location, after)
		if err != nil {
			return authz.Update{}, err
		}
		if len(changes) > 0 {
			return s.readChanged(ctx, location, changes)
		}
		if err := s.watches.await(ctx, location, after); err != nil {
			return authz.Update{}, err
		}
	}
}

// change is an entry of a location's stream.
type change struct {
	cursor, previous authz.Cursor
	policies         []authz.PolicyName
}

// changesAfter returns all changes after a cursor, which may be none. The head is
// always kept: if neither the cursor's change nor one that follows it is there, the
// cursor is not of this stream.
func (s *Store) changesAfter(
	ctx context.Context, location authz.Location, after authz.Cursor,
) ([]change, error) {
	doing := "following " + string(location)
	var entries []redis.XMessage
	err := call(ctx, doing, func(ctx context.Context) (err error) {
		stream := keysOf(string(location)).changes()
		entries, err = s.short.XRange(ctx, stream, strconv.FormatInt(after.Sequence, 10), "+").Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	changes := make([]change, len(entries))
	for i, entry := range entries {
		changes[i] = decodeChange(entry)
	}
	if len(changes) > 0 && changes[0].cursor == after {
		return changes[1:], unbroken(changes)
	}
	if after == (authz.Cursor{}) || len(changes) > 0 {
		return changes, unbroken(append([]change{{cursor: after}}, changes...))
	}
	return nil, authz.ErrTrimmed
}

// unbroken returns ErrTrimmed unless each change follows the one before it.
func unbroken(changes []change) error {
	for i := range changes[1:] {
		if changes[i+1].previous != changes[i].cursor {
			return authz.ErrTrimmed
		}
	}
	return nil
}

// unknownCursor is that of no change.
var unknownCursor = authz.Cursor{Sequence: -1}

// decodeChange decodes a change. One that is damaged follows no other, so that who comes
// to it loads everything.
func decodeChange(entry redis.XMessage) (c change) {
	sequence, _, _ := strings.Cut(entry.ID, "-")
	nonce, _ := entry.Values["nonce"].(string)
	var err error
	if c.cursor, err = decodeCursor(sequence, nonce); err != nil {
		return change{unknownCursor, unknownCursor, nil}
	}
	previous, _ := entry.Values["previous"].(string)
	sequence, nonce, _ = strings.Cut(previous, " ")
	if c.previous, err = decodeCursor(sequence, nonce); err != nil {
		c.previous = unknownCursor
	}
	names, _ := entry.Values["policies"].(string)
	for _, name := range strings.Fields(names) {
		c.policies = append(c.policies, authz.PolicyName(name))
	}
	return c
}

// readChanged reads the policies that changes touched as they are now.
func (s *Store) readChanged(
	ctx context.Context, location authz.Location, changes []change,
) (authz.Update, error) {
	update := authz.Update{
		Cursor:   changes[len(changes)-1].cursor,
		Policies: make(map[authz.PolicyName]authz.PolicyState),
	}
	r := request{bulk: true}
	for _, c := range changes {
		for _, name := range c.policies {
			if _, known := update.Policies[name]; known {
				continue
			}
			update.Policies[name] = authz.PolicyState{}
			r.names = append(r.names, string(name))
			r.spans = append(r.spans, newSpan(admin.Query{Collection: admin.Collection(name + "/experiments")}))
		}
	}
	found, err := s.read(ctx, "following "+string(location), r)
	if err != nil {
		return authz.Update{}, err
	}
	maps.Copy(update.Policies, decodeStates(found.records))
	return update, nil
}

// decodeStates puts each policy together with its experiments, which come behind
// the policies and in name order. Experiments without a policy are none.
func decodeStates(records []admin.Record) map[authz.PolicyName]authz.PolicyState {
	policies := make(map[authz.PolicyName]authz.StoredResource)
	experiments := make(map[authz.PolicyName][]authz.StoredResource)
	for _, r := range records {
		policy, _, isExperiment := strings.Cut(string(r.Key), "/experiments/")
		name := authz.PolicyName(policy)
		if isExperiment {
			experiments[name] = append(experiments[name], r.Resource())
		} else {
			policies[name] = r.Resource()
		}
	}
	states := make(map[authz.PolicyName]authz.PolicyState, len(policies))
	for name, stored := range policies {
		states[name] = authz.DecodePolicyState(stored, experiments[name])
	}
	return states
}
