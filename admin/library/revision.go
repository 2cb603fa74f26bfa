package library

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"understudy/admin"
	"understudy/admin/apierror"
	"understudy/admin/content"
	"understudy/authz"
)

// Policies returns the revisions of all policies: those with a document, and those
// that are active in a group, or were by the other API. A policy without any has none.
func (l *Library) Policies(ctx context.Context) (map[authz.PolicyID][]RevisionID, error) {
	names, err := l.list(ctx, l.root.In("policyfiles"))
	if err != nil {
		return nil, err
	}
	out := make(map[authz.PolicyID][]RevisionID)
	for _, r := range names {
		out[authz.PolicyID(r.Key.ID())] = nil
	}
	documents, err := l.list(ctx, l.root.In("policyfiles").Key(admin.Wildcard).In("revisions"))
	if err != nil {
		return nil, err
	}
	for _, r := range documents {
		policy := authz.PolicyID(r.Key.Policy().ID())
		out[policy] = append(out[policy], RevisionID(r.Key.ID()))
	}
	policies, err := l.policies(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		if p.Live() && p.Damage == nil && !slices.Contains(out[idOf(p)], revisionOf(p)) {
			out[idOf(p)] = append(out[idOf(p)], revisionOf(p))
		}
	}
	return out, l.addReplaced(ctx, admin.Wildcard, policies, out)
}

// Policy returns the revisions of one policy, as Policies does. The error is NOT_FOUND
// if there is no policy of the name.
func (l *Library) Policy(ctx context.Context, id authz.PolicyID) ([]RevisionID, error) {
	n, err := l.readName(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !n.exists():
		return nil, apierror.NotFound(l.nameKey(id))
	}
	known := map[authz.PolicyID][]RevisionID{id: n.revisions()}
	err = l.addReplaced(ctx, string(id), n.policies, known)
	return known[id], err
}

// storedName is what there is of a policy's name.
type storedName struct {
	// mark was read first: what of the library has changed since then changed it.
	mark      admin.Record
	documents []RevisionID
	// policies are those of the name in all groups, also the soft-deleted.
	policies []admin.StoredPolicy
}

// readName reads what there is of a name, its mark first, so that the condition on the
// mark finds whatever is added while the rest is read.
func (l *Library) readName(ctx context.Context, id authz.PolicyID) (storedName, error) {
	name := l.nameKey(id)
	marks, err := l.s.Get(ctx, name)
	if err != nil {
		return storedName{}, err
	}
	n := storedName{mark: marks[0]}
	documents, err := l.list(ctx, name.In("revisions"))
	if err != nil {
		return n, err
	}
	for _, r := range documents {
		n.documents = append(n.documents, RevisionID(r.Key.ID()))
	}
	n.policies, err = l.named(ctx, id)
	return n, err
}

// exists reports whether there is such a policy, for either API. One that is soft-deleted
// everywhere, and has no mark, is not there.
func (n storedName) exists() bool {
	return n.mark.Key != "" || slices.ContainsFunc(n.policies, admin.StoredPolicy.Live)
}

// revisions returns those with a document, and those that are active.
func (n storedName) revisions() []RevisionID {
	out := slices.Clone(n.documents)
	for _, p := range n.policies {
		if p.Live() && p.Damage == nil && !slices.Contains(out, revisionOf(p)) {
			out = append(out, revisionOf(p))
		}
	}
	return out
}

// Revision returns a revision and the groups in which it is active, in the order in which
// it became so. The error is NOT_FOUND if there is none.
func (l *Library) Revision(
	ctx context.Context, policy authz.PolicyID, revision RevisionID,
) (Lock, []GroupID, error) {
	key := l.revisionKey(policy, revision)
	for range admin.MaxAttempts {
		k, err := l.find(ctx, policy, revision)
		switch {
		case err != nil:
			return Lock{}, nil, err
		case !k.known():
			lock, err := l.replaced(ctx, k)
			return lock, []GroupID{}, err
		case k.document.Key != "":
			lock, err := k.lock(l.format)
			return lock, k.groups(), err
		}
		// It has no document, or lost it since the policies were read.
		lock, stored, err := l.readActive(ctx, k.active()[0].Record.Key)
		if err != nil && !apierror.IsNotFound(err) {
			return Lock{}, nil, err
		}
		if err == nil && revisionOf(stored) == revision {
			return lock, k.groups(), nil
		}
	}
	return Lock{}, nil, apierror.ConcurrentChange(key)
}

// Active returns the revision of a policy that is active in a group. The error is
// NOT_FOUND if none is.
func (l *Library) Active(ctx context.Context, group GroupID, policy authz.PolicyID) (Lock, error) {
	lock, _, err := l.readActive(ctx, l.policyKey(group, policy))
	return lock, err
}

// readActive reads a live policy and its document at one instant. The ID of the
// document is only known from the policy, so that is read before, too.
func (l *Library) readActive(ctx context.Context, name admin.Key) (Lock, admin.StoredPolicy, error) {
	stored, err := l.s.FindPolicy(ctx, name)
	if err == nil {
		err = stored.Damage
	}
	if err != nil {
		return Lock{}, stored, err
	}
	for range admin.MaxAttempts {
		if !stored.Live() {
			return Lock{}, stored, apierror.NotFound(name)
		}
		id, revision := idOf(stored), revisionOf(stored)
		records, err := l.s.Get(ctx, name, l.lockKey(id, revision))
		if err != nil {
			return Lock{}, stored, err
		}
		if stored = l.s.AsPolicy(ctx, records[0]); stored.Damage != nil {
			return Lock{}, stored, stored.Damage
		}
		if stored.Live() && revisionOf(stored) == revision {
			k := storedRevision{policy: id, revision: revision, document: records[1], policies: []admin.StoredPolicy{stored}}
			lock, err := k.lock(l.format)
			return lock, stored, err
		}
	}
	return Lock{}, stored, apierror.ConcurrentChange(name)
}

// storedRevision is what is known of a revision.
type storedRevision struct {
	policy   authz.PolicyID
	revision RevisionID
	// document is the record of the library; empty if the revision is not in it.
	document admin.Record
	// policies are those of its name, in all groups.
	policies []admin.StoredPolicy
}

// find reads what is known of a revision. The order of the two reads matters: a revision
// that is made active between them is found in the library, and one that is read as
// active was so at that instant.
func (l *Library) find(ctx context.Context, policy authz.PolicyID, revision RevisionID) (storedRevision, error) {
	// First the policies: what becomes active later is in the library by then.
	policies, err := l.named(ctx, policy)
	if err != nil {
		return storedRevision{}, err
	}
	key := l.lockKey(policy, revision)
	records, err := l.s.Get(ctx, key)
	if err != nil {
		return storedRevision{}, err
	}
	return storedRevision{policy: policy, revision: revision, document: records[0], policies: policies}, nil
}

// active returns the policies whose active revision it is.
func (k storedRevision) active() (out []admin.StoredPolicy) {
	for _, p := range k.policies {
		if p.Readable() && revisionOf(p) == k.revision {
			out = append(out, p)
		}
	}
	return out
}

// groups returns those in which the revision is active, in the order in which it became
// so: the sequence of a live policy is that of its last change.
func (k storedRevision) groups() []GroupID {
	active := k.active()
	slices.SortFunc(active, func(a, b admin.StoredPolicy) int {
		return cmp.Or(cmp.Compare(a.Record.Sequence, b.Record.Sequence), strings.Compare(string(a.Record.Key), string(b.Record.Key)))
	})
	out := []GroupID{}
	for _, p := range active {
		out = append(out, groupOf(p.Record.Key))
	}
	return out
}

// known reports whether there is such a revision.
func (k storedRevision) known() bool {
	return k.document.Key != "" || len(k.active()) > 0
}

// lock returns the revision, which has to be known. What is not in the library means
// what is live.
func (k storedRevision) lock(format LockFormat) (lock Lock, err error) {
	lock = Lock{Policy: k.policy, Revision: k.revision}
	if k.document.Key == "" {
		lock.Content = content.OfPolicy(k.active()[0].Policy)
		return lock, nil
	}
	lock.Document = k.document.Value
	lock.Content, err = format.Content(lock.Document)
	return lock, err
}

// documentEtag is the hash of a document: a revision that was removed can be stored again
// with another one.
func documentEtag(document []byte) string {
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}
