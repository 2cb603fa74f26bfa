package recovery

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// RestoreNewer stores again what a sidecar has saved of policies of which the store has an older
// version (another content, by a change with a lower number), and deletes those again whose
// deletion the store has lost. Revisions and experiments that the store has stay as they are. It
// returns what it stored, in name order.
func (r Recovery) RestoreNewer(ctx context.Context) ([]authz.PolicyName, error) {
	older, err := r.older(ctx)
	if err != nil {
		return nil, err
	}
	var c change
	for _, name := range slices.Sorted(maps.Keys(older)) {
		stored := older[name]
		writes, err := r.newer(ctx, stored)
		if err != nil {
			return nil, err
		}
		c.replace(stored.record, writes...)
	}
	return c.names, r.commit(ctx, c)
}

// AcceptOlder stores the older versions that the store has of policies again, as they are and under
// a new number, so that sidecars follow them. It goes by what is saved, and by what the nodes
// report, each of which names ten policies at most. It returns what it stored, in name order.
func (r Recovery) AcceptOlder(ctx context.Context) ([]authz.PolicyName, error) {
	older, err := r.older(ctx)
	if err != nil {
		return nil, err
	}
	reported, err := r.reportedOlder(ctx)
	if err != nil {
		return nil, err
	}
	for _, stored := range reported {
		older[stored.name()] = stored
	}
	var c change
	for _, name := range slices.Sorted(maps.Keys(older)) {
		stored := older[name]
		write, err := admin.NewPut(stored.record.Key, stored.record.Etag, stored.policy)
		if err != nil {
			return nil, err
		}
		write.ExpireTime = stored.record.ExpireTime
		c.replace(stored.record, write)
	}
	return c.names, r.commit(ctx, c)
}

// storedPolicy is a policy as the store has it, deleted ones included.
type storedPolicy struct {
	record admin.Record
	policy *adminpb.Policy
}

func (p storedPolicy) name() authz.PolicyName { return authz.PolicyName(p.record.Key) }

// stored returns what the store has of policies, without those that are not there or cannot be
// read, in the order of the names.
func (r Recovery) stored(ctx context.Context, names []authz.PolicyName) ([]storedPolicy, error) {
	keys := make([]admin.Key, len(names))
	for i, name := range names {
		keys[i] = admin.Key(name)
	}
	records, err := r.Store.Get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var out []storedPolicy
	for _, record := range records {
		policy := &adminpb.Policy{}
		if record.Key != "" && record.Resource().Decode(policy) == nil {
			out = append(out, storedPolicy{record, policy})
		}
	}
	return out, nil
}

// older returns the policies of which the store has an older version than is saved.
func (r Recovery) older(ctx context.Context) (map[authz.PolicyName]storedPolicy, error) {
	all, err := r.stored(ctx, slices.Sorted(maps.Keys(r.Saved.Policies)))
	if err != nil {
		return nil, err
	}
	out := make(map[authz.PolicyName]storedPolicy)
	for _, p := range all {
		if saved := r.Saved.Policies[p.name()]; p.record.Sequence < saved.Sequence && p.differs(saved) {
			out[p.name()] = p
		}
	}
	return out, nil
}

// differs reports whether a sidecar decides otherwise by what it has saved. What could never be
// read decides nothing.
func (p storedPolicy) differs(saved authz.PolicyState) bool {
	deleted := p.policy.DeleteTime != nil
	switch {
	case saved.Gone():
		return !deleted
	case saved.Policy == nil || deleted:
		return saved.Policy != nil
	}
	stored, errStored := authz.Pack(p.policy)
	wanted, errWanted := authz.Pack(saved.Policy)
	return errStored != nil || errWanted != nil || !stored.SameContent(wanted)
}

// reportedOlder returns the policies of which a node reports that the store has an older version.
func (r Recovery) reportedOlder(ctx context.Context) ([]storedPolicy, error) {
	nodes, err := r.Store.Nodes(ctx, r.Location)
	if err != nil {
		return nil, err
	}
	var names []authz.PolicyName
	for _, n := range nodes {
		for _, d := range status.FromProto(n.Node.GetError()).Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok && info.Reason == authz.ReasonStale {
				names = append(names, authz.PolicyName(info.Metadata["resource"]))
			}
		}
	}
	slices.Sort(names)
	return r.stored(ctx, slices.Compact(names))
}

// newer returns the writes that put the saved version of a policy, or its deletion, in the place
// of the stored one.
func (r Recovery) newer(ctx context.Context, stored storedPolicy) ([]admin.Write, error) {
	saved := r.Saved.Policies[stored.name()]
	if saved.Gone() {
		_, write, err := admin.SoftDeletion(stored.policy, time.Now())
		return admin.DeletionWrites(write), err
	}
	var writes []admin.Write
	if stored.policy.DeleteTime != nil {
		writes = admin.UndeletionWrites(stored.record.Key)
	}
	puts, err := r.puts(ctx, saved)
	return append(writes, puts...), err
}
