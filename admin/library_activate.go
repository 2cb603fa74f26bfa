package admin

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// Add stores a lock, which nothing enforces by that. The error is ALREADY_EXISTS if
// its revision is known, and INVALID_ARGUMENT if it does not compile.
func (l *Library) Add(ctx context.Context, lock Lock) error {
	return l.commit(ctx, l.nameKey(lock.Policy), func(ctx context.Context) (Txn, error) {
		k, err := l.find(ctx, lock.Policy, lock.Revision)
		if err != nil {
			return Txn{}, err
		}
		if k.known() {
			return Txn{}, alreadyExists(l.revisionKey(lock.Policy, lock.Revision), reasonAlreadyExists,
				"A revision cannot be changed.")
		}
		if lock, err = l.admitted(lock); err != nil {
			return Txn{}, err
		}
		if err := l.s.validatePolicy(ctx, "lock", lock.Content, nil); err != nil {
			return Txn{}, err
		}
		return Txn{
			Conditions: []Condition{Absent{l.lockKey(lock.Policy, lock.Revision)}},
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

func (l *Library) activate(ctx context.Context, group GroupID, given Lock, noOp NoOp) (Activation, error) {
	var done Activation
	name := l.policyKey(group, given.Policy)
	check := noOpCheck{allowed: noOp}
	op, err := l.s.mutate(ctx, false, func(ctx context.Context) (*change, error) {
		check.reset()
		stored, err := l.s.findPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		a, err := l.resolve(ctx, given)
		if err != nil {
			return nil, err
		}
		done = Activation{Lock: a.lock, Created: !stored.live()}
		if stored.readable() && stored.revision() == given.Revision {
			c := unchangedResource(verbUpdate, stored.record, stored.policy)
			c.conditions = append(c.conditions, a.conditions...)
			return c, nil
		}
		if err := check.replacement(stored, a.lock.Content); err != nil {
			return nil, err
		}
		return l.activation(ctx, name, stored, a)
	})
	check.log(ctx, l.s.log, err)
	done.Operation = op.GetName()
	return done, err
}

// activated is the lock that a call means.
type activated struct {
	lock       Lock
	conditions []Condition
	// writes put what the library has of it.
	writes []Write
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
			conditions: []Condition{Exists{k.document.Key, k.document.Etag}},
			writes:     l.marks(given.Policy, given.Revision),
		}, err
	case k.known():
		lock, err := k.lock(l.format)
		return activated{lock: lock, conditions: []Condition{k.active()[0].unchanged()}}, err
	case given.Document == nil:
		return activated{}, notFound(l.revisionKey(given.Policy, given.Revision))
	}
	lock, err := l.admitted(given)
	return activated{
		lock:       lock,
		conditions: []Condition{Absent{l.lockKey(lock.Policy, lock.Revision)}},
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
func (l *Library) marks(policy authz.PolicyID, revision RevisionID) []Write {
	return []Write{present(l.nameKey(policy)), present(l.revisionKey(policy, revision))}
}

func (l *Library) lockWrites(lock Lock) []Write {
	return append(l.marks(lock.Policy, lock.Revision), Put{
		Key: l.lockKey(lock.Policy, lock.Revision), Value: lock.Document, Etag: documentEtag(lock.Document),
	})
}

// activation works out how a lock becomes a location's live policy. One that is
// soft-deleted is replaced: it keeps its ID from the other API only.
func (l *Library) activation(ctx context.Context, name Key, stored storedPolicy, a activated) (*change, error) {
	now := timestamppb.New(l.s.now())
	v := verbCreate
	policy := &adminpb.Policy{Name: string(name), Uid: newID(), CreateTime: now}
	if stored.live() {
		v = verbUpdate
	}
	if stored.readable() {
		policy = proto.CloneOf(stored.policy)
	}
	copyContent(policy, a.lock.Content)
	policy.UpdateTime = now
	if err := l.s.validatePolicy(ctx, "lock", policy, stored.policy); err != nil {
		return nil, err
	}
	if err := nameContent(policy, string(a.lock.Revision)); err != nil {
		return nil, err
	}
	writes, err := l.policyPuts(ctx, stored, policy)
	if err != nil {
		return nil, err
	}
	return &change{
		target:     name,
		verb:       v,
		conditions: append([]Condition{unchangedRecord(name, stored.record)}, a.conditions...),
		writes:     append(append(writes, a.writes...), present(l.groupKey(groupOf(name)))),
		response:   policy,
		revision:   policy.Revision,
	}, nil
}

func (l *Library) policyPuts(ctx context.Context, stored storedPolicy, policy *adminpb.Policy) ([]Write, error) {
	if stored.live() {
		return l.s.policyWrites(ctx, policy)
	}
	return newPolicyWrites(policy)
}

// errChanged says that what was read is of two instants. A condition would not tell:
// what was absent at first may be absent again.
var errChanged = errors.New("it changed while it was read")

// commit makes a Txn of the library, which no sidecar has to apply before the caller
// is answered. workOut is called again whenever it loses a race.
func (l *Library) commit(ctx context.Context, what Key, workOut func(context.Context) (Txn, error)) error {
	for range maxAttempts {
		txn, err := workOut(ctx)
		if errors.Is(err, errChanged) {
			continue
		}
		if err != nil {
			return err
		}
		txn.ID, txn.Project = newID(), l.root.project()
		_, err = l.s.store.Commit(ctx, txn)
		if failed := (*ConditionError)(nil); asCondition(err, &failed) {
			continue
		}
		if err != nil {
			return l.s.storeFailed(ctx, "changing "+string(what), err)
		}
		return nil
	}
	return concurrentChange(what)
}
