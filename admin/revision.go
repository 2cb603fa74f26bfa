package admin

import (
	"cmp"
	"context"
	"slices"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
)

// A revision is a snapshot of a policy under the hash of its content. It is written by
// the same Txn as the live policy, so what is live always has its revision. Content that
// was live before has its revision already: that is put again with the snapshot that it
// had. It has one more activation, and another sequence, by which revisions are trimmed.

const (
	// latestRevision is the alias of the revision that was created last (AIP-162).
	// No revision has it as its ID: IDs are hashes.
	latestRevision = "latest"
	// newestFirst is the order of revisions where a list asks for none.
	newestFirst = "create_time desc"
)

// GetPolicyRevision implements AIP-131, with the alias of AIP-162: whatever it is
// asked by, a revision is returned by its canonical name.
func (s *Server) GetPolicyRevision(
	ctx context.Context, r *adminpb.GetPolicyRevisionRequest,
) (*adminpb.PolicyRevision, error) {
	name, err := revisionKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	revisions, unreachable, err := s.readRevisions(ctx, listQuery{}, name.Policy().In("revisions"))
	if err != nil {
		return nil, err
	}
	for _, listed := range revisions {
		if listed.Name == string(name) || slices.Contains(listed.AlternateIds, name.ID()) {
			return s.wholeRevision(ctx, listed)
		}
	}
	if slices.Contains(unreachable, string(name)) {
		return nil, s.damaged(ctx, name, errListed)
	}
	return nil, apierror.NotFound(name)
}

// storedRevision reads a revision of a policy. It returns nil if there is none, or if it cannot be decoded.
func (s *Server) storedRevision(ctx context.Context, name Key) (*adminpb.PolicyRevision, error) {
	records, err := s.Get(ctx, name)
	if err != nil || records[0].Key == "" {
		return nil, err
	}
	revision, err := Decode(records[0], &adminpb.PolicyRevision{})
	if err != nil {
		return nil, nil
	}
	return revision, nil
}

// wholeRevision reads a revision of a list with its content.
func (s *Server) wholeRevision(ctx context.Context, listed *adminpb.PolicyRevision) (*adminpb.PolicyRevision, error) {
	name := Key(listed.Name)
	records, err := s.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if records[0].Key == "" {
		return nil, apierror.NotFound(name)
	}
	revision, err := Decode(records[0], &adminpb.PolicyRevision{})
	if err != nil {
		return nil, s.damaged(ctx, name, err)
	}
	revision.AlternateIds = listed.AlternateIds
	return revision, nil
}

// ListPolicyRevisions implements AIP-132, newest first.
func (s *Server) ListPolicyRevisions(
	ctx context.Context, r *adminpb.ListPolicyRevisionsRequest,
) (*adminpb.ListPolicyRevisionsResponse, error) {
	parent, err := policyKind.parseParent("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	l, err := parseListing(r, cmp.Or(r.GetOrderBy(), newestFirst), revisionSchema, r.GetParent())
	if err != nil {
		return nil, err
	}
	if err := s.requireParent(ctx, parent); err != nil {
		return nil, err
	}
	revisions, unreachable, err := s.readRevisions(ctx, l, parent.In("revisions"))
	if err != nil {
		return nil, err
	}
	out, next, err := page(l, revisions)
	return &adminpb.ListPolicyRevisionsResponse{PolicyRevisions: out, NextPageToken: next, Unreachable: unreachable}, err
}

// RollbackPolicy implements AIP-162: it makes the content of an earlier revision
// live again. That is no new revision, for its content is known; the revision has one more
// activation.
func (s *Server) RollbackPolicy(
	ctx context.Context, r *adminpb.RollbackPolicyRequest,
) (*longrunningpb.Operation, error) {
	name, err := revisionKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	if name.ID() == latestRevision {
		return nil, apierror.InvalidName("name", "The alias latest is for reading: what it stands for may change before the rollback. "+
			"Name the revision by its ID.")
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, revision, err := s.readRevision(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := matchEtag(name.Policy(), r.GetEtag(), stored.Record.Etag); err != nil {
			return nil, err
		}
		if stored.Policy.GetRevision() == string(name) {
			return UnchangedResource(VerbRollback, stored.Record, stored.Policy), nil
		}
		return s.rollback(ctx, stored, revision)
	})
}

// rollback works out a rollback. What this version cannot run must not become live.
func (s *Server) rollback(
	ctx context.Context, stored StoredPolicy, revision *adminpb.PolicyRevision,
) (*Change, error) {
	policy := content.Basic(stored.Policy)
	if stored.Damage != nil {
		// The snapshot has the policy's identity, too.
		policy = content.Basic(revision.Snapshot)
	}
	content.Copy(policy, revision.Snapshot)
	policy.UpdateTime = timestamppb.New(s.now())
	if err := s.compile(ctx, "policy_revision.snapshot", policy); err != nil {
		return nil, err
	}
	if err := NameContent(policy, Key(revision.Name).ID()); err != nil {
		return nil, err
	}
	c, err := s.policyReplacement(ctx, activation{verb: VerbRollback}, stored, policy)
	if err != nil {
		return nil, err
	}
	c.Conditions = append(c.Conditions, Exists{Key: Key(revision.Name)})
	return c, nil
}

// readRevision reads a revision together with its policy, which has to be live and may be
// damaged.
func (s *Server) readRevision(ctx context.Context, name Key) (StoredPolicy, *adminpb.PolicyRevision, error) {
	records, err := s.store.Get(ctx, name.Policy(), name)
	if err != nil {
		return StoredPolicy{}, nil, s.storeFailed(ctx, "reading "+string(name), err)
	}
	stored := s.AsPolicy(ctx, records[0])
	if !stored.exists() || records[1].Key == "" {
		return stored, nil, apierror.NotFound(name)
	}
	if !stored.Live() {
		return stored, nil, policyDeleted(name.Policy())
	}
	revision, err := Decode(records[1], &adminpb.PolicyRevision{})
	if err != nil {
		return stored, nil, s.damaged(ctx, name, err)
	}
	return stored, revision, nil
}

// readRevisions reads revisions for a list and gives the last one of each policy its alias. It
// returns the names of those that cannot be read apart.
func (s *Server) readRevisions(ctx context.Context, l listQuery, c Collection) (
	revisions []*adminpb.PolicyRevision, unreachable []string, err error,
) {
	records, err := l.read(ctx, s, c)
	if err != nil {
		return nil, nil, err
	}
	latest := make(map[Key]*adminpb.PolicyRevision) // :: policy → its last revision
	for _, r := range records {
		revision, err := Decode(r, &adminpb.PolicyRevision{})
		if err != nil {
			unreachable = append(unreachable, string(r.Key))
			continue
		}
		revisions = append(revisions, revision)
		last := latest[r.Key.Policy()]
		if last == nil || revision.CreateTime.AsTime().After(last.CreateTime.AsTime()) {
			latest[r.Key.Policy()] = revision
		}
	}
	for _, revision := range latest {
		revision.AlternateIds = append(revision.AlternateIds, latestRevision)
	}
	return revisions, unreachable, nil
}

// NameContent gives a policy the etag and the revision of its content. The ID of the
// revision is given where the content comes from one, and computed otherwise.
func NameContent(policy *adminpb.Policy, revision string) (err error) {
	if revision == "" {
		if revision, err = content.RevisionID(policy); err != nil {
			return err
		}
	}
	policy.Revision = string(Key(policy.Name).In("revisions").Key(revision))
	policy.Etag, err = content.PolicyEtag(policy)
	return err
}

// newPolicyWrites returns the writes that store a policy where there is none. What an
// earlier policy of its name left behind goes.
func newPolicyWrites(ctx context.Context, policy *adminpb.Policy, how activation) ([]Write, error) {
	revision := newRevision(ctx, policy)
	how.addTo(ctx, revision, policy)
	live, put, err := livePuts(policy, revision)
	if err != nil {
		return nil, err
	}
	name := Key(policy.Name)
	return append(experimentsDeletions(name), DeleteCollection{name.In("revisions")}, DeleteCollection{name.iam()}, live, put), nil
}

// policyWrites returns the writes that store a policy in the place of another, with
// its revision, of which it keeps the last maxRevisions. The revision is put again if
// it is known, with the snapshot that it had: so the sequence of its record says when it was
// last made live, and trimming drops what has not been live for the longest time, never what
// is live now or was just before. They hold as long as the policy is Unchanged, for
// revisions change together with it. A known revision that cannot be read is replaced.
func (s *Server) policyWrites(ctx context.Context, policy *adminpb.Policy, how activation) ([]Write, error) {
	revision, err := s.storedRevision(ctx, Key(policy.Revision))
	if err != nil {
		return nil, err
	}
	if revision == nil {
		revision = newRevision(ctx, policy)
	}
	how.addTo(ctx, revision, policy)
	live, put, err := livePuts(policy, revision)
	if err != nil {
		return nil, err
	}
	return []Write{live, put, TrimCollection{Key(policy.Name).In("revisions"), maxRevisions}}, nil
}

// newRevision is the revision of a policy as of now. The creator is who sends the request of the
// context, empty for one who is not known.
func newRevision(ctx context.Context, policy *adminpb.Policy) *adminpb.PolicyRevision {
	by := access.FromContext(ctx)
	return &adminpb.PolicyRevision{
		Name: policy.Revision, Snapshot: policy, CreateTime: policy.UpdateTime, Creator: by.Member, CreatorDisplay: by.Display,
	}
}

// livePuts are the writes of a policy and its revision.
func livePuts(policy *adminpb.Policy, of *adminpb.PolicyRevision) (live, revision Put, err error) {
	if live, err = NewPut(Key(policy.Name), policy.Etag, policy); err != nil {
		return live, revision, err
	}
	revision, err = NewPut(Key(of.Name), "", of)
	return live, revision, err
}

// RestoredPuts are the writes of a policy that was lost, and of its revision as of now. Who
// made it live, and how, is not known.
func RestoredPuts(policy *adminpb.Policy) (live, revision Put, err error) {
	return livePuts(policy, &adminpb.PolicyRevision{Name: policy.Revision, Snapshot: policy, CreateTime: policy.UpdateTime})
}
