package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// libraryLocation is reserved: no sidecar enforces it. A project keeps there what
// the Policyfile API needs beside policies:
//
//	…/locations/global/groups/GROUP               the group exists, also without policies
//	…/locations/global/policyfiles/POLICY         the name of a policy exists
//	…/locations/global/policyfiles/POLICY/revisions/REVISION
//	                                              the revision exists; cheap to list
//	…/locations/global/policyfiles/POLICY/locks/REVISION
//	                                              its document, byte for byte; its etag is its hash
//
// The first three have no value. A name is put again with every change below it, and
// a revision whenever it is made live, so that a removal, which depends on the
// sequence of the record, loses against what it has not seen.
const libraryLocation = "global"

type (
	// GroupID is the name of a policy group of RFC-042: the ID of a location.
	GroupID string
	// RevisionID is the ID of a policy's revision, the same in every location.
	RevisionID string
)

// Lock is a revision of a policy as RFC-042 has it: a document under its name and ID.
type Lock struct {
	Policy   authz.PolicyID
	Revision RevisionID
	// Document is kept byte for byte. It is nil if the revision was made by the other
	// API, so that there is only what it means.
	Document []byte
	// Content is what the document means. The Library sets it.
	Content *adminpb.Policy
}

// LockFormat knows what documents mean. Its errors are for callers.
type LockFormat interface {
	// Content returns the user-settable fields of the policy that a document stands
	// for, which are empty if it is nothing that a sidecar can enforce.
	Content(document []byte) (*adminpb.Policy, error)
	// Admit says whether a lock that nobody has stored yet may be.
	Admit(lock Lock) error
}

// Library is a project as the Policyfile API (RFC-042) sees it: groups, which are
// locations, in which revisions of policies are active, and documents of revisions,
// which belong to the project. What is active in a group is that location's live
// policy, whichever API made it so. Documents are kept until they are removed. Its
// names have to be valid IDs. It is safe for concurrent use.
type Library struct {
	s      *Server
	root   Key
	format LockFormat
}

// Library returns the library of a project. The error is NOT_FOUND of what cannot be
// a project's ID.
func (s *Server) Library(project string, format LockFormat) (*Library, error) {
	root := Key("projects/" + project + "/locations/" + libraryLocation)
	if !strictID.MatchString(project) {
		return nil, notFound(Key("projects/" + project))
	}
	return &Library{s, root, format}, nil
}

// Group is a policy group and what is active in it.
type Group struct {
	ID GroupID
	// Next is where its policies are promoted to; empty if nowhere. A list of groups
	// leaves it out.
	Next GroupID
	// Active :: policy → its active revision.
	Active map[authz.PolicyID]RevisionID
}

func (l *Library) locationOf(g GroupID) Key {
	return Collection("projects/" + l.root.project() + "/locations").key(string(g))
}

func (l *Library) groupKey(g GroupID) Key { return l.root.in("groups").key(string(g)) }

func (l *Library) policyKey(g GroupID, p authz.PolicyID) Key {
	return l.locationOf(g).in("policies").key(string(p))
}

func (l *Library) nameKey(p authz.PolicyID) Key { return l.root.in("policyfiles").key(string(p)) }

func (l *Library) revisionKey(p authz.PolicyID, r RevisionID) Key {
	return l.nameKey(p).in("revisions").key(string(r))
}

func (l *Library) lockKey(p authz.PolicyID, r RevisionID) Key {
	return l.nameKey(p).in("locks").key(string(r))
}

// present is the write that says that something exists.
func present(key Key) Put { return Put{Key: key} }

// unchangedRecord is the condition under which key still is as it was read.
func unchangedRecord(key Key, r Record) Condition {
	if r.Key == "" {
		return Absent{key}
	}
	return Unchanged{key, r.Sequence}
}

// Groups returns all groups in the order of their names.
func (l *Library) Groups(ctx context.Context) ([]Group, error) {
	records, err := l.list(ctx, l.root.in("groups"))
	if err != nil {
		return nil, err
	}
	groups := make(map[GroupID]Group)
	for _, r := range records {
		id := GroupID(r.Key.id())
		groups[id] = Group{ID: id, Active: map[authz.PolicyID]RevisionID{}}
	}
	policies, err := l.policies(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		if !p.live() {
			continue
		}
		id := groupOf(p.record.Key)
		if _, known := groups[id]; !known {
			groups[id] = Group{ID: id, Active: map[authz.PolicyID]RevisionID{}}
		}
		groups[id].Active[p.id()] = p.revision()
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
		return Group{}, notFound(l.locationOf(id))
	}
	return g.Group, err
}

// storedGroup is a group as it was read, or the knowledge that there is none.
type storedGroup struct {
	Group
	mark   Record
	config storedConfig
	// policies are those of its location, also the soft-deleted.
	policies []storedPolicy
}

func (g storedGroup) exists() bool { return g.mark.Key != "" || len(g.Active) > 0 }

// readGroup reads all of a group at one instant: what makes a group, and what removes
// it, changes its mark.
func (l *Library) readGroup(ctx context.Context, id GroupID) (storedGroup, error) {
	for range maxAttempts {
		g, err := l.readGroupOnce(ctx, id)
		if err != nil {
			return g, err
		}
		again, err := l.s.store.Get(ctx, l.groupKey(id))
		if err != nil {
			return g, l.s.storeFailed(ctx, "reading "+string(l.groupKey(id)), err)
		}
		if again[0].Key == g.mark.Key && again[0].Sequence == g.mark.Sequence {
			return g, nil
		}
	}
	return storedGroup{}, concurrentChange(l.locationOf(id))
}

func (l *Library) readGroupOnce(ctx context.Context, id GroupID) (storedGroup, error) {
	g := storedGroup{Group: Group{ID: id, Active: map[authz.PolicyID]RevisionID{}}}
	location := l.locationOf(id)
	records, err := l.s.store.Get(ctx, l.groupKey(id), configOf(location))
	if err != nil {
		return g, l.s.storeFailed(ctx, "reading "+string(location), err)
	}
	g.mark = records[0]
	if g.config, err = l.s.asConfig(ctx, configOf(location), records[1]); err != nil {
		return g, err
	}
	if next := g.config.next(); next != "" {
		g.Next = GroupID(next.id())
	}
	g.policies, err = l.policiesIn(ctx, location.in("policies"))
	for _, p := range g.policies {
		if p.live() {
			g.Active[p.id()] = p.revision()
		}
	}
	return g, err
}

// Policies returns the revisions of all policies: those with a document, and those
// that are active in a group. A policy without any has none.
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
		if p.live() && !slices.Contains(out[p.id()], p.revision()) {
			out[p.id()] = append(out[p.id()], p.revision())
		}
	}
	return out, nil
}

// Policy returns the revisions of one policy. The error is NOT_FOUND if there is no
// policy of the name.
func (l *Library) Policy(ctx context.Context, id authz.PolicyID) ([]RevisionID, error) {
	n, err := l.readName(ctx, id)
	if err == nil && !n.exists() {
		return nil, notFound(l.nameKey(id))
	}
	return n.revisions(), err
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
		if p.live() && !slices.Contains(out, p.revision()) {
			out = append(out, p.revision())
		}
	}
	return out
}

// Revision returns a revision and the groups in which it is active, in order. The
// error is NOT_FOUND if there is none.
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
			return Lock{}, nil, notFound(key)
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
	stored, err := l.s.readPolicy(ctx, name)
	for range maxAttempts {
		if err != nil {
			return Lock{}, stored, err
		}
		if !stored.live() {
			return Lock{}, stored, notFound(name)
		}
		id, revision := stored.id(), stored.revision()
		records, err := l.s.store.Get(ctx, name, l.lockKey(id, revision))
		if err != nil {
			return Lock{}, stored, l.s.storeFailed(ctx, "reading "+string(name), err)
		}
		if stored, err = l.s.asPolicy(ctx, records[0]); err != nil {
			return Lock{}, stored, err
		}
		if stored.live() && stored.revision() == revision {
			k := knowledge{policy: id, revision: revision, document: records[1], policies: []storedPolicy{stored}}
			lock, err := k.lock(l.format)
			return lock, stored, err
		}
	}
	return Lock{}, stored, concurrentChange(name)
}

// Nodes returns the IDs of the sidecars of a group; if a policy is given, of those
// that enforce it. The error is NOT_FOUND if there is neither a group nor a sidecar.
func (l *Library) Nodes(ctx context.Context, group GroupID, policy authz.PolicyID) ([]string, error) {
	nodes, err := l.s.readNodes(ctx, authz.Location(l.locationOf(group)))
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
			out = append(out, Key(n.Name).id())
		}
	}
	return out, nil
}

// NodeName returns the resource name of a sidecar.
func (l *Library) NodeName(group GroupID, node string) string {
	return string(l.locationOf(group).in("nodes").key(node))
}

func (l *Library) list(ctx context.Context, c Collection) ([]Record, error) {
	records, err := l.s.store.List(ctx, Query{Collection: c})
	if err != nil {
		return nil, l.s.storeFailed(ctx, "listing "+string(c), err)
	}
	return records, nil
}

// policies returns the policies of all groups, also those that are soft-deleted.
func (l *Library) policies(ctx context.Context) ([]storedPolicy, error) {
	all, err := l.policiesIn(ctx, l.locationOf(wildcard).in("policies"))
	return slices.DeleteFunc(all, func(p storedPolicy) bool {
		return groupOf(p.record.Key) == libraryLocation
	}), err
}

func (l *Library) policiesIn(ctx context.Context, c Collection) ([]storedPolicy, error) {
	records, err := l.list(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]storedPolicy, len(records))
	for i, r := range records {
		if out[i], err = l.s.asPolicy(ctx, r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// named returns the policies of this name in all groups.
func (l *Library) named(ctx context.Context, policy authz.PolicyID) ([]storedPolicy, error) {
	all, err := l.policies(ctx)
	return slices.DeleteFunc(all, func(p storedPolicy) bool { return p.id() != policy }), err
}

func groupOf(policy Key) GroupID { return GroupID(Key(policy.location()).id()) }

func (p storedPolicy) id() authz.PolicyID { return authz.PolicyID(p.record.Key.id()) }

func (p storedPolicy) revision() RevisionID { return RevisionID(Key(p.policy.Revision).id()) }

// knowledge is what is known of a revision.
type knowledge struct {
	policy   authz.PolicyID
	revision RevisionID
	// document is the record of the library; empty if the revision is not in it.
	document Record
	// policies are those of its name, in all groups.
	policies []storedPolicy
}

func (l *Library) find(ctx context.Context, policy authz.PolicyID, revision RevisionID) (knowledge, error) {
	// First the policies: what becomes active later is in the library by then.
	policies, err := l.named(ctx, policy)
	if err != nil {
		return knowledge{}, err
	}
	key := l.lockKey(policy, revision)
	records, err := l.s.store.Get(ctx, key)
	if err != nil {
		return knowledge{}, l.s.storeFailed(ctx, "reading "+string(key), err)
	}
	return knowledge{policy, revision, records[0], policies}, nil
}

// active returns the policies whose active revision it is.
func (k knowledge) active() (out []storedPolicy) {
	for _, p := range k.policies {
		if p.live() && p.revision() == k.revision {
			out = append(out, p)
		}
	}
	return out
}

func (k knowledge) groups() []GroupID {
	out := []GroupID{}
	for _, p := range k.active() {
		out = append(out, groupOf(p.record.Key))
	}
	return out
}

// known reports whether there is such a revision.
func (k knowledge) known() bool { return k.document.Key != "" || len(k.active()) > 0 }

// lock returns the revision, which has to be known. What is not in the library means
// what is live.
func (k knowledge) lock(format LockFormat) (Lock, error) {
	lock := Lock{Policy: k.policy, Revision: k.revision}
	if k.document.Key == "" {
		lock.Content = policyContent(k.active()[0].policy)
		return lock, nil
	}
	lock.Document = k.document.Value
	var err error
	lock.Content, err = format.Content(lock.Document)
	return lock, err
}

// documentEtag tells the documents of one revision apart, of which there can be one
// after another.
func documentEtag(document []byte) string {
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}
