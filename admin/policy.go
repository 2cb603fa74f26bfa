package admin

import (
	"context"
	"errors"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

// GetPolicy implements AIP-131. A soft-deleted policy is returned too (AIP-164).
func (s *Server) GetPolicy(ctx context.Context, r *adminpb.GetPolicyRequest) (*adminpb.Policy, error) {
	name, err := policyKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	stored, err := s.readPolicy(ctx, name)
	if err != nil {
		return nil, err
	}
	if !stored.exists() {
		return nil, notFound(name)
	}
	return stored.policy, s.markReconciling(ctx, name, stored.record.Sequence, &stored.policy.Reconciling)
}

// CreatePolicy implements AIP-133. A policy without content is a no-op policy.
func (s *Server) CreatePolicy(
	ctx context.Context, r *adminpb.CreatePolicyRequest,
) (*longrunningpb.Operation, error) {
	parent, err := locationKind.parse("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	if err := checkID("policy_id", r.GetPolicyId()); err != nil {
		return nil, err
	}
	if r.GetPolicy() == nil {
		return nil, required("policy", "It may be empty: {} is a policy without rules.")
	}
	name := parent.in("policies").key(r.GetPolicyId())
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
		stored, err := s.findPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		return s.creation(ctx, verbCreate, name, stored, r.GetPolicy(), r.GetValidateOnly())
	})
}

// UpdatePolicy implements AIP-134, with allow_missing.
func (s *Server) UpdatePolicy(
	ctx context.Context, r *adminpb.UpdatePolicyRequest,
) (*longrunningpb.Operation, error) {
	if r.GetPolicy() == nil {
		return nil, required("policy", "Its name says what to update.")
	}
	name, err := policyKind.parse("policy.name", r.GetPolicy().GetName())
	if err != nil {
		return nil, err
	}
	mask, err := parseMask(r.GetUpdateMask(), r.GetPolicy())
	if err != nil {
		return nil, err
	}
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
		stored, err := s.findPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.exists() {
			return s.creationByUpdate(ctx, name, stored, r)
		}
		if stored.damage != nil {
			return s.damagedPolicyUpdate(ctx, stored, r.GetPolicy(), mask)
		}
		return s.policyUpdate(ctx, stored, r.GetPolicy(), mask)
	})
}

// DeletePolicy implements the soft delete of AIP-164 with the unconditional cascade
// of AIP-236: the policy's experiments are deleted for good.
func (s *Server) DeletePolicy(
	ctx context.Context, r *adminpb.DeletePolicyRequest,
) (*longrunningpb.Operation, error) {
	name, err := policyKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
		stored, err := s.findPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.live() && stored.damage == nil {
			if r.GetAllowMissing() {
				return nothingToDelete(name, &adminpb.Policy{Name: string(name)}), nil
			}
			return nil, notFound(name)
		}
		if err := matchEtag(name, r.GetEtag(), stored.record.Etag); err != nil {
			return nil, err
		}
		return s.policyDeletion(stored)
	})
}

// UndeletePolicy implements AIP-164. The experiments do not come back.
func (s *Server) UndeletePolicy(
	ctx context.Context, r *adminpb.UndeletePolicyRequest,
) (*longrunningpb.Operation, error) {
	name, err := policyKind.parse("name", r.GetName())
	if err != nil {
		return nil, err
	}
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
		stored, err := s.readPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		switch {
		case !stored.exists():
			return nil, notFound(name)
		case stored.live():
			return nil, alreadyExists(name, reasonPolicyNotDeleted, "It is not deleted.")
		}
		if err := matchEtag(name, r.GetEtag(), stored.policy.Etag); err != nil {
			return nil, err
		}
		return s.policyRestoration(ctx, stored)
	})
}

// storedPolicy is a policy as it was read, or the knowledge that there is none.
type storedPolicy struct {
	record Record
	// policy is nil if there is none, or if it cannot be read.
	policy *adminpb.Policy
	// damage is the caller's error of a policy that cannot be read.
	damage error
}

// exists reports whether there is such a policy, be it soft-deleted or damaged.
func (p storedPolicy) exists() bool { return p.record.Key != "" }

// live reports whether the policy exists and is not soft-deleted. One that cannot be read
// is soft-deleted if its record has an expiry.
func (p storedPolicy) live() bool {
	if p.damage != nil {
		return p.record.ExpireTime.IsZero()
	}
	return p.exists() && p.policy.DeleteTime == nil
}

// readable reports whether the policy is live and can be read.
func (p storedPolicy) readable() bool { return p.live() && p.damage == nil }

// unchanged is the condition under which what was worked out from p still holds.
func (p storedPolicy) unchanged() Condition {
	return Unchanged{p.record.Key, p.record.Sequence}
}

// readPolicy reads a policy. One that cannot be read is an error.
func (s *Server) readPolicy(ctx context.Context, name Key) (storedPolicy, error) {
	stored, err := s.findPolicy(ctx, name)
	if err != nil {
		return storedPolicy{}, err
	}
	return stored, stored.damage
}

// findPolicy reads a policy for those who can do without its content.
func (s *Server) findPolicy(ctx context.Context, name Key) (storedPolicy, error) {
	records, err := s.store.Get(ctx, name)
	if err != nil {
		return storedPolicy{}, s.storeFailed(ctx, "reading "+string(name), err)
	}
	return s.asPolicy(ctx, records[0]), nil
}

func (s *Server) asPolicy(ctx context.Context, r Record) storedPolicy {
	if r.Key == "" {
		return storedPolicy{}
	}
	policy, err := decode(r, &adminpb.Policy{})
	if err != nil {
		return storedPolicy{record: r, damage: s.damaged(ctx, r.Key, err)}
	}
	return storedPolicy{record: r, policy: policy}
}

// creation works out the creation of a policy. A soft-deleted one keeps its ID
// until it is purged (AIP-164).
func (s *Server) creation(
	ctx context.Context, v verb, name Key, stored storedPolicy, given *adminpb.Policy, validateOnly bool,
) (*change, error) {
	policy := proto.CloneOf(given)
	aip.ClearOutputOnly(policy)
	policy.Name = string(name)
	if err := notReserved("parent", Key(name.location())); err != nil {
		return nil, err
	}
	if err := s.validatePolicy(ctx, "policy", policy, nil); err != nil {
		return nil, err
	}
	if stored.exists() {
		return nil, policyExists(stored)
	}
	if validateOnly {
		return &change{target: name, response: policy}, nil
	}
	now := timestamppb.New(s.now())
	policy.Uid, policy.CreateTime, policy.UpdateTime = newID(), now, now
	if err := nameContent(policy, ""); err != nil {
		return nil, err
	}
	writes, err := newPolicyWrites(policy)
	if err != nil {
		return nil, err
	}
	return &change{
		target:     name,
		verb:       v,
		conditions: []Condition{Absent{name}},
		writes:     writes,
		response:   policy,
	}, nil
}

func policyExists(stored storedPolicy) error {
	if stored.damage != nil {
		return alreadyExists(stored.record.Key, reasonAlreadyExists, "It cannot be read. "+damageHints[policyKind.resourceType])
	}
	if stored.live() {
		return alreadyExists(stored.record.Key, reasonAlreadyExists, "Update it, or choose another ID.")
	}
	return alreadyExists(stored.record.Key, reasonAlreadyExists,
		"It is deleted, but keeps its ID until it is purged. Undelete it, or choose another ID.")
}

// creationByUpdate is an update of a policy that is not there.
func (s *Server) creationByUpdate(
	ctx context.Context, name Key, stored storedPolicy, r *adminpb.UpdatePolicyRequest,
) (*change, error) {
	if !r.GetAllowMissing() {
		return nil, notFound(name)
	}
	if etag := r.GetPolicy().GetEtag(); etag != "" {
		return nil, missingAborted(name, etag)
	}
	if err := checkID("policy.name", name.id()); err != nil {
		return nil, err
	}
	return s.creation(ctx, verbUpdate, name, stored, r.GetPolicy(), r.GetValidateOnly())
}

// policyUpdate works out the update of a policy that is there.
func (s *Server) policyUpdate(
	ctx context.Context, stored storedPolicy, given *adminpb.Policy, mask aip.Mask,
) (*change, error) {
	name := stored.record.Key
	if !stored.live() {
		return nil, policyDeleted(name)
	}
	if err := matchEtag(name, given.GetEtag(), stored.policy.Etag); err != nil {
		return nil, err
	}
	policy := proto.CloneOf(stored.policy)
	if err := applyMask("policy", mask, policy, given); err != nil {
		return nil, err
	}
	if err := s.validatePolicy(ctx, "policy", policy, stored.policy); err != nil {
		return nil, err
	}
	if proto.Equal(policyContent(policy), policyContent(stored.policy)) {
		return unchangedResource(verbUpdate, stored.record, stored.policy), nil
	}
	policy.UpdateTime = timestamppb.New(s.now())
	if err := nameContent(policy, ""); err != nil {
		return nil, err
	}
	return s.policyReplacement(ctx, verbUpdate, stored, policy)
}

// policyReplacement is the change that puts a policy, whose content is named, in the
// place of stored.
func (s *Server) policyReplacement(
	ctx context.Context, v verb, stored storedPolicy, policy *adminpb.Policy,
) (*change, error) {
	writes, err := s.policyWrites(ctx, policy)
	if err != nil {
		return nil, err
	}
	return &change{
		target:     stored.record.Key,
		verb:       v,
		conditions: []Condition{stored.unchanged()},
		writes:     writes,
		response:   policy,
		revision:   policy.Revision,
	}, nil
}

// policyDeletion works out the soft delete of a live policy. Its revisions are purged
// with it. One that cannot be read could not be restored either: it is purged at once.
func (s *Server) policyDeletion(stored storedPolicy) (*change, error) {
	if stored.damage != nil {
		return s.damagedPolicyDeletion(stored), nil
	}
	policy, write, err := softDeletion(stored.policy, s.now())
	if err != nil {
		return nil, err
	}
	return &change{
		target:     stored.record.Key,
		verb:       verbDelete,
		conditions: []Condition{stored.unchanged()},
		writes:     deletionWrites(write),
		response:   policy,
	}, nil
}

// deletionWrites are the writes of a soft deletion, with what they do below the policy.
func deletionWrites(policy Put) []Write {
	return []Write{
		policy, DeleteCollection{policy.Key.in("experiments")}, ExpireCollection{policy.Key.in("revisions"), policy.ExpireTime},
	}
}

// softDeletion returns a policy as it is from its deletion on, and the write that stores
// it until it is purged.
func softDeletion(live *adminpb.Policy, now time.Time) (*adminpb.Policy, Put, error) {
	policy := proto.CloneOf(live)
	policy.DeleteTime, policy.UpdateTime = timestamppb.New(now), timestamppb.New(now)
	policy.PurgeTime = timestamppb.New(now.Add(purgeAfter))
	write, err := put(policy.Name, policy.Etag, policy)
	write.ExpireTime = policy.PurgeTime.AsTime()
	return policy, write, err
}

// policyRestoration works out the undelete of a soft-deleted policy. It compiles
// the policy again: what this version cannot run must not become live.
func (s *Server) policyRestoration(ctx context.Context, stored storedPolicy) (*change, error) {
	policy := proto.CloneOf(stored.policy)
	policy.DeleteTime, policy.PurgeTime = nil, nil
	policy.UpdateTime = timestamppb.New(s.now())
	if err := s.compile(ctx, "policy", policy); err != nil {
		return nil, err
	}
	c, err := s.policyReplacement(ctx, verbUndelete, stored, policy)
	if err != nil {
		return nil, err
	}
	c.writes = append([]Write{ExpireCollection{Collection: stored.record.Key.in("revisions")}}, c.writes...)
	return c, nil
}

// matchEtag checks a caller's etag, if there is one, bytewise (AIP-154).
func matchEtag(name Key, given, current string) error {
	if given != "" && given != current {
		return etagMismatch(name, reasonEtagMismatch, given, current)
	}
	return nil
}

// unchangedResource is the change of a resource that already is as it should be.
func unchangedResource(v verb, r Record, m proto.Message) *change {
	return &change{
		target:     r.Key,
		verb:       v,
		conditions: []Condition{Unchanged{r.Key, r.Sequence}},
		response:   m,
		settled:    r.Sequence,
	}
}

// nothingToDelete is the change of a delete with allow_missing (AIP-135).
func nothingToDelete(name Key, m proto.Message) *change {
	return &change{target: name, verb: verbDelete, response: m, settled: noSequence}
}

// asCondition reports whether err is a condition that did not hold.
func asCondition(err error, failed **ConditionError) bool { return errors.As(err, failed) }
