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
func (s *Store) Load(ctx context.Context, of authz.Scope) (authz.Update, error) {
	doing := "loading " + string(of.Location)
	err := call(ctx, doing, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, s.answer)
		defer cancel()
		return s.bulk.Ping(ctx).Err()
	})
	if err != nil {
		return authz.Update{}, err
	}
	names, spans := selected(of)
	found, err := s.read(ctx, doing, request{
		headOf: of.Location, names: names, bulk: true,
		spans: append(spans, newSpan(admin.Query{Collection: admin.Collection(of.Location + "/datasets")})),
	})
	if err != nil {
		return authz.Update{}, err
	}
	policies, datasets := decodeStates(found.records)
	return authz.Update{Cursor: found.head, Policies: policies, Datasets: datasets}, nil
}

// selected returns where the policies of a scope are, and their experiments.
func selected(of authz.Scope) (names []string, spans []span) {
	ids, beginnings := of.Policies.Parts()
	for _, id := range ids {
		policy := of.Location.Policy(id)
		names = append(names, string(policy))
		spans = append(spans, newSpan(admin.Query{Collection: admin.Collection(policy + "/experiments")}))
	}
	policies, experiments := admin.Collection(of.Location+"/policies"), admin.Collection(of.Location+"/policies/-/experiments")
	for _, beginning := range beginnings {
		spans = append(spans, spanOf(policies, beginning), spanOf(experiments, beginning))
	}
	return names, spans
}

// Next implements authz.Feed.
func (s *Store) Next(ctx context.Context, of authz.Scope, after authz.Cursor) (authz.Update, error) {
	for {
		changes, err := s.changesAfter(ctx, of.Location, after)
		if err != nil {
			return authz.Update{}, err
		}
		if len(changes) > 0 {
			return s.readChanged(ctx, of, changes)
		}
		if err := s.watches.await(ctx, of.Location, after); err != nil {
			return authz.Update{}, err
		}
	}
}

// change is an entry of a location's stream.
type change struct {
	cursor, previous authz.Cursor
	policies         []authz.PolicyName
	datasets         []authz.DatasetName
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
		return change{cursor: unknownCursor, previous: unknownCursor}
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
	names, _ = entry.Values["datasets"].(string)
	for _, name := range strings.Fields(names) {
		c.datasets = append(c.datasets, authz.DatasetName(name))
	}
	return c
}

// readChanged reads what changes touched of a scope, at the instant of the last change that it covers: if
// there is a later one by then, that is read, too.
func (s *Store) readChanged(
	ctx context.Context, of authz.Scope, changes []change,
) (authz.Update, error) {
	for {
		update, found, err := s.readOnce(ctx, of, changes)
		if err != nil || found == update.Cursor {
			return update, err
		}
		more, err := s.changesAfter(ctx, of.Location, update.Cursor)
		if err != nil {
			return authz.Update{}, err
		}
		changes = append(changes, more...)
	}
}

// readOnce reads what changes touched of a scope as it is now, and the head of the location at that instant.
func (s *Store) readOnce(
	ctx context.Context, of authz.Scope, changes []change,
) (update authz.Update, head authz.Cursor, err error) {
	update = authz.Update{
		Cursor:   changes[len(changes)-1].cursor,
		Policies: make(map[authz.PolicyName]authz.PolicyState), Datasets: make(map[authz.DatasetName]authz.DatasetState),
	}
	r := request{bulk: true, headOf: of.Location}
	for _, c := range changes {
		r.names, r.spans = c.addTo(of, update, r.names, r.spans)
	}
	found, err := s.read(ctx, "following "+string(of.Location), r)
	if err != nil {
		return authz.Update{}, authz.Cursor{}, err
	}
	policies, datasets := decodeStates(found.records)
	maps.Copy(update.Policies, policies)
	maps.Copy(update.Datasets, datasets)
	return update, found.head, nil
}

// addTo names in an update what a change touched of a scope, and adds what of it is to be read.
func (c change) addTo(of authz.Scope, update authz.Update, names []string, spans []span) ([]string, []span) {
	for _, name := range c.policies {
		if _, known := update.Policies[name]; known || !of.Has(name) {
			continue
		}
		update.Policies[name] = authz.PolicyState{}
		names = append(names, string(name))
		spans = append(spans, newSpan(admin.Query{Collection: admin.Collection(name + "/experiments")}))
	}
	for _, name := range c.datasets {
		if _, known := update.Datasets[name]; known {
			continue
		}
		update.Datasets[name] = authz.DatasetState{}
		names = append(names, string(name))
	}
	return names, spans
}

// decodeStates puts each policy together with its experiments, which come behind
// the policies and in name order. Experiments without a policy are none.
func decodeStates(records []admin.Record) (map[authz.PolicyName]authz.PolicyState, map[authz.DatasetName]authz.DatasetState) {
	policies := make(map[authz.PolicyName]authz.StoredResource)
	experiments := make(map[authz.PolicyName][]authz.StoredResource)
	datasets := make(map[authz.DatasetName]authz.DatasetState)
	for _, r := range records {
		resource := authz.ResourceName(r.Key)
		name := resource.Policy()
		switch {
		case kind(string(r.Key)) == "projects/locations/datasets":
			datasets[authz.DatasetName(r.Key)] = authz.DecodeDatasetState(r.Resource())
		case resource.Experiment() != "":
			experiments[name] = append(experiments[name], r.Resource())
		default:
			policies[name] = r.Resource()
		}
	}
	states := make(map[authz.PolicyName]authz.PolicyState, len(policies))
	for name, stored := range policies {
		states[name] = authz.DecodePolicyState(stored, experiments[name])
	}
	return states, datasets
}
