package library

import (
	"context"
	"maps"
	"slices"

	"understudy/admin"
	"understudy/admin/apierror"
	"understudy/authz"
)

// Group is a policy group and what is active in it.
type Group struct {
	ID GroupID
	// Next is where its policies are promoted to; empty if nowhere. A list of groups
	// leaves it out.
	Next GroupID
	// Active :: policy → its active revision.
	Active map[authz.PolicyID]RevisionID
}

// Groups returns all groups in the order of their names.
func (l *Library) Groups(ctx context.Context) ([]Group, error) {
	records, err := l.list(ctx, l.root.In("groups"))
	if err != nil {
		return nil, err
	}
	groups := make(map[GroupID]Group)
	for _, r := range records {
		id := GroupID(r.Key.ID())
		groups[id] = Group{ID: id, Active: map[authz.PolicyID]RevisionID{}}
	}
	policies, err := l.policies(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		if !p.Readable() {
			continue
		}
		id := groupOf(p.Record.Key)
		if _, known := groups[id]; !known {
			groups[id] = Group{ID: id, Active: map[authz.PolicyID]RevisionID{}}
		}
		groups[id].Active[idOf(p)] = revisionOf(p)
	}
	out := make([]Group, 0, len(groups))
	for _, id := range slices.Sorted(maps.Keys(groups)) {
		out = append(out, groups[id])
	}
	return out, nil
}

// Group returns one group as it was at one instant. The error is NOT_FOUND if there is
// none.
func (l *Library) Group(ctx context.Context, id GroupID) (Group, error) {
	g, err := l.readGroup(ctx, id)
	if err == nil && !g.exists() {
		return Group{}, apierror.NotFound(l.locationOf(id))
	}
	return g.Group, err
}

// storedGroup is a group as it was read, or the knowledge that there is none.
type storedGroup struct {
	Group
	mark   admin.Record
	config admin.StoredConfig
	// policies are those of its location, also the soft-deleted.
	policies []admin.StoredPolicy
}

// exists reports whether there is such a group: it was made by SetGroup, or by making a
// policy active in it, through either API.
func (g storedGroup) exists() bool { return g.mark.Key != "" || len(g.Active) > 0 }

// readGroup reads all of a group at one instant: what makes a group, and what removes
// it, changes its mark.
func (l *Library) readGroup(ctx context.Context, id GroupID) (storedGroup, error) {
	for range admin.MaxAttempts {
		g, err := l.readGroupOnce(ctx, id)
		if err != nil {
			return g, err
		}
		again, err := l.s.Get(ctx, l.groupKey(id))
		if err != nil {
			return g, err
		}
		if again[0].Key == g.mark.Key && again[0].Sequence == g.mark.Sequence {
			return g, nil
		}
	}
	return storedGroup{}, apierror.ConcurrentChange(l.locationOf(id))
}

// readGroupOnce reads the parts of a group one after another; readGroup checks that they
// are of one instant.
func (l *Library) readGroupOnce(ctx context.Context, id GroupID) (storedGroup, error) {
	g := storedGroup{Group: Group{ID: id, Active: map[authz.PolicyID]RevisionID{}}}
	location := l.locationOf(id)
	records, err := l.s.Get(ctx, l.groupKey(id), admin.ConfigOf(location))
	if err != nil {
		return g, err
	}
	g.mark = records[0]
	if g.config, err = l.s.AsConfig(ctx, admin.ConfigOf(location), records[1]); err != nil {
		return g, err
	}
	if next := g.config.Next(); next != "" {
		g.Next = GroupID(next.ID())
	}
	g.policies, err = l.policiesIn(ctx, admin.Query{Collection: location.In("policies")})
	for _, p := range g.policies {
		if p.Readable() {
			g.Active[idOf(p)] = revisionOf(p)
		}
	}
	return g, err
}

// SetGroup makes a group, if there is none yet, and says where its policies are
// promoted to; empty means nowhere. It returns the group and whether it made it. The
// error is INVALID_ARGUMENT if the policies would come back.
func (l *Library) SetGroup(ctx context.Context, group, next GroupID) (_ Group, created bool, err error) {
	var g storedGroup
	err = l.s.Commit(ctx, l.groupKey(group), func(ctx context.Context) (_ admin.Txn, err error) {
		if g, err = l.readGroup(ctx, group); err != nil {
			return admin.Txn{}, err
		}
		txn, err := l.groupUpdate(ctx, g, next)
		created, g.Next = !g.exists(), next
		return txn, err
	})
	return g.Group, created, err
}

// groupUpdate works out the change of a group's configuration.
func (l *Library) groupUpdate(ctx context.Context, g storedGroup, next GroupID) (admin.Txn, error) {
	txn := admin.Txn{
		Conditions: []admin.Condition{admin.UnchangedRecord(l.groupKey(g.ID), g.mark)},
		Writes:     []admin.Write{present(l.groupKey(g.ID))},
	}
	if next == g.Next {
		txn.Conditions = append(txn.Conditions, g.config.Unchanged())
		return txn, nil
	}
	location := ""
	if next != "" {
		location = string(l.locationOf(next))
	}
	u, err := l.s.WithNext(ctx, g.config, location)
	txn.Conditions = append(txn.Conditions, u.Conditions...)
	txn.Writes = append(txn.Writes, u.Write)
	return txn, err
}

// Promote makes what is active in a group active in its next one: the policies that
// are named, or all, in one step or not at all, if may returns nil for each of them. What
// that is, and which group is the next one, is found out with each attempt. It returns the
// next group with the policies that were promoted. The error is FAILED_PRECONDITION if there
// is no next group, it requires more of what becomes active, or one of the policies is a
// no-op that may not be one, and NOT_FOUND if the group or one of the policies is not there.
func (l *Library) Promote(
	ctx context.Context, group GroupID, policies []authz.PolicyID, noOp NoOp, may func(authz.PolicyID) error,
) (Group, error) {
	if _, err := l.Group(ctx, group); err != nil {
		return Group{}, err
	}
	var names []admin.Key
	for _, p := range policies {
		if name := l.policyKey(group, p); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	next := Group{Active: map[authz.PolicyID]RevisionID{}}
	check := noOpCheck{allowed: noOp}
	_, err := l.s.Mutate(ctx, false, func(ctx context.Context) (*admin.Change, error) {
		check.reset()
		p, err := l.s.ReadPromotion(ctx, l.locationOf(group), names, true)
		if err != nil {
			return nil, err
		}
		for _, pair := range p.Pairs {
			if err := may(idOf(pair.Source)); err != nil {
				return nil, err
			}
			if err := check.replacement(pair.Target, pair.Source.Policy); err != nil {
				return nil, err
			}
		}
		c, err := l.s.Promote(ctx, p, false)
		if err != nil {
			return nil, err
		}
		next.ID = GroupID(p.To.ID())
		clear(next.Active)
		for _, pair := range p.Pairs {
			next.Active[idOf(pair.Source)] = revisionOf(pair.Source)
		}
		c.Writes = append(c.Writes, present(l.groupKey(next.ID)))
		return c, nil
	})
	check.log(ctx, l.log, err)
	return next, err
}

// Nodes returns the IDs of the sidecars of a group; if a policy is given, of those
// that enforce it. The error is NOT_FOUND if there is neither a group nor a sidecar.
func (l *Library) Nodes(ctx context.Context, group GroupID, policy authz.PolicyID) ([]string, error) {
	nodes, err := l.s.ReadNodes(ctx, authz.Location(l.locationOf(group)))
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		_, err := l.Group(ctx, group)
		return nil, err
	}
	var out []string
	for _, n := range nodes {
		if policy == "" || slices.Contains(n.Policies, string(l.policyKey(group, policy))) {
			out = append(out, admin.Key(n.Name).ID())
		}
	}
	return out, nil
}

// NodeName returns the resource name of a sidecar.
func (l *Library) NodeName(group GroupID, node string) string {
	return string(l.locationOf(group).In("nodes").Key(node))
}
