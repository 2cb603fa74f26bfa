package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Recovery is what becomes of the policies of a location whose store has lost them, or their last
// changes. Its
// methods write to the store itself, with or without a Server on it: a Txn each, so that
// sidecars see all of it or nothing.
type Recovery struct {
	// Store is the store that has lost them. Required.
	Store admin.Store
	// Location is the location. Required.
	Location authz.Location
	// Saved is what a sidecar of the location has saved. AcceptLoss and AcceptOlder do without.
	Saved authz.Update
	// ValidateOnly checks everything and changes nothing.
	ValidateOnly bool
}

// Version is what a policy is for the sidecars after a method of [Recovery], or would be.
type Version struct {
	Name authz.PolicyName
	// State is what was saved of the policy, or what the store has of it if that is accepted. Its Policy is nil if
	// neither is known.
	State authz.PolicyState
}

// ErrNotEmpty says that a location has policies of its own, or had some lately.
var ErrNotEmpty = errors.New("the location has policies")

// ErrChanged says that a policy was changed after it was read: nothing was stored.
var ErrChanged = errors.New("a policy was changed just now, and nothing was stored: try again")

// Restore stores the saved policies again, with their ACTIVE experiments, under the
// etags that they had; one that no sidecar could ever read is left out. The location has
// to have no policy, not even a deleted one: otherwise the error wraps ErrNotEmpty. If a node decides by a newer version
// than is saved, it wraps ErrNotNewest. It returns what it stored, in name order.
func (r Recovery) Restore(ctx context.Context) ([]Version, error) {
	present, err := r.Store.ListSummaries(ctx, admin.Query{Collection: r.policies()})
	if err != nil {
		return nil, err
	}
	if len(present) > 0 {
		return nil, fmt.Errorf("%w: %d, deleted ones included", ErrNotEmpty, len(present))
	}
	return r.store(ctx, r.readable())
}

// RestoreMissing stores again those of the saved policies that the location knows
// nothing of. What is there stays as it is, deleted policies too, and revisions and
// experiments whose policy alone was lost: a Redis that evicts drops records one by one. If a node decides by a newer
// version than is saved, the error wraps ErrNotNewest.
func (r Recovery) RestoreMissing(ctx context.Context) ([]Version, error) {
	missing, err := unknown(ctx, r, r.readable())
	if err != nil {
		return nil, err
	}
	return r.store(ctx, missing)
}

// AcceptLoss deletes the policies that the location knows nothing of, of those that are
// saved and those that its nodes report. They become soft-deleted policies: the
// sidecars drop them, those that are away now as soon as they load, and for 30 days what
// was saved can be undeleted. It returns what it deleted, in name order.
func (r Recovery) AcceptLoss(ctx context.Context) ([]Version, error) {
	nodes, err := r.Store.Nodes(ctx, r.Location)
	if err != nil {
		return nil, err
	}
	var names []authz.PolicyName
	for name, state := range r.Saved.Policies {
		if !state.Gone() {
			names = append(names, name)
		}
	}
	for _, n := range nodes {
		for _, name := range n.Node.Policies {
			names = append(names, authz.PolicyName(name))
		}
	}
	slices.Sort(names)
	lost, err := unknown(ctx, r, slices.Compact(names))
	if err != nil {
		return nil, err
	}
	var c change
	for _, name := range lost {
		write, err := r.deletionOf(name)
		if err != nil {
			return nil, err
		}
		c.create(name, admin.DeletionWrites(write)...)
	}
	return r.commit(ctx, c)
}

// readable returns the saved policies in name order, without those that no sidecar could
// ever read: of them only the names are saved.
func (r Recovery) readable() []authz.PolicyName {
	var names []authz.PolicyName
	for _, name := range slices.Sorted(maps.Keys(r.Saved.Policies)) {
		if r.Saved.Policies[name].Policy != nil {
			names = append(names, name)
		}
	}
	return names
}

func (r Recovery) policies() admin.Collection { return admin.Collection(r.Location + "/policies") }

// keysOf returns the keys of resources.
func keysOf[N ~string](names []N) []admin.Key {
	keys := make([]admin.Key, len(names))
	for i, name := range names {
		keys[i] = admin.Key(name)
	}
	return keys
}

// unknown returns those of the names of which the store has no record.
func unknown[N ~string](ctx context.Context, r Recovery, names []N) ([]N, error) {
	records, err := r.Store.Summaries(ctx, keysOf(names)...)
	if err != nil {
		return nil, err
	}
	var out []N
	for i, record := range records {
		if record.Key == "" {
			out = append(out, names[i])
		}
	}
	return out, nil
}

// store stores saved policies that are not there.
func (r Recovery) store(ctx context.Context, names []authz.PolicyName) ([]Version, error) {
	if err := r.checkNewest(ctx); err != nil {
		return nil, err
	}
	var c change
	for _, name := range names {
		writes, err := r.puts(ctx, r.Saved.Policies[name])
		if err != nil {
			return nil, err
		}
		c.create(name, writes...)
	}
	return r.commit(ctx, c)
}

// puts returns the writes that store a saved policy, with what is not there of its revision and
// its experiments.
func (r Recovery) puts(ctx context.Context, state authz.PolicyState) ([]admin.Write, error) {
	live, revision, err := admin.RestoredPuts(state.Policy)
	if err != nil {
		return nil, err
	}
	below := []admin.Put{revision}
	for _, e := range state.Experiments {
		write, err := admin.NewPut(admin.Key(e.Name), e.Etag, e)
		if err != nil {
			return nil, err
		}
		below = append(below, write)
	}
	missing, err := r.missing(ctx, below)
	return append([]admin.Write{live}, missing...), err
}

// missing returns those of the writes of which the store has no record.
func (r Recovery) missing(ctx context.Context, puts []admin.Put) ([]admin.Write, error) {
	keys := make([]admin.Key, len(puts))
	for i, p := range puts {
		keys[i] = p.Key
	}
	unknown, err := unknown(ctx, r, keys)
	if err != nil {
		return nil, err
	}
	var out []admin.Write
	for _, p := range puts {
		if slices.Contains(unknown, p.Key) {
			out = append(out, p)
		}
	}
	return out, nil
}

// deletionOf stores what is saved of a policy, or else its name, as a soft-deleted one.
func (r Recovery) deletionOf(name authz.PolicyName) (admin.Put, error) {
	now := time.Now()
	policy := r.Saved.Policies[name].Policy
	if policy == nil {
		policy = &adminpb.Policy{Name: string(name), Uid: admin.NewID(), CreateTime: timestamppb.New(now)}
		if err := admin.NameContent(policy, ""); err != nil {
			return admin.Put{}, err
		}
	}
	_, write, err := admin.SoftDeletion(policy, now)
	return write, err
}

// change is what is written about policies, if each of them is still as it was read.
type change struct {
	names []authz.PolicyName
	// accepted are the policies that stay as the store has them.
	accepted   map[authz.PolicyName]authz.PolicyState
	conditions []admin.Condition
	writes     []admin.Write
	// accepts says that what the store has of everything else counts from now on.
	accepts bool
}

// create adds the writes about a policy that is not there.
func (c *change) create(name authz.PolicyName, writes ...admin.Write) {
	c.names, c.writes = append(c.names, name), append(c.writes, writes...)
	c.conditions = append(c.conditions, admin.Absent{Key: admin.Key(name)})
}

// replace adds the writes about a policy that is there.
func (c *change) replace(p admin.StoredPolicy, writes ...admin.Write) {
	c.names, c.writes = append(c.names, nameOf(p)), append(c.writes, writes...)
	c.conditions = append(c.conditions, p.Unchanged())
}

// watermarks returns the watermark of the store, and the highest that is saved or that a node
// reports.
func (r Recovery) watermarks(ctx context.Context) (stored, known int64, err error) {
	if stored, err = r.Store.Watermark(ctx, admin.Key(r.Location).Project()); err != nil {
		return 0, 0, err
	}
	reports, err := r.Store.Nodes(ctx, r.Location)
	return stored, max(r.Saved.Watermark, admin.KnownWatermark(reports)), err
}

// versions returns the policies of a change, in its order.
func (r Recovery) versions(c change) []Version {
	var out []Version
	for _, name := range c.names {
		state, accepted := c.accepted[name]
		if !accepted {
			state = r.Saved.Policies[name]
		}
		out = append(out, Version{name, state})
	}
	return out
}

// commit makes a change, with an event for the sidecars, and returns its policies. If the store has gone back, it is
// so also afterwards, unless the change accepts that.
func (r Recovery) commit(ctx context.Context, c change) ([]Version, error) {
	if len(c.names) == 0 && !c.accepts || r.ValidateOnly {
		return r.versions(c), nil
	}
	if err := r.write(ctx, c); err != nil {
		return nil, err
	}
	return r.versions(c), nil
}

// write stores a change.
func (r Recovery) write(ctx context.Context, c change) error {
	stored, known, err := r.watermarks(ctx)
	if err != nil || len(c.names) == 0 && stored == 0 {
		return err // an empty store has nothing to accept
	}
	txn := admin.Txn{
		ID: admin.NewID(), Project: admin.Key(r.Location).Project(), Conditions: c.conditions, Writes: c.writes,
		Known: known, Accepts: true, Raises: c.accepts || stored >= known,
	}
	if len(c.names) > 0 {
		txn.Events = []admin.Event{{Location: r.Location, Policies: c.names}}
	}
	_, err = r.Store.Commit(ctx, txn)
	var failed *admin.ConditionError
	if !errors.As(err, &failed) {
		return err
	}
	if _, created := failed.Condition.(admin.Absent); created {
		return fmt.Errorf("%w: one was created just now", ErrNotEmpty)
	}
	return ErrChanged
}
