package admin

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

// What can be done with a resource whose record cannot be read: it was damaged, or another
// version wrote it. It is DATA_LOSS to whoever needs its content, and nothing to all others:
// lists name it in `unreachable` (AIP-217). It can be replaced as a whole, and deleted.

// damagedPolicyUpdate works out the replacement of a policy that cannot be read, by an
// update of all fields. Its revisions and experiments stay; who it was is lost.
func (s *Server) damagedPolicyUpdate(
	ctx context.Context, stored storedPolicy, given *adminpb.Policy, mask aip.Mask,
) (*change, error) {
	name := stored.record.Key
	switch {
	case !mask.All():
		return nil, stored.damage
	case !stored.live():
		return nil, policyDeleted(name)
	}
	if err := matchEtag(name, given.GetEtag(), stored.record.Etag); err != nil {
		return nil, err
	}
	now := timestamppb.New(s.now())
	policy := &adminpb.Policy{Name: string(name), Uid: newID(), CreateTime: now, UpdateTime: now}
	if err := applyMask("policy", mask, policy, given); err != nil {
		return nil, err
	}
	if err := s.validatePolicy(ctx, "policy", policy, nil); err != nil {
		return nil, err
	}
	if err := nameContent(policy, ""); err != nil {
		return nil, err
	}
	return s.policyReplacement(ctx, verbUpdate, stored, policy)
}

// damagedPolicyDeletion works out the deletion of a policy that cannot be read, with all
// that belongs to it: nothing could restore it, so its ID is free at once.
func (s *Server) damagedPolicyDeletion(stored storedPolicy) *change {
	name, now := stored.record.Key, timestamppb.New(s.now())
	return &change{
		target:     name,
		verb:       verbDelete,
		conditions: []Condition{stored.unchanged()},
		writes: []Write{
			Delete{name}, DeleteCollection{name.in("experiments")}, DeleteCollection{name.in("revisions")},
		},
		response: &adminpb.Policy{Name: string(name), DeleteTime: now, PurgeTime: now},
	}
}

// damagedExperimentUpdate works out the replacement of an experiment that cannot be read,
// by an update of all fields.
func (s *Server) damagedExperimentUpdate(
	ctx context.Context, stored storedExperiment, given *adminpb.PolicyExperiment, mask aip.Mask,
) (*change, error) {
	if !mask.All() {
		return nil, stored.damage
	}
	if err := matchEtag(stored.name, given.GetEtag(), stored.record.Etag); err != nil {
		return nil, err
	}
	if err := requirePolicy(given); err != nil {
		return nil, err
	}
	experiment, err := s.newExperiment(ctx, stored.name, given)
	if err != nil {
		return nil, err
	}
	now := timestamppb.New(s.now())
	experiment.Uid, experiment.CreateTime, experiment.UpdateTime = newID(), now, now
	return experimentReplacement(verbUpdate, stored, experiment)
}

// errListed is the cause of a resource that a list has found unreadable.
var errListed = errors.New("it cannot be decoded")
