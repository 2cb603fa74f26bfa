package admin

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/emptypb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Deactivate takes a policy out of a group and returns the lock that was active. The
// lock and the group stay; the location's policy is soft-deleted (AIP-164). Of a policy
// that cannot be read the lock is empty.
func (l *Library) Deactivate(ctx context.Context, group GroupID, policy authz.PolicyID) (Lock, error) {
	var was Lock
	name := l.policyKey(group, policy)
	_, err := l.s.mutate(ctx, false, func(ctx context.Context) (*change, error) {
		lock, stored, err := l.readActive(ctx, name)
		if stored.damage != nil {
			lock, err = Lock{Policy: policy, Content: &adminpb.Policy{}}, nil
		}
		if err != nil {
			return nil, err
		}
		was = lock
		c, err := l.s.policyDeletion(stored)
		if err != nil {
			return nil, err
		}
		c.writes = append(c.writes, present(l.groupKey(group)))
		return c, nil
	})
	return was, err
}

// RemoveRevision removes a revision, also from what locations could roll back to, and
// returns it. The error is
// FAILED_PRECONDITION if it is active in a group: what is live must not vanish
// through clean-up.
func (l *Library) RemoveRevision(
	ctx context.Context, policy authz.PolicyID, revision RevisionID,
) (Lock, error) {
	var was Lock
	key := l.revisionKey(policy, revision)
	err := l.commit(ctx, key, func(ctx context.Context) (Txn, error) {
		// The mark first: whatever is made live from here on changes it.
		marks, err := l.s.store.Get(ctx, key)
		if err != nil {
			return Txn{}, l.s.storeFailed(ctx, "reading "+string(key), err)
		}
		k, err := l.find(ctx, policy, revision)
		if err != nil {
			return Txn{}, err
		}
		if !k.known() {
			return Txn{}, notFound(key)
		}
		if k.document.Key != "" && marks[0].Key == "" {
			return Txn{}, errChanged
		}
		for _, p := range k.policies {
			// It may be this revision that is active there.
			if p.live() && p.damage != nil {
				return Txn{}, p.damage
			}
		}
		if len(k.active()) > 0 {
			return Txn{}, precondition(key, reasonRevisionActive, "It is active in a group. Make another one active there first.")
		}
		if was, err = k.lock(l.format); err != nil {
			// What cannot be read can be removed all the same.
			was = Lock{Policy: policy, Revision: revision, Content: &adminpb.Policy{}}
		}
		return l.revisionRemoval(k, marks[0]), nil
	})
	return was, err
}

// revisionRemoval removes what the library has of a revision, and what locations
// could roll back to. It depends on every policy of the name: none of them may have
// become this revision, and if it was made live in a new place, its mark changed.
func (l *Library) revisionRemoval(k storedRevision, mark Record) Txn {
	key := l.revisionKey(k.policy, k.revision)
	txn := Txn{Conditions: []Condition{unchangedRecord(key, mark)}}
	if k.document.Key != "" {
		txn.Writes = []Write{Delete{k.document.Key}, Delete{key}, present(l.nameKey(k.policy))}
	}
	for _, p := range k.policies {
		txn.Conditions = append(txn.Conditions, p.unchanged())
		txn.Writes = append(txn.Writes, Delete{p.record.Key.in("revisions").key(string(k.revision))})
	}
	return txn
}

// RemovePolicy removes all documents of a policy and takes it out of all groups. It
// returns the revisions that it had.
func (l *Library) RemovePolicy(ctx context.Context, policy authz.PolicyID) ([]RevisionID, error) {
	var had []RevisionID
	name := l.nameKey(policy)
	err := l.commit(ctx, name, func(ctx context.Context) (Txn, error) {
		n, err := l.readName(ctx, policy)
		switch {
		case err != nil:
			return Txn{}, err
		case !n.exists():
			return Txn{}, notFound(name)
		case n.mark.Key == "" && len(n.documents) > 0:
			return Txn{}, errChanged
		}
		had = n.revisions()
		txn, err := l.nameRemoval(name, n)
		if err != nil {
			return Txn{}, err
		}
		guards, err := l.notPromoted(ctx, n.policies)
		txn.Conditions = append(txn.Conditions, guards...)
		return txn, err
	})
	return had, err
}

// nameRemoval removes what the library has of a policy, and soft-deletes it in every
// location in which it is live.
func (l *Library) nameRemoval(name Key, n storedName) (Txn, error) {
	txn := Txn{
		Conditions: []Condition{unchangedRecord(name, n.mark)},
		Writes:     []Write{DeleteCollection{name.in("revisions")}, DeleteCollection{name.in("locks")}, Delete{name}},
	}
	for _, p := range n.policies {
		txn.Conditions = append(txn.Conditions, p.unchanged())
		if !p.live() {
			continue
		}
		c, err := l.s.policyDeletion(p)
		if err != nil {
			return Txn{}, err
		}
		txn.Writes = append(append(txn.Writes, c.writes...), present(l.groupKey(groupOf(p.record.Key))))
		txn.Events = append(txn.Events, Event{p.record.Key.location(), []authz.PolicyName{authz.PolicyName(p.record.Key)}})
	}
	return txn, nil
}

// notPromoted returns the conditions under which live policies are not promoted to
// where there is none of the name: such a promotion leaves its source as it is.
func (l *Library) notPromoted(ctx context.Context, policies []storedPolicy) ([]Condition, error) {
	var out []Condition
	for _, p := range policies {
		if !p.live() {
			continue
		}
		config, err := l.s.readConfig(ctx, configOf(Key(p.record.Key.location())))
		if err != nil {
			return nil, err
		}
		out = append(out, config.unchanged())
		if config.next() == "" {
			continue
		}
		target := config.next().in("policies").key(string(p.id()))
		if !slices.ContainsFunc(policies, func(other storedPolicy) bool { return other.record.Key == target }) {
			out = append(out, Absent{target})
		}
	}
	return out, nil
}

// RemoveGroup removes a group with what is active in it, in one step, and returns it
// as it was. Documents stay.
func (l *Library) RemoveGroup(ctx context.Context, group GroupID) (Group, error) {
	var was Group
	location := l.locationOf(group)
	_, err := l.s.mutate(ctx, false, func(ctx context.Context) (*change, error) {
		g, err := l.readGroup(ctx, group)
		if err != nil {
			return nil, err
		}
		if !g.exists() {
			return nil, notFound(location)
		}
		was = g.Group
		c := &change{target: location, verb: verbDelete, response: &emptypb.Empty{}, settled: noSequence}
		c.conditions = []Condition{
			unchangedRecord(l.groupKey(group), g.mark), g.config.unchanged(),
			FewerThan{location.in("policies"), len(g.policies) + 1},
		}
		c.writes = []Write{Delete{l.groupKey(group)}, Delete{g.config.name}}
		return c, l.removeAll(c, g.policies)
	})
	return was, err
}

// removeAll adds the soft deletion of policies to a change.
func (l *Library) removeAll(c *change, policies []storedPolicy) error {
	for _, p := range policies {
		c.conditions = append(c.conditions, p.unchanged())
		if !p.live() {
			continue
		}
		deletion, err := l.s.policyDeletion(p)
		if err != nil {
			return err
		}
		c.writes = slices.Concat(c.writes, deletion.writes)
		c.policies = append(c.policies, authz.PolicyName(p.record.Key))
		c.settled = 0
	}
	return nil
}
