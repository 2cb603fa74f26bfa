package library

import (
	"context"
	"slices"

	"understudy/admin"
	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// A revision that the other API made live stays visible here after it was replaced, for
// as long as its location keeps it. It is only read: what Chef's API adds, makes active
// or removes depends on documents and on what is live, for which all calls have one
// order.

// replaced returns such a revision of a policy. The error is NOT_FOUND if there is none.
func (l *Library) replaced(ctx context.Context, k storedRevision) (Lock, error) {
	for _, p := range k.policies {
		if !p.Live() {
			continue
		}
		key := p.Record.Key.In("revisions").Key(string(k.revision))
		records, err := l.s.Get(ctx, key)
		if err != nil {
			return Lock{}, err
		}
		if content, ok := contentOfOther(records[0]); ok {
			return Lock{Policy: k.policy, Revision: k.revision, Content: content}, nil
		}
	}
	return Lock{}, apierror.NotFound(l.revisionKey(k.policy, k.revision))
}

// addReplaced adds the IDs of such revisions of live policies to those that are known.
// All policies have the ID, or any with a wildcard.
func (l *Library) addReplaced(ctx context.Context, id string, policies []admin.StoredPolicy, known map[authz.PolicyID][]RevisionID) error {
	live := make(map[admin.Key]bool)
	for _, p := range policies {
		live[p.Record.Key] = p.Live()
	}
	records, err := l.s.List(ctx, admin.Query{Collection: l.locationOf(admin.Wildcard).In("policies").Key(id).In("revisions")})
	if err != nil {
		return err
	}
	for _, r := range records {
		policy, revision := authz.PolicyID(r.Key.Policy().ID()), RevisionID(r.Key.ID())
		if _, ok := contentOfOther(r); ok && live[r.Key.Policy()] && !slices.Contains(known[policy], revision) {
			known[policy] = append(known[policy], revision)
		}
	}
	return nil
}

// contentOfOther returns the content of a revision that the other API made: its ID is
// the hash of its content, and not one that a lock brought along.
func contentOfOther(r admin.Record) (*adminpb.Policy, bool) {
	was, err := admin.Decode(r, &adminpb.PolicyRevision{})
	if r.Key == "" || err != nil {
		return nil, false
	}
	id, err := content.RevisionID(was.GetSnapshot())
	return content.OfPolicy(was.GetSnapshot()), err == nil && id == r.Key.ID()
}
