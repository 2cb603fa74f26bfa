package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"understudy/authz"
)

// Policies returns the revisions of all policies: those with a document, and those
// that are active in a group, or were by the other API. A policy without any has none.
func (l *Library) Policies(ctx context.Context) (map[authz.PolicyID][]RevisionID, error) {
	names, err := l.list(ctx, l.root.in("policyfiles"))
	if err != nil {
		return nil, err
	}
	out := make(map[authz.PolicyID][]RevisionID)
	for _, r := range names {
		out[authz.PolicyID(r.Key.id())] = nil
	}
	documents, err := l.list(ctx, l.root.in("policyfiles").key(wildcard).in("revisions"))
	if err != nil {
		return nil, err
	}
	for _, r := range documents {
		policy := authz.PolicyID(r.Key.policy().id())
		out[policy] = append(out[policy], RevisionID(r.Key.id()))
	}
	policies, err := l.policies(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		if p.live() && p.damage == nil && !slices.Contains(out[p.id()], p.revision()) {
			out[p.id()] = append(out[p.id()], p.revision())
		}
	}
	return out, l.addReplaced(ctx, wildcard, policies, out)
}

// Policy returns the revisions of one policy, as Policies does. The error is NOT_FOUND
// if there is no policy of the name.
func (l *Library) Policy(ctx context.Context, id authz.PolicyID) ([]RevisionID, error) {
	n, err := l.readName(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case !n.exists():
		return nil, notFound(l.nameKey(id))
	}
	known := map[authz.PolicyID][]RevisionID{id: n.revisions()}
	err = l.addReplaced(ctx, string(id), n.policies, known)
	return known[id], err
}

// storedName is what there is of a policy's name.
type storedName struct {
	// mark was read first: what of the library has changed since then changed it.
	mark      Record
	documents []RevisionID
	// policies are those of the name in all groups, also the soft-deleted.
	policies []storedPolicy
}

func (l *Library) readName(ctx context.Context, id authz.PolicyID) (storedName, error) {
	name := l.nameKey(id)
	marks, err := l.s.store.Get(ctx, name)
	if err != nil {
		return storedName{}, l.s.storeFailed(ctx, "reading "+string(name), err)
	}
	n := storedName{mark: marks[0]}
	documents, err := l.list(ctx, name.in("revisions"))
	if err != nil {
		return n, err
	}
	for _, r := range documents {
		n.documents = append(n.documents, RevisionID(r.Key.id()))
	}
	n.policies, err = l.named(ctx, id)
	return n, err
}

func (n storedName) exists() bool {
	return n.mark.Key != "" || slices.ContainsFunc(n.policies, storedPolicy.live)
}

// revisions returns those with a document, and those that are active.
func (n storedName) revisions() []RevisionID {
	out := slices.Clone(n.documents)
	for _, p := range n.policies {
		if p.live() && p.damage == nil && !slices.Contains(out, p.revision()) {
			out = append(out, p.revision())
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
	for range maxAttempts {
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
		lock, stored, err := l.readActive(ctx, k.active()[0].record.Key)
		if err != nil && !isNotFound(err) {
			return Lock{}, nil, err
		}
		if err == nil && stored.revision() == revision {
			return lock, k.groups(), nil
		}
	}
	return Lock{}, nil, concurrentChange(key)
}

// Active returns the revision of a policy that is active in a group. The error is
// NOT_FOUND if none is.
func (l *Library) Active(ctx context.Context, group GroupID, policy authz.PolicyID) (Lock, error) {
	lock, _, err := l.readActive(ctx, l.policyKey(group, policy))
	return lock, err
}

// readActive reads a live policy and its document at one instant. The ID of the
// document is only known from the policy, so that is read before, too.
func (l *Library) readActive(ctx context.Context, name Key) (Lock, storedPolicy, error) {
	stored, err := l.s.findPolicy(ctx, name)
	if err == nil {
		err = stored.damage
	}
	if err != nil {
		return Lock{}, stored, err
	}
	for range maxAttempts {
		if !stored.live() {
			return Lock{}, stored, notFound(name)
		}
		id, revision := stored.id(), stored.revision()
		records, err := l.s.store.Get(ctx, name, l.lockKey(id, revision))
		if err != nil {
			return Lock{}, stored, l.s.storeFailed(ctx, "reading "+string(name), err)
		}
		if stored = l.s.asPolicy(ctx, records[0]); stored.damage != nil {
			return Lock{}, stored, stored.damage
		}
		if stored.live() && stored.revision() == revision {
			k := storedRevision{policy: id, revision: revision, document: records[1], policies: []storedPolicy{stored}}
			lock, err := k.lock(l.format)
			return lock, stored, err
		}
	}
	return Lock{}, stored, concurrentChange(name)
}

// storedRevision is what is known of a revision.
type storedRevision struct {
	policy   authz.PolicyID
	revision RevisionID
	// document is the record of the library; empty if the revision is not in it.
	document Record
	// policies are those of its name, in all groups.
	policies []storedPolicy
}

func (l *Library) find(ctx context.Context, policy authz.PolicyID, revision RevisionID) (storedRevision, error) {
	// First the policies: what becomes active later is in the library by then.
	policies, err := l.named(ctx, policy)
	if err != nil {
		return storedRevision{}, err
	}
	key := l.lockKey(policy, revision)
	records, err := l.s.store.Get(ctx, key)
	if err != nil {
		return storedRevision{}, l.s.storeFailed(ctx, "reading "+string(key), err)
	}
	return storedRevision{policy: policy, revision: revision, document: records[0], policies: policies}, nil
}

// active returns the policies whose active revision it is.
func (k storedRevision) active() (out []storedPolicy) {
	for _, p := range k.policies {
		if p.readable() && p.revision() == k.revision {
			out = append(out, p)
		}
	}
	return out
}

// groups returns those in which the revision is active, in the order in which it became
// so: the sequence of a live policy is that of its last change.
func (k storedRevision) groups() []GroupID {
	active := k.active()
	slices.SortFunc(active, func(a, b storedPolicy) int {
		return cmp.Or(cmp.Compare(a.record.Sequence, b.record.Sequence), strings.Compare(string(a.record.Key), string(b.record.Key)))
	})
	out := []GroupID{}
	for _, p := range active {
		out = append(out, groupOf(p.record.Key))
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
		lock.Content = policyContent(k.active()[0].policy)
		return lock, nil
	}
	lock.Document = k.document.Value
	lock.Content, err = format.Content(lock.Document)
	return lock, err
}

// documentEtag tells the documents of one revision apart, of which there can be one
// after another.
func documentEtag(document []byte) string {
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}
