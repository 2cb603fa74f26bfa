package library

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/emptypb"

	"understudy/admin"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Deactivate takes a policy out of a group and returns the lock that was active. The
// lock and the group stay; the location's policy is soft-deleted (AIP-164). Of a policy
// that cannot be read the lock is empty.
func (l *Library) Deactivate(ctx context.Context, group GroupID, policy authz.PolicyID) (Lock, error) {
	var was Lock
	name := l.policyKey(group, policy)
	_, err := l.s.Mutate(ctx, false, func(ctx context.Context) (*admin.Change, error) {
		lock, stored, err := l.readActive(ctx, name)
		if stored.Damage != nil {
			lock, err = Lock{Policy: policy, Content: &adminpb.Policy{}}, nil
		}
		if err != nil {
			return nil, err
		}
		was = lock
		c, err := l.s.PolicyDeletion(stored)
		if err != nil {
			return nil, err
		}
		c.Writes = append(c.Writes, present(l.groupKey(group)))
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
	err := l.s.Commit(ctx, key, func(ctx context.Context) (admin.Txn, error) {
		// The mark first: whatever is made live from here on changes it.
		marks, err := l.s.Get(ctx, key)
		if err != nil {
			return admin.Txn{}, err
		}
		k, err := l.find(ctx, policy, revision)
		if err != nil {
			return admin.Txn{}, err
		}
		if !k.known() {
			return admin.Txn{}, apierror.NotFound(key)
		}
		if k.document.Key != "" && marks[0].Key == "" {
			return admin.Txn{}, admin.ErrChanged
		}
		for _, p := range k.policies {
			// It may be this revision that is active there.
			if p.Live() && p.Damage != nil {
				return admin.Txn{}, p.Damage
			}
		}
		if len(k.active()) > 0 {
			return admin.Txn{}, apierror.Precondition(key, apierror.ReasonRevisionActive, "It is active in a group. Make another one active there first.")
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
func (l *Library) revisionRemoval(k storedRevision, mark admin.Record) admin.Txn {
	key := l.revisionKey(k.policy, k.revision)
	txn := admin.Txn{
		Conditions: []admin.Condition{admin.UnchangedRecord(key, mark)},
		Writes:     []admin.Write{admin.Delete{Key: k.document.Key}, admin.Delete{Key: key}, present(l.nameKey(k.policy))},
	}
	for _, p := range k.policies {
		txn.Conditions = append(txn.Conditions, p.Unchanged())
		txn.Writes = append(txn.Writes, admin.Delete{Key: p.Record.Key.In("revisions").Key(string(k.revision))})
	}
	return txn
}

// RemovePolicy removes all documents of a policy and takes it out of all groups, if may
// returns nil for each group in which it is active. It returns the revisions that it had.
func (l *Library) RemovePolicy(ctx context.Context, policy authz.PolicyID, may func(GroupID) error) ([]RevisionID, error) {
	var had []RevisionID
	name := l.nameKey(policy)
	err := l.s.Commit(ctx, name, func(ctx context.Context) (admin.Txn, error) {
		n, err := l.readName(ctx, policy)
		switch {
		case err != nil:
			return admin.Txn{}, err
		case !n.exists():
			return admin.Txn{}, apierror.NotFound(name)
		case n.mark.Key == "" && len(n.documents) > 0:
			return admin.Txn{}, admin.ErrChanged
		}
		for _, p := range n.policies {
			if !p.Live() {
				continue
			}
			if err := may(groupOf(p.Record.Key)); err != nil {
				return admin.Txn{}, err
			}
		}
		had = n.revisions()
		txn, err := l.nameRemoval(name, n)
		if err != nil {
			return admin.Txn{}, err
		}
		guards, err := l.notPromoted(ctx, n.policies)
		txn.Conditions = append(txn.Conditions, guards...)
		return txn, err
	})
	return had, err
}

// nameRemoval removes what the library has of a policy, and soft-deletes it in every
// location in which it is live.
func (l *Library) nameRemoval(name admin.Key, n storedName) (admin.Txn, error) {
	txn := admin.Txn{
		Conditions: []admin.Condition{admin.UnchangedRecord(name, n.mark)},
		Writes:     []admin.Write{admin.DeleteCollection{Collection: name.In("revisions")}, admin.DeleteCollection{Collection: name.In("locks")}, admin.Delete{Key: name}},
	}
	// Anyone who makes a policy of this name later is asked for permissions of its own.
	txn.Writes = append(txn.Writes, admin.Delete{Key: admin.IAMPolicyOf(l.policyKey(admin.ReservedLocation, authz.PolicyID(name.ID())))})
	for _, p := range n.policies {
		txn.Conditions = append(txn.Conditions, p.Unchanged())
		if !p.Live() {
			continue
		}
		c, err := l.s.PolicyDeletion(p)
		if err != nil {
			return admin.Txn{}, err
		}
		txn.Writes = append(append(txn.Writes, c.Writes...), present(l.groupKey(groupOf(p.Record.Key))))
		txn.Events = append(txn.Events, admin.Event{Location: p.Record.Key.Location(), Policies: []authz.PolicyName{authz.PolicyName(p.Record.Key)}})
	}
	return txn, nil
}

// notPromoted returns the conditions under which live policies are not promoted to
// where there is none of the name: such a promotion leaves its source as it is.
func (l *Library) notPromoted(ctx context.Context, policies []admin.StoredPolicy) ([]admin.Condition, error) {
	var out []admin.Condition
	for _, p := range policies {
		if !p.Live() {
			continue
		}
		config, err := l.s.ReadConfig(ctx, admin.ConfigOf(admin.Key(p.Record.Key.Location())))
		if err != nil {
			return nil, err
		}
		out = append(out, config.Unchanged())
		if config.Next() == "" {
			continue
		}
		target := config.Next().In("policies").Key(string(idOf(p)))
		if !slices.ContainsFunc(policies, func(other admin.StoredPolicy) bool { return other.Record.Key == target }) {
			out = append(out, admin.Absent{Key: target})
		}
	}
	return out, nil
}

// RemoveGroup removes a group with what is active in it, in one step, and returns it
// as it was. Documents stay.
func (l *Library) RemoveGroup(ctx context.Context, group GroupID) (Group, error) {
	var was Group
	location := l.locationOf(group)
	_, err := l.s.Mutate(ctx, false, func(ctx context.Context) (*admin.Change, error) {
		g, err := l.readGroup(ctx, group)
		if err != nil {
			return nil, err
		}
		if !g.exists() {
			return nil, apierror.NotFound(location)
		}
		was = g.Group
		c := &admin.Change{Target: location, Verb: admin.VerbDelete, Response: &emptypb.Empty{}, ExistingSequence: admin.NoSequence}
		c.Conditions = []admin.Condition{
			admin.UnchangedRecord(l.groupKey(group), g.mark), g.config.Unchanged(),
			admin.FewerThan{Collection: location.In("policies"), N: len(g.policies) + 1},
		}
		c.Writes = []admin.Write{admin.Delete{Key: l.groupKey(group)}, admin.ConfigRemoval(ctx, g.config)}
		return c, l.removeAll(c, g.policies)
	})
	return was, err
}

// removeAll adds the soft deletion of policies to a change.
func (l *Library) removeAll(c *admin.Change, policies []admin.StoredPolicy) error {
	for _, p := range policies {
		c.Conditions = append(c.Conditions, p.Unchanged())
		if !p.Live() {
			continue
		}
		deletion, err := l.s.PolicyDeletion(p)
		if err != nil {
			return err
		}
		c.Writes = slices.Concat(c.Writes, deletion.Writes)
		c.Policies = append(c.Policies, authz.PolicyName(p.Record.Key))
		c.ExistingSequence = 0
	}
	return nil
}
