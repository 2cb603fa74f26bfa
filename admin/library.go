package admin

import (
	"context"
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

// notReserved refuses the reserved location, named by a field, for what is to be live.
func notReserved(field string, location Key) error {
	if location.id() != libraryLocation {
		return nil
	}
	return invalid(reasonInvalidField, violation{field, "The location " + libraryLocation + " is reserved: nothing is enforced there."})
}

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

func (l *Library) list(ctx context.Context, c Collection) ([]Record, error) {
	return l.query(ctx, Query{Collection: c})
}

func (l *Library) query(ctx context.Context, q Query) ([]Record, error) {
	records, err := l.s.store.List(ctx, q)
	if err != nil {
		return nil, l.s.storeFailed(ctx, "listing "+string(q.Collection), err)
	}
	return records, nil
}

// policies returns the policies of all groups, also those that are soft-deleted.
func (l *Library) policies(ctx context.Context) ([]storedPolicy, error) { return l.named(ctx, "") }

// named returns the policies of this name in all groups; of any if it is empty.
func (l *Library) named(ctx context.Context, policy authz.PolicyID) ([]storedPolicy, error) {
	all, err := l.policiesIn(ctx, Query{Collection: l.locationOf(wildcard).in("policies"), ID: string(policy)})
	return slices.DeleteFunc(all, func(p storedPolicy) bool {
		return groupOf(p.record.Key) == libraryLocation
	}), err
}

func (l *Library) policiesIn(ctx context.Context, q Query) ([]storedPolicy, error) {
	records, err := l.query(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]storedPolicy, len(records))
	for i, r := range records {
		out[i] = l.s.asPolicy(ctx, r)
	}
	return out, nil
}

func groupOf(policy Key) GroupID { return GroupID(Key(policy.location()).id()) }

func (p storedPolicy) id() authz.PolicyID { return authz.PolicyID(p.record.Key.id()) }

func (p storedPolicy) revision() RevisionID { return RevisionID(Key(p.policy.GetRevision()).id()) }
