package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// RestoreNewer stores again what a sidecar has saved of policies of which the store has an older
// version (another content, by a change with a lower number), and deletes those again whose
// deletion the store has lost. Revisions and experiments that the store has stay as they are. What
// the store has of everything else, such as bindings, counts from now on, also if it has gone back. It
// returns what it stored, in name order.
//
// A node may decide by a newer version than is saved, which would be lost: the error wraps [ErrNotNewest] then.
func (r Recovery) RestoreNewer(ctx context.Context) ([]Version, error) {
	older, err := r.older(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.checkNewest(ctx); err != nil {
		return nil, err
	}
	c := change{accepts: true}
	for _, name := range slices.Sorted(maps.Keys(older)) {
		stored := older[name]
		writes, err := r.newer(ctx, stored)
		if err != nil {
			return nil, err
		}
		c.replace(stored, writes...)
	}
	return r.commit(ctx, c)
}

// ErrNotNewest says that a node decides by a newer version of a policy than is saved.
var ErrNotNewest = errors.New("a sidecar decides by a newer version than the snapshot file has")

// checkNewest returns an error if a node reports a newer version of a policy than is saved.
func (r Recovery) checkNewest(ctx context.Context) error {
	nodes, err := r.Store.Nodes(ctx, r.Location)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		unstored := authz.UnstoredPolicies(n.Node)
		for _, name := range slices.Sorted(maps.Keys(unstored)) {
			if unstored[name] > r.Saved.Policies[name].Sequence {
				return fmt.Errorf("%w, of %s: use the file of the sidecar %s", ErrNotNewest, name.ID(), authz.ResourceName(n.Node.GetName()).ID())
			}
		}
	}
	return nil
}

// AcceptOlder stores the older versions that the store has of policies again, as they are and under
// a new number, so that sidecars follow them. It goes by what is saved, and by what the nodes
// report, each of which names ten policies at most. What the
// store has of everything else counts from now on, too. It returns what it stored, in name order.
func (r Recovery) AcceptOlder(ctx context.Context) ([]Version, error) {
	older, err := r.older(ctx)
	if err != nil {
		return nil, err
	}
	reported, err := r.reportedOlder(ctx)
	if err != nil {
		return nil, err
	}
	for _, stored := range reported {
		older[nameOf(stored)] = stored
	}
	c := change{accepts: true, accepted: make(map[authz.PolicyName]authz.PolicyState)}
	for _, name := range slices.Sorted(maps.Keys(older)) {
		stored := older[name]
		c.accepted[name] = stateOf(stored)
		write, err := admin.NewPut(stored.Record.Key, stored.Record.Etag, stored.Policy)
		if err != nil {
			return nil, err
		}
		write.ExpireTime = stored.Record.ExpireTime
		c.replace(stored, write)
	}
	return r.commit(ctx, c)
}

// stored returns what the store has of policies, without those that are not there or cannot be
// read, in the order of the names.
func (r Recovery) stored(ctx context.Context, names []authz.PolicyName) ([]admin.StoredPolicy, error) {
	records, err := r.Store.Get(ctx, keysOf(names)...)
	if err != nil {
		return nil, err
	}
	var out []admin.StoredPolicy
	for _, record := range records {
		if record.Key == "" {
			continue
		}
		if policy, err := admin.Decode(record, &adminpb.Policy{}); err == nil {
			out = append(out, admin.StoredPolicy{Record: record, Policy: policy})
		}
	}
	return out, nil
}

// older returns the policies of which the store has an older version than is saved.
func (r Recovery) older(ctx context.Context) (map[authz.PolicyName]admin.StoredPolicy, error) {
	all, err := r.stored(ctx, slices.Sorted(maps.Keys(r.Saved.Policies)))
	if err != nil {
		return nil, err
	}
	out := make(map[authz.PolicyName]admin.StoredPolicy)
	for _, p := range all {
		if saved := r.Saved.Policies[nameOf(p)]; p.Record.Sequence < saved.Sequence && differs(p, saved) {
			out[nameOf(p)] = p
		}
	}
	return out, nil
}

// stateOf returns what a sidecar decides by when it follows a stored policy, without its experiments.
func stateOf(p admin.StoredPolicy) authz.PolicyState {
	state := authz.PolicyState{Sequence: p.Record.Sequence}
	if p.Live() {
		state.Policy = p.Policy
	}
	return state
}

func nameOf(p admin.StoredPolicy) authz.PolicyName { return authz.PolicyName(p.Record.Key) }

// differs reports whether a sidecar decides otherwise by what it has saved of a policy. What could never be
// read decides nothing.
func differs(p admin.StoredPolicy, saved authz.PolicyState) bool {
	deleted := !p.Live()
	switch {
	case saved.Gone():
		return !deleted
	case saved.Policy == nil || deleted:
		return saved.Policy != nil
	}
	stored, errStored := authz.Pack(p.Policy)
	wanted, errWanted := authz.Pack(saved.Policy)
	return errStored != nil || errWanted != nil || !stored.SameContent(wanted)
}

// reportedOlder returns the policies of which a node reports that the store has an older version.
func (r Recovery) reportedOlder(ctx context.Context) ([]admin.StoredPolicy, error) {
	nodes, err := r.Store.Nodes(ctx, r.Location)
	if err != nil {
		return nil, err
	}
	var names []authz.PolicyName
	for _, n := range nodes {
		names = slices.AppendSeq(names, maps.Keys(authz.StalePolicies(n.Node)))
	}
	slices.Sort(names)
	return r.stored(ctx, slices.Compact(names))
}

// newer returns the writes that put the saved version of a policy, or its deletion, in the place
// of the stored one.
func (r Recovery) newer(ctx context.Context, stored admin.StoredPolicy) ([]admin.Write, error) {
	saved := r.Saved.Policies[nameOf(stored)]
	if saved.Gone() {
		_, write, err := admin.SoftDeletion(stored.Policy, time.Now())
		return admin.DeletionWrites(write), err
	}
	var writes []admin.Write
	if !stored.Live() {
		writes = admin.UndeletionWrites(stored.Record.Key)
	}
	puts, err := r.puts(ctx, saved)
	return append(writes, puts...), err
}
