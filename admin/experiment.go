package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/aip"
	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
)

// GetPolicyExperiment implements AIP-131.
func (s *Server) GetPolicyExperiment(
	ctx context.Context, r *adminpb.GetPolicyExperimentRequest,
) (*adminpb.PolicyExperiment, error) {
	name, err := experimentKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	stored, err := s.readExperiment(ctx, name)
	if err != nil {
		return nil, err
	}
	if !stored.exists() {
		return nil, apierror.NotFound(name)
	}
	if stored.damage != nil {
		return nil, stored.damage
	}
	return stored.experiment, s.markReconciling(ctx, name, stored.record.Sequence, &stored.experiment.Reconciling)
}

// CreatePolicyExperiment implements AIP-133 for the experiments of AIP-236.
func (s *Server) CreatePolicyExperiment(
	ctx context.Context, r *adminpb.CreatePolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	parent, err := policyKind.parse("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	if err := checkID("policy_experiment_id", r.GetPolicyExperimentId()); err != nil {
		return nil, err
	}
	if err := content.RequirePolicy(r.GetPolicyExperiment()); err != nil {
		return nil, err
	}
	name := parent.In("experiments").Key(r.GetPolicyExperimentId())
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.readExperiment(ctx, name)
		if err != nil {
			return nil, err
		}
		return s.experimentCreation(ctx, VerbCreate, stored, r.GetPolicyExperiment(), r.GetValidateOnly())
	})
}

// UpdatePolicyExperiment implements AIP-134. An update that changes something
// suspends an ACTIVE experiment (AIP-236).
func (s *Server) UpdatePolicyExperiment(
	ctx context.Context, r *adminpb.UpdatePolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	given := r.GetPolicyExperiment()
	if given == nil {
		return nil, apierror.Required("policy_experiment", "Its name says what to update.")
	}
	name, err := experimentKind.parse("policy_experiment.name", given.GetName())
	if err != nil {
		return nil, err
	}
	mask, err := content.ParseMask(r.GetUpdateMask(), given)
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.readExperiment(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.exists() {
			return s.experimentByUpdate(ctx, stored, r)
		}
		if stored.damage != nil {
			return s.damagedExperimentUpdate(ctx, stored, given, mask)
		}
		return s.experimentUpdate(ctx, stored, given, mask)
	})
}

// DeletePolicyExperiment deletes an experiment for good and answers with its last
// content (AIP-236).
func (s *Server) DeletePolicyExperiment(
	ctx context.Context, r *adminpb.DeletePolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	name, err := experimentKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.readExperiment(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.exists() {
			if r.GetAllowMissing() {
				return nothingToDelete(name, &adminpb.PolicyExperiment{Name: string(name)}), nil
			}
			return nil, apierror.NotFound(name)
		}
		if err := matchEtag(name, r.GetEtag(), stored.record.Etag); err != nil {
			return nil, err
		}
		c := &Change{
			Target:     name,
			Verb:       VerbDelete,
			Conditions: []Condition{stored.unchanged()},
			Writes:     experimentDeletions(name),
			before:     stored.record.Etag,
			Response:   &adminpb.PolicyExperiment{Name: string(name)},
		}
		if stored.damage == nil {
			c.Response, c.ended = stored.experiment, []EvidenceName{stored.evidence()}
		}
		return c, nil
	})
}

// storedExperiment is an experiment as it was read together with its policy, or
// the knowledge that there is none.
type storedExperiment struct {
	name   Key
	record Record
	// experiment is nil if there is none, or if it cannot be read.
	experiment *adminpb.PolicyExperiment
	// Damage is the caller's error of an experiment that cannot be read.
	damage error
	// parent may be damaged, too.
	parent StoredPolicy
	// acceptances are there for those who read them with it.
	acceptances storedAcceptances
	// base is the live policy that it was made from, for those who read it; nil if that is not known.
	base *adminpb.Policy
	// items are in what it differs from its policy, for those who have read no contents because that
	// is known; nil for others. versionItems are the same of [storedExperiment.versions].
	items        *itemList
	versionItems [3]*itemList
}

// exists reports whether there is such an experiment, be it damaged.
func (e storedExperiment) exists() bool { return e.record.Key != "" }

// readable returns the caller's error of an experiment that is not there, whose policy is
// deleted, or of which one of both cannot be read.
func (e storedExperiment) readable() error {
	if !e.exists() || !e.parent.Live() {
		return apierror.NotFound(e.name)
	}
	return cmp.Or(e.damage, e.parent.Damage)
}

// Unchanged is the condition under which what was worked out from e still holds.
func (e storedExperiment) unchanged() Condition {
	return Unchanged{e.record.Key, e.record.Sequence}
}

// readExperiment reads an experiment and its policy at one instant.
func (s *Server) readExperiment(ctx context.Context, name Key) (storedExperiment, error) {
	records, err := s.Get(ctx, name, name.Policy())
	if err != nil {
		return storedExperiment{name: name}, err
	}
	return s.asExperiment(ctx, name, records[0], records[1]), nil
}

// asExperiment is readExperiment of records that the caller has read together with others,
// at one instant.
func (s *Server) asExperiment(ctx context.Context, name Key, experiment, policy Record) storedExperiment {
	stored := storedExperiment{name: name, record: experiment, parent: s.AsPolicy(ctx, policy)}
	if !stored.exists() {
		return stored
	}
	decoded, err := Decode(stored.record, &adminpb.PolicyExperiment{})
	if err != nil {
		stored.damage = s.damaged(ctx, name, err)
		return stored
	}
	stored.experiment = decoded
	return stored
}

// experimentCreation works out the creation of an experiment. It depends on the
// policy as it was read, so that it cannot slip past the policy's deletion, and on
// the number of experiments, so that the cap holds under any concurrency.
func (s *Server) experimentCreation(
	ctx context.Context, v Verb, stored storedExperiment, given *adminpb.PolicyExperiment, validateOnly bool,
) (*Change, error) {
	name, policy := stored.name, stored.name.Policy()
	if err := parentOf(stored); err != nil {
		return nil, err
	}
	experiment, err := s.newExperiment(ctx, name, given)
	if err != nil {
		return nil, err
	}
	if stored.damage != nil {
		return nil, apierror.AlreadyExists(name, apierror.ReasonAlreadyExists, "It cannot be read. "+damageHints[experimentKind.resourceType])
	}
	if stored.exists() {
		return nil, apierror.AlreadyExists(name, apierror.ReasonAlreadyExists, "Update it, or choose another ID.")
	}
	if validateOnly {
		return &Change{Target: name, Response: experiment}, s.checkExperimentLimit(ctx, policy)
	}
	now := timestamppb.New(s.now())
	experiment.Uid, experiment.CreateTime, experiment.UpdateTime = NewID(), now, now
	if by := access.FromContext(ctx); by.Known() {
		experiment.Creator, experiment.CreatorDisplay, experiment.PolicyEditors = by.Member, by.Display, []string{by.Member}
	}
	base, err := s.setBase(ctx, experiment, stored.parent.Policy)
	if err != nil {
		return nil, err
	}
	write, err := experimentPut(experiment)
	if err != nil {
		return nil, err
	}
	return &Change{
		Target: name,
		Verb:   v,
		Conditions: []Condition{
			stored.parent.Unchanged(), Absent{name}, FewerThan{policy.In("experiments"), maxExperiments},
		},
		refused: func(c Condition) error {
			if _, full := c.(FewerThan); full {
				return experimentLimit(policy)
			}
			return nil
		},
		Writes:   []Write{write, base},
		after:    experiment.Etag,
		Response: experiment,
	}, nil
}

// parentOf checks that the policy of an experiment is there and not deleted.
func parentOf(stored storedExperiment) error {
	policy := stored.name.Policy()
	if !stored.parent.exists() {
		return apierror.NotFound(policy)
	}
	if !stored.parent.Live() {
		return policyDeleted(policy)
	}
	return stored.parent.Damage
}

// newExperiment returns what of a given experiment becomes the resource.
func (s *Server) newExperiment(
	ctx context.Context, name Key, given *adminpb.PolicyExperiment,
) (*adminpb.PolicyExperiment, error) {
	experiment := proto.CloneOf(given)
	aip.ClearOutputOnly(experiment)
	experiment.Name = string(name)
	if experiment.GetPolicy().GetName() != string(name.Policy()) {
		return nil, apierror.Invalid(apierror.ReasonPolicyNameMismatch, "policy_experiment.policy.name",
			"It has to be the name of the live policy, "+string(name.Policy())+".")
	}
	return experiment, s.validateExperiment(ctx, experiment, nil)
}

// checkExperimentLimit returns an error if the policy has all the experiments it may have:
// for validate_only, which makes no Txn whose condition would find out.
func (s *Server) checkExperimentLimit(ctx context.Context, policy Key) error {
	present, err := s.store.ListSummaries(ctx, Query{Collection: policy.In("experiments"), Limit: maxExperiments})
	if err != nil {
		return s.storeFailed(ctx, "listing the experiments of "+string(policy), err)
	}
	if len(present) >= maxExperiments {
		return experimentLimit(policy)
	}
	return nil
}

// experimentByUpdate is an update of an experiment that is not there.
func (s *Server) experimentByUpdate(
	ctx context.Context, stored storedExperiment, r *adminpb.UpdatePolicyExperimentRequest,
) (*Change, error) {
	given := r.GetPolicyExperiment()
	if !r.GetAllowMissing() {
		return nil, apierror.NotFound(stored.name)
	}
	if etag := given.GetEtag(); etag != "" {
		return nil, apierror.MissingAborted(stored.name, etag)
	}
	if err := checkID("policy_experiment.name", stored.name.ID()); err != nil {
		return nil, err
	}
	if err := content.RequirePolicy(given); err != nil {
		return nil, err
	}
	return s.experimentCreation(ctx, VerbUpdate, stored, given, r.GetValidateOnly())
}

// experimentUpdate works out the update of an experiment that is there.
func (s *Server) experimentUpdate(
	ctx context.Context, stored storedExperiment, given *adminpb.PolicyExperiment, mask aip.Mask,
) (*Change, error) {
	if err := matchEtag(stored.name, given.GetEtag(), stored.experiment.Etag); err != nil {
		return nil, err
	}
	experiment := proto.CloneOf(stored.experiment)
	if err := content.ApplyExperimentMask(mask, experiment, given); err != nil {
		return nil, err
	}
	if err := s.validateExperiment(ctx, experiment, stored.experiment); err != nil {
		return nil, err
	}
	experiment.BaseRevision = cmp.Or(experiment.BaseRevision, stored.experiment.BaseRevision)
	rebased := stored.isRebased(given, mask)
	same := proto.Equal(content.OfExperiment(experiment), content.OfExperiment(stored.experiment))
	if same && !rebased {
		return UnchangedResource(VerbUpdate, stored.record, stored.experiment), nil
	}
	now := timestamppb.New(s.now())
	experiment.UpdateTime = now
	if !content.SameChange(experiment, stored.experiment) {
		experiment.PolicyEditors = withEditor(experiment.PolicyEditors, access.FromContext(ctx).Member)
	}
	if preview := experiment.PreviewMetadata; !same && preview.GetState() == adminpb.PolicyPreviewMetadata_ACTIVE {
		preview.State, preview.StopTime = adminpb.PolicyPreviewMetadata_SUSPENDED, now
	}
	c, err := experimentReplacement(VerbUpdate, stored, experiment)
	if err == nil && rebased {
		err = s.rebase(ctx, c, stored, experiment)
	}
	return c, err
}

// maxPolicyEditors bounds the names that an experiment keeps of those who set its policy.
const maxPolicyEditors = 100

// withEditor returns the editors of an experiment's policy with one more. They are all who set
// it, or nobody: with one who is not known, or one too many, there are no names any more, and
// then nobody can show that he is not among them.
func withEditor(editors []string, member string) []string {
	if len(editors) == 0 || member == "" {
		return nil
	}
	out := append(slices.Clone(editors), member)
	slices.Sort(out)
	if out = slices.Compact(out); len(out) > maxPolicyEditors {
		return nil
	}
	return out
}

// experimentReplacement is the change that puts an experiment in the place of
// stored.
func experimentReplacement(
	v Verb, stored storedExperiment, experiment *adminpb.PolicyExperiment,
) (*Change, error) {
	write, err := experimentPut(experiment)
	if err != nil {
		return nil, err
	}
	return &Change{
		Target:     stored.name,
		Verb:       v,
		Conditions: []Condition{stored.unchanged()},
		Writes:     []Write{write},
		before:     stored.record.Etag,
		after:      experiment.Etag,
		Response:   experiment,
	}, nil
}

// experimentPut names the experiment's content by its etag and returns the write
// that stores it.
func experimentPut(experiment *adminpb.PolicyExperiment) (Put, error) {
	etag, err := content.ExperimentEtag(experiment)
	if err != nil {
		return Put{}, err
	}
	if experiment.Etag != etag {
		experiment.AcceptedPaths = nil // nothing of this content was accepted yet
	}
	experiment.Etag = etag
	return NewPut(Key(experiment.Name), etag, experiment)
}

// experimentLimit is RESOURCE_EXHAUSTED of a policy with all the experiments it
// may have (AIP-236).
func experimentLimit(policy Key) error {
	limit := strconv.Itoa(maxExperiments)
	return apierror.New(codes.ResourceExhausted, apierror.ReasonExperimentLimit,
		fmt.Sprintf("Policy '%s' has %s experiments, the most it may have. Delete or commit one first.", policy, limit),
		apierror.Facts{"resource": string(policy), "limit": limit},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: string(policy), Description: "At most " + limit + " experiments for a policy.",
		}}})
}
