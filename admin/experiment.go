package admin

import (
	"context"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
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
		return nil, notFound(name)
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
	if err := requirePolicy(r.GetPolicyExperiment()); err != nil {
		return nil, err
	}
	name := parent.in("experiments").key(r.GetPolicyExperimentId())
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
		stored, err := s.readExperiment(ctx, name)
		if err != nil {
			return nil, err
		}
		return s.experimentCreation(ctx, verbCreate, stored, r.GetPolicyExperiment(), r.GetValidateOnly())
	})
}

// requirePolicy checks that an experiment has a policy to preview.
func requirePolicy(e *adminpb.PolicyExperiment) error {
	if e == nil {
		return required("policy_experiment", "It holds the policy to preview.")
	}
	if e.GetPolicy() == nil {
		return required("policy_experiment.policy", "Copy the live policy, its name included, and change the copy.")
	}
	return nil
}

// UpdatePolicyExperiment implements AIP-134. An update that changes something
// suspends an ACTIVE experiment (AIP-236).
func (s *Server) UpdatePolicyExperiment(
	ctx context.Context, r *adminpb.UpdatePolicyExperimentRequest,
) (*longrunningpb.Operation, error) {
	given := r.GetPolicyExperiment()
	if given == nil {
		return nil, required("policy_experiment", "Its name says what to update.")
	}
	name, err := experimentKind.parse("policy_experiment.name", given.GetName())
	if err != nil {
		return nil, err
	}
	mask, err := parseMask(r.GetUpdateMask(), given)
	if err != nil {
		return nil, err
	}
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
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
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
		stored, err := s.readExperiment(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.exists() {
			if r.GetAllowMissing() {
				return nothingToDelete(name, &adminpb.PolicyExperiment{Name: string(name)}), nil
			}
			return nil, notFound(name)
		}
		if err := matchEtag(name, r.GetEtag(), stored.record.Etag); err != nil {
			return nil, err
		}
		last := stored.experiment
		if stored.damage != nil {
			last = &adminpb.PolicyExperiment{Name: string(name)}
		}
		return &change{
			target:     name,
			verb:       verbDelete,
			conditions: []Condition{stored.unchanged()},
			writes:     []Write{Delete{name}},
			response:   last,
		}, nil
	})
}

// storedExperiment is an experiment as it was read together with its policy, or
// the knowledge that there is none.
type storedExperiment struct {
	name   Key
	record Record
	// experiment is nil if there is none, or if it cannot be read.
	experiment *adminpb.PolicyExperiment
	// damage is the caller's error of an experiment that cannot be read.
	damage error
	// parent may be damaged, too.
	parent storedPolicy
}

func (e storedExperiment) exists() bool { return e.record.Key != "" }

// unchanged is the condition under which what was worked out from e still holds.
func (e storedExperiment) unchanged() Condition {
	return Unchanged{e.record.Key, e.record.Sequence}
}

// readExperiment reads an experiment and its policy at one instant.
func (s *Server) readExperiment(ctx context.Context, name Key) (storedExperiment, error) {
	stored := storedExperiment{name: name}
	records, err := s.store.Get(ctx, name, name.policy())
	if err != nil {
		return stored, s.storeFailed(ctx, "reading "+string(name), err)
	}
	stored.parent, stored.record = s.asPolicy(ctx, records[1]), records[0]
	if !stored.exists() {
		return stored, nil
	}
	experiment, err := decode(stored.record, &adminpb.PolicyExperiment{})
	if err != nil {
		stored.damage = s.damaged(ctx, name, err)
		return stored, nil
	}
	stored.experiment = experiment
	return stored, nil
}

// experimentCreation works out the creation of an experiment. It depends on the
// policy as it was read, so that it cannot slip past the policy's deletion, and on
// the number of experiments, so that the cap holds under any concurrency.
func (s *Server) experimentCreation(
	ctx context.Context, v verb, stored storedExperiment, given *adminpb.PolicyExperiment, validateOnly bool,
) (*change, error) {
	name, policy := stored.name, stored.name.policy()
	if err := parentOf(stored); err != nil {
		return nil, err
	}
	experiment, err := s.newExperiment(ctx, name, given)
	if err != nil {
		return nil, err
	}
	if stored.damage != nil {
		return nil, alreadyExists(name, reasonAlreadyExists, "It cannot be read. "+damageHints[experimentKind.resourceType])
	}
	if stored.exists() {
		return nil, alreadyExists(name, reasonAlreadyExists, "Update it, or choose another ID.")
	}
	if validateOnly {
		return &change{target: name, response: experiment}, s.checkExperimentLimit(ctx, policy)
	}
	now := timestamppb.New(s.now())
	experiment.Uid, experiment.CreateTime, experiment.UpdateTime = newID(), now, now
	write, err := experimentPut(experiment)
	if err != nil {
		return nil, err
	}
	return &change{
		target: name,
		verb:   v,
		conditions: []Condition{
			stored.parent.unchanged(), Absent{name}, FewerThan{policy.in("experiments"), maxExperiments},
		},
		refused: func(c Condition) error {
			if _, full := c.(FewerThan); full {
				return experimentLimit(policy)
			}
			return nil
		},
		writes:   []Write{write},
		response: experiment,
	}, nil
}

// parentOf checks that the policy of an experiment is there and not deleted.
func parentOf(stored storedExperiment) error {
	policy := stored.name.policy()
	if !stored.parent.exists() {
		return notFound(policy)
	}
	if !stored.parent.live() {
		return policyDeleted(policy)
	}
	return stored.parent.damage
}

// newExperiment returns what of a given experiment becomes the resource.
func (s *Server) newExperiment(
	ctx context.Context, name Key, given *adminpb.PolicyExperiment,
) (*adminpb.PolicyExperiment, error) {
	experiment := proto.CloneOf(given)
	aip.ClearOutputOnly(experiment)
	experiment.Name = string(name)
	if experiment.GetPolicy().GetName() != string(name.policy()) {
		return nil, invalid(reasonPolicyNameMismatch, violation{"policy_experiment.policy.name",
			"It has to be the name of the live policy, " + string(name.policy()) + "."})
	}
	return experiment, s.validateExperiment(ctx, experiment, nil)
}

// checkExperimentLimit tells a caller of validate_only that the policy has all the
// experiments it may have.
func (s *Server) checkExperimentLimit(ctx context.Context, policy Key) error {
	present, err := s.store.List(ctx, Query{Collection: policy.in("experiments"), Limit: maxExperiments})
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
) (*change, error) {
	given := r.GetPolicyExperiment()
	if !r.GetAllowMissing() {
		return nil, notFound(stored.name)
	}
	if etag := given.GetEtag(); etag != "" {
		return nil, missingAborted(stored.name, etag)
	}
	if err := checkID("policy_experiment.name", stored.name.id()); err != nil {
		return nil, err
	}
	if err := requirePolicy(given); err != nil {
		return nil, err
	}
	return s.experimentCreation(ctx, verbUpdate, stored, given, r.GetValidateOnly())
}

// experimentUpdate works out the update of an experiment that is there.
func (s *Server) experimentUpdate(
	ctx context.Context, stored storedExperiment, given *adminpb.PolicyExperiment, mask aip.Mask,
) (*change, error) {
	if err := matchEtag(stored.name, given.GetEtag(), stored.experiment.Etag); err != nil {
		return nil, err
	}
	experiment := proto.CloneOf(stored.experiment)
	if err := applyExperimentMask(mask, experiment, given); err != nil {
		return nil, err
	}
	if err := s.validateExperiment(ctx, experiment, stored.experiment); err != nil {
		return nil, err
	}
	if proto.Equal(experimentContent(experiment), experimentContent(stored.experiment)) {
		return unchangedResource(verbUpdate, stored.record, stored.experiment), nil
	}
	now := timestamppb.New(s.now())
	experiment.UpdateTime = now
	if preview := experiment.PreviewMetadata; preview.GetState() == adminpb.PolicyPreviewMetadata_ACTIVE {
		preview.State, preview.StopTime = adminpb.PolicyPreviewMetadata_SUSPENDED, now
	}
	return experimentReplacement(verbUpdate, stored, experiment)
}

// experimentReplacement is the change that puts an experiment in the place of
// stored.
func experimentReplacement(
	v verb, stored storedExperiment, experiment *adminpb.PolicyExperiment,
) (*change, error) {
	write, err := experimentPut(experiment)
	if err != nil {
		return nil, err
	}
	return &change{
		target:     stored.name,
		verb:       v,
		conditions: []Condition{stored.unchanged()},
		writes:     []Write{write},
		response:   experiment,
	}, nil
}

// experimentPut names the experiment's content by its etag and returns the write
// that stores it.
func experimentPut(experiment *adminpb.PolicyExperiment) (Put, error) {
	etag, err := experimentEtag(experiment)
	if err != nil {
		return Put{}, err
	}
	experiment.Etag = etag
	return put(experiment.Name, etag, experiment)
}
