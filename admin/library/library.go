package library

import (
	"context"
	"log/slog"
	"slices"

	"understudy/admin"
	"understudy/admin/apierror"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// A project keeps in the reserved location what the Policyfile API needs in addition to policies:
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
	s      *admin.Server
	root   admin.Key
	format LockFormat
	// log gets the revisions without rules that take the place of others.
	log *slog.Logger
}

// New returns the library of a project over a server's store. The error is
// NOT_FOUND of what cannot be a project's ID.
func New(s *admin.Server, project string, format LockFormat, log *slog.Logger) (*Library, error) {
	if !admin.ValidID(project) {
		return nil, apierror.NotFound(admin.Key("projects/" + project))
	}
	return &Library{s, admin.Key("projects/" + project + "/locations/" + admin.ReservedLocation), format, log}, nil
}

// locationOf is the location that a group is.
func (l *Library) locationOf(g GroupID) admin.Key {
	return admin.Collection("projects/" + l.root.Project() + "/locations").Key(string(g))
}

// groupKey is the mark of a group.
func (l *Library) groupKey(g GroupID) admin.Key { return l.root.In("groups").Key(string(g)) }

// policyKey is the live policy of a group, shared with the other API.
func (l *Library) policyKey(g GroupID, p authz.PolicyID) admin.Key {
	return l.locationOf(g).In("policies").Key(string(p))
}

// nameKey is the mark of a policy's name.
func (l *Library) nameKey(p authz.PolicyID) admin.Key { return l.root.In("policyfiles").Key(string(p)) }

// revisionKey is the mark of a revision.
func (l *Library) revisionKey(p authz.PolicyID, r RevisionID) admin.Key {
	return l.nameKey(p).In("revisions").Key(string(r))
}

// lockKey is where the document of a revision is.
func (l *Library) lockKey(p authz.PolicyID, r RevisionID) admin.Key {
	return l.nameKey(p).In("locks").Key(string(r))
}

// present is the write that says that something exists.
func present(key admin.Key) admin.Put { return admin.Put{Key: key} }

// list reads a whole collection, at one instant.
func (l *Library) list(ctx context.Context, c admin.Collection) ([]admin.Record, error) {
	return l.s.List(ctx, admin.Query{Collection: c})
}

// policies returns the policies of all groups, also those that are soft-deleted.
func (l *Library) policies(ctx context.Context) ([]admin.StoredPolicy, error) {
	return l.named(ctx, "")
}

// named returns the policies of this name in all groups; of any if it is empty.
func (l *Library) named(ctx context.Context, policy authz.PolicyID) ([]admin.StoredPolicy, error) {
	all, err := l.policiesIn(ctx, admin.Query{Collection: l.locationOf(admin.Wildcard).In("policies"), ID: string(policy)})
	return slices.DeleteFunc(all, func(p admin.StoredPolicy) bool {
		return groupOf(p.Record.Key) == admin.ReservedLocation
	}), err
}

// policiesIn reads policies, those that are soft-deleted or cannot be read included:
// removals depend on them too.
func (l *Library) policiesIn(ctx context.Context, q admin.Query) ([]admin.StoredPolicy, error) {
	records, err := l.s.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]admin.StoredPolicy, len(records))
	for i, r := range records {
		out[i] = l.s.AsPolicy(ctx, r)
	}
	return out, nil
}

// groupOf is the group of a live policy.
func groupOf(policy admin.Key) GroupID { return GroupID(admin.Key(policy.Location()).ID()) }

// idOf is the ID of a policy that exists.
func idOf(p admin.StoredPolicy) authz.PolicyID { return authz.PolicyID(p.Record.Key.ID()) }

// revisionOf is the revision of a policy that can be read.
func revisionOf(p admin.StoredPolicy) RevisionID {
	return RevisionID(admin.Key(p.Policy.GetRevision()).ID())
}

// Packages returns the package of each module of a lock, which is stored and so has
// compiled once; none of what this version cannot parse.
func (l *Library) Packages(ctx context.Context, lock Lock) (map[string]string, error) {
	return l.s.Packages(ctx, lock.Policy, lock.Content.GetModules())
}
