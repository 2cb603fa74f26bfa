package library

import (
	"context"

	"understudy/admin"
	"understudy/admin/apierror"
	"understudy/authz"
)

// Add stores a lock, which nothing enforces by that. The error is ALREADY_EXISTS if
// its revision is known, and INVALID_ARGUMENT if it does not compile.
func (l *Library) Add(ctx context.Context, lock Lock) error {
	return l.s.Commit(ctx, l.nameKey(lock.Policy), func(ctx context.Context) (admin.Txn, error) {
		k, err := l.find(ctx, lock.Policy, lock.Revision)
		if err != nil {
			return admin.Txn{}, err
		}
		if k.known() {
			return admin.Txn{}, apierror.AlreadyExists(l.revisionKey(lock.Policy, lock.Revision), apierror.ReasonAlreadyExists,
				"A revision cannot be changed.")
		}
		if lock, err = l.admitted(lock); err != nil {
			return admin.Txn{}, err
		}
		if err := l.s.ValidatePolicy(ctx, "lock", lock.Content, nil); err != nil {
			return admin.Txn{}, err
		}
		return admin.Txn{
			Conditions: []admin.Condition{admin.Absent{Key: l.lockKey(lock.Policy, lock.Revision)}},
			Writes:     l.lockWrites(lock),
		}, nil
	})
}

// Activation is a lock that was made active in a group.
type Activation struct {
	Lock Lock
	// Created says that no revision of the policy was active before.
	Created bool
	// Operation is the name of the operation that is done when the sidecars have
	// applied it.
	Operation string
}

// Put makes a lock active in a group, and stores it if its revision is not known; if
// it is, the stored document is meant, whatever the given one says (RFC-042). The error
// is FAILED_PRECONDITION if the lock is a no-op that may not be one.
func (l *Library) Put(ctx context.Context, group GroupID, lock Lock, noOp NoOp) (Activation, error) {
	return l.activate(ctx, group, lock, noOp)
}

// Activate makes a known revision active in a group. The error is NOT_FOUND if it is
// not known, and FAILED_PRECONDITION as that of Put.
func (l *Library) Activate(
	ctx context.Context, group GroupID, policy authz.PolicyID, revision RevisionID, noOp NoOp,
) (Activation, error) {
	return l.activate(ctx, group, Lock{Policy: policy, Revision: revision}, noOp)
}

// activate makes a lock active, by the same change that the other API would make of its
// content. It is worked out again as long as it loses races, so the lock that is returned
// is the one of the last attempt, which was made.
func (l *Library) activate(ctx context.Context, group GroupID, given Lock, noOp NoOp) (Activation, error) {
	var done Activation
	name := l.policyKey(group, given.Policy)
	check := noOpCheck{allowed: noOp}
	op, err := l.s.Mutate(ctx, false, func(ctx context.Context) (*admin.Change, error) {
		check.reset()
		stored, err := l.s.FindPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		a, err := l.resolve(ctx, given)
		if err != nil {
			return nil, err
		}
		done = Activation{Lock: a.lock, Created: !stored.Live()}
		if stored.Readable() && revisionOf(stored) == given.Revision {
			c := admin.UnchangedResource(admin.VerbUpdate, stored.Record, stored.Policy)
			c.Conditions = append(c.Conditions, a.conditions...)
			return c, nil
		}
		if err := check.replacement(stored, a.lock.Content); err != nil {
			return nil, err
		}
		return l.activation(ctx, name, stored, a)
	})
	check.log(ctx, l.log, err)
	done.Operation = op.GetName()
	return done, err
}

// activated is the lock that a call means.
type activated struct {
	lock       Lock
	conditions []admin.Condition
	// Writes put what the library has of it.
	writes []admin.Write
}

// resolve finds the lock that a call means: the known one, else the one that is given.
func (l *Library) resolve(ctx context.Context, given Lock) (activated, error) {
	k, err := l.find(ctx, given.Policy, given.Revision)
	if err != nil {
		return activated{}, err
	}
	switch {
	case k.document.Key != "":
		lock, err := k.lock(l.format)
		return activated{
			lock:       lock,
			conditions: []admin.Condition{admin.Exists{Key: k.document.Key, Etag: k.document.Etag}},
			writes:     l.marks(given.Policy, given.Revision),
		}, err
	case k.known():
		lock, err := k.lock(l.format)
		return activated{lock: lock, conditions: []admin.Condition{k.active()[0].Unchanged()}}, err
	case given.Document == nil:
		return activated{}, apierror.NotFound(l.revisionKey(given.Policy, given.Revision))
	}
	lock, err := l.admitted(given)
	return activated{
		lock:       lock,
		conditions: []admin.Condition{admin.Absent{Key: l.lockKey(lock.Policy, lock.Revision)}},
		writes:     l.lockWrites(lock),
	}, err
}

// admitted is a new lock with its content, which is not compiled yet.
func (l *Library) admitted(lock Lock) (_ Lock, err error) {
	if err := l.format.Admit(lock); err != nil {
		return lock, err
	}
	lock.Content, err = l.format.Content(lock.Document)
	return lock, err
}

// marks are the writes that say that a revision exists, and lose against which a
// removal must.
func (l *Library) marks(policy authz.PolicyID, revision RevisionID) []admin.Write {
	return []admin.Write{present(l.nameKey(policy)), present(l.revisionKey(policy, revision))}
}

// lockWrites store a lock with its marks. The etag is the hash of the document: anyone who
// made it active depends on that document, not on one that was removed and stored anew.
func (l *Library) lockWrites(lock Lock) []admin.Write {
	return append(l.marks(lock.Policy, lock.Revision), admin.Put{
		Key: l.lockKey(lock.Policy, lock.Revision), Value: lock.Document, Etag: documentEtag(lock.Document),
	})
}

// activation works out how a lock becomes a location's live policy.
func (l *Library) activation(ctx context.Context, name admin.Key, stored admin.StoredPolicy, a activated) (*admin.Change, error) {
	c, err := l.s.MakeLive(ctx, name, stored, admin.NewContent{
		Field: "lock", Policy: a.lock.Content, Revision: string(a.lock.Revision),
	})
	if err != nil {
		return nil, err
	}
	c.Conditions = append(c.Conditions, a.conditions...)
	c.Writes = append(append(c.Writes, a.writes...), present(l.groupKey(groupOf(name))))
	return c, nil
}
