package admin

import (
	"context"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/aip"
	"understudy/admin/apierror"
	"understudy/admin/content"
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
		return nil, apierror.NotFound(name)
	}
	return stored.Policy, s.markReconciling(ctx, name, stored.Record.Sequence, &stored.Policy.Reconciling)
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
		return nil, apierror.Required("policy", "It may be empty: {} is a policy without rules.")
	}
	name := parent.In("policies").Key(r.GetPolicyId())
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.FindPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		return s.creation(ctx, newPolicy{VerbCreate, name, r.GetPolicy()}, stored, r.GetValidateOnly())
	})
}

// UpdatePolicy implements AIP-134, with allow_missing.
func (s *Server) UpdatePolicy(
	ctx context.Context, r *adminpb.UpdatePolicyRequest,
) (*longrunningpb.Operation, error) {
	if r.GetPolicy() == nil {
		return nil, apierror.Required("policy", "Its name says what to update.")
	}
	name, err := policyKind.parse("policy.name", r.GetPolicy().GetName())
	if err != nil {
		return nil, err
	}
	mask, err := content.ParseMask(r.GetUpdateMask(), r.GetPolicy())
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.FindPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.exists() {
			return s.creationByUpdate(ctx, name, stored, r)
		}
		if stored.Damage != nil {
			return s.damagedPolicyUpdate(ctx, stored, r.GetPolicy(), mask)
		}
		return s.policyUpdate(ctx, stored, r, mask)
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
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.FindPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		if !stored.Live() && stored.Damage == nil {
			if r.GetAllowMissing() {
				return nothingToDelete(name, &adminpb.Policy{Name: string(name)}), nil
			}
			return nil, apierror.NotFound(name)
		}
		if err := matchEtag(name, r.GetEtag(), stored.Record.Etag); err != nil {
			return nil, err
		}
		return s.PolicyDeletion(stored)
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
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		stored, err := s.readPolicy(ctx, name)
		if err != nil {
			return nil, err
		}
		switch {
		case !stored.exists():
			return nil, apierror.NotFound(name)
		case stored.Live():
			return nil, apierror.AlreadyExists(name, apierror.ReasonPolicyNotDeleted, "It is not deleted.")
		}
		if err := matchEtag(name, r.GetEtag(), stored.Policy.Etag); err != nil {
			return nil, err
		}
		return s.policyRestoration(ctx, stored)
	})
}

// StoredPolicy is a policy as it was read, or the knowledge that there is none.
type StoredPolicy struct {
	Record Record
	// Policy is nil if there is none, or if it cannot be read.
	Policy *adminpb.Policy
	// Damage is the caller's error of a policy that cannot be read.
	Damage error
}

// exists reports whether there is such a policy, be it soft-deleted or damaged.
func (p StoredPolicy) exists() bool { return p.Record.Key != "" }

// Live reports whether the policy exists and is not soft-deleted. One that cannot be read
// is soft-deleted if its record has an expiry.
func (p StoredPolicy) Live() bool {
	if p.Damage != nil {
		return p.Record.ExpireTime.IsZero()
	}
	return p.exists() && p.Policy.DeleteTime == nil
}

// Readable reports whether the policy is live and can be read.
func (p StoredPolicy) Readable() bool { return p.Live() && p.Damage == nil }

// Unchanged is the condition under which what was worked out from p still holds.
func (p StoredPolicy) Unchanged() Condition {
	return Unchanged{p.Record.Key, p.Record.Sequence}
}

// readPolicy reads a policy. One that cannot be read is an error.
func (s *Server) readPolicy(ctx context.Context, name Key) (StoredPolicy, error) {
	stored, err := s.FindPolicy(ctx, name)
	if err != nil {
		return StoredPolicy{}, err
	}
	return stored, stored.Damage
}

// FindPolicy reads a policy for those who can do without its content.
func (s *Server) FindPolicy(ctx context.Context, name Key) (StoredPolicy, error) {
	records, err := s.Get(ctx, name)
	if err != nil {
		return StoredPolicy{}, err
	}
	return s.AsPolicy(ctx, records[0]), nil
}

// AsPolicy is FindPolicy of a record that the caller has read together with others, at one
// instant.
func (s *Server) AsPolicy(ctx context.Context, r Record) StoredPolicy {
	if r.Key == "" {
		return StoredPolicy{}
	}
	policy, err := Decode(r, &adminpb.Policy{})
	if err != nil {
		return StoredPolicy{Record: r, Damage: s.damaged(ctx, r.Key, err)}
	}
	return StoredPolicy{Record: r, Policy: policy}
}

// newPolicy is a policy that is to be created.
type newPolicy struct {
	// verb is that of the call, which may be an update.
	verb  Verb
	name  Key
	given *adminpb.Policy
}

// creation works out the creation of a policy. A soft-deleted one keeps its ID
// until it is purged (AIP-164).
func (s *Server) creation(ctx context.Context, p newPolicy, stored StoredPolicy, validateOnly bool) (*Change, error) {
	policy := proto.CloneOf(p.given)
	aip.ClearOutputOnly(policy)
	policy.Name = string(p.name)
	if err := notReserved("parent", Key(p.name.Location())); err != nil {
		return nil, err
	}
	if err := s.ValidatePolicy(ctx, "policy", policy, nil); err != nil {
		return nil, err
	}
	if stored.exists() {
		return nil, policyExists(stored)
	}
	if validateOnly {
		return &Change{Target: p.name, Response: policy}, nil
	}
	now := timestamppb.New(s.now())
	policy.Uid, policy.CreateTime, policy.UpdateTime = NewID(), now, now
	if err := NameContent(policy, ""); err != nil {
		return nil, err
	}
	writes, err := newPolicyWrites(ctx, policy, activation{verb: p.verb})
	if err != nil {
		return nil, err
	}
	return &Change{
		Target:     p.name,
		Verb:       p.verb,
		Conditions: []Condition{Absent{p.name}},
		Writes:     writes,
		after:      policy.Etag,
		Response:   policy,
	}, nil
}

// policyExists is the error of an ID that is taken. What can be done about it depends on
// the state of the policy that has it.
func policyExists(stored StoredPolicy) error {
	if stored.Damage != nil {
		return apierror.AlreadyExists(stored.Record.Key, apierror.ReasonAlreadyExists, "It cannot be read. "+damageHints[policyKind.resourceType])
	}
	if stored.Live() {
		return apierror.AlreadyExists(stored.Record.Key, apierror.ReasonAlreadyExists, "Update it, or choose another ID.")
	}
	return apierror.AlreadyExists(stored.Record.Key, apierror.ReasonAlreadyExists,
		"It is deleted, but keeps its ID until it is purged. Undelete it, or choose another ID.")
}

// creationByUpdate is an update of a policy that is not there.
func (s *Server) creationByUpdate(
	ctx context.Context, name Key, stored StoredPolicy, r *adminpb.UpdatePolicyRequest,
) (*Change, error) {
	if !r.GetAllowMissing() {
		return nil, apierror.NotFound(name)
	}
	if etag := r.GetPolicy().GetEtag(); etag != "" {
		return nil, apierror.MissingAborted(name, etag)
	}
	if err := checkID("policy.name", name.ID()); err != nil {
		return nil, err
	}
	return s.creation(ctx, newPolicy{VerbUpdate, name, r.GetPolicy()}, stored, r.GetValidateOnly())
}

// policyUpdate works out the update of a policy that is there. A deleted one is restored by it, if the
// caller says so.
func (s *Server) policyUpdate(
	ctx context.Context, stored StoredPolicy, r *adminpb.UpdatePolicyRequest, mask aip.Mask,
) (*Change, error) {
	name, given, deleted := stored.Record.Key, r.GetPolicy(), !stored.Live()
	if deleted && !r.GetUndelete() {
		return nil, policyDeleted(name)
	}
	if err := matchEtag(name, given.GetEtag(), stored.Policy.Etag); err != nil {
		return nil, err
	}
	policy := proto.CloneOf(stored.Policy)
	if err := content.ApplyMask("policy", mask, policy, given); err != nil {
		return nil, err
	}
	if err := s.ValidatePolicy(ctx, "policy", policy, stored.Policy); err != nil {
		return nil, err
	}
	if !deleted && proto.Equal(content.OfPolicy(policy), content.OfPolicy(stored.Policy)) {
		return s.unchangedPolicy(ctx, stored)
	}
	policy.DeleteTime, policy.PurgeTime = nil, nil
	policy.UpdateTime = timestamppb.New(s.now())
	if err := NameContent(policy, ""); err != nil {
		return nil, err
	}
	c, err := s.policyReplacement(ctx, activation{verb: VerbUpdate}, stored, policy)
	if err == nil && deleted {
		c.Writes = append(UndeletionWrites(name), c.Writes...)
	}
	return c, err
}

// NewContent is content that is to become live.
type NewContent struct {
	// Field is where the content is in the request.
	Field  apierror.Field
	Policy *adminpb.Policy
	// Revision is the ID that its revision gets.
	Revision string
}

// MakeLive works out how given content becomes the live policy of a name. One that is
// soft-deleted is replaced: it keeps its ID from this API only.
func (s *Server) MakeLive(ctx context.Context, name Key, stored StoredPolicy, given NewContent) (*Change, error) {
	now := timestamppb.New(s.now())
	policy := &adminpb.Policy{Name: string(name), Uid: NewID(), CreateTime: now}
	if stored.Readable() {
		policy = content.Basic(stored.Policy)
	}
	content.Copy(policy, given.Policy)
	policy.UpdateTime = now
	if err := s.ValidatePolicy(ctx, given.Field, policy, stored.Policy); err != nil {
		return nil, err
	}
	if err := NameContent(policy, given.Revision); err != nil {
		return nil, err
	}
	c := &Change{
		Target: name, Verb: VerbCreate, Conditions: []Condition{UnchangedRecord(name, stored.Record)},
		before: stored.Record.Etag, after: policy.Etag, Response: policy, revision: policy.Revision,
	}
	var err error
	if stored.Live() {
		c.Verb = VerbUpdate
		c.Writes, err = s.policyWrites(ctx, policy, activation{verb: c.Verb})
	} else {
		c.Writes, err = newPolicyWrites(ctx, policy, activation{verb: c.Verb})
	}
	return c, err
}

// policyReplacement is the change that puts a policy, whose content is named, in the
// place of stored.
func (s *Server) policyReplacement(
	ctx context.Context, how activation, stored StoredPolicy, policy *adminpb.Policy,
) (*Change, error) {
	writes, err := s.policyWrites(ctx, policy, how)
	if err != nil {
		return nil, err
	}
	return &Change{
		Target:     stored.Record.Key,
		Verb:       how.verb,
		Conditions: []Condition{stored.Unchanged()},
		Writes:     writes,
		before:     stored.Record.Etag,
		after:      policy.Etag,
		Response:   policy,
		revision:   policy.Revision,
	}, nil
}

// PolicyDeletion works out the soft delete of a live policy. Its revisions are purged
// with it. One that cannot be read could not be restored either: it is purged at once.
func (s *Server) PolicyDeletion(stored StoredPolicy) (*Change, error) {
	if stored.Damage != nil {
		return s.damagedPolicyDeletion(stored), nil
	}
	policy, write, err := SoftDeletion(stored.Policy, s.now())
	if err != nil {
		return nil, err
	}
	return &Change{
		Target:     stored.Record.Key,
		Verb:       VerbDelete,
		Conditions: []Condition{stored.Unchanged()},
		Writes:     DeletionWrites(write),
		before:     stored.Record.Etag,
		after:      policy.Etag,
		Response:   policy,
	}, nil
}

// matchEtag checks a caller's etag, if there is one, bytewise (AIP-154).
func matchEtag(name Key, given, current string) error {
	if given != "" && given != current {
		return apierror.EtagMismatch(name, apierror.ReasonEtagMismatch, apierror.Versions{Given: given, Current: current})
	}
	return nil
}

// UnchangedResource is the change of a resource that already is as it should be.
func UnchangedResource(v Verb, r Record, m proto.Message) *Change {
	return &Change{
		Target:           r.Key,
		Verb:             v,
		Conditions:       []Condition{Unchanged{r.Key, r.Sequence}},
		before:           r.Etag,
		after:            r.Etag,
		Response:         m,
		ExistingSequence: r.Sequence,
	}
}

// nothingToDelete is the change of a delete with allow_missing (AIP-135).
func nothingToDelete(name Key, m proto.Message) *Change {
	return &Change{Target: name, Verb: VerbDelete, Response: m, ExistingSequence: NoSequence}
}

// policyDeleted is FAILED_PRECONDITION of a soft-deleted policy.
func policyDeleted(name Key) error {
	return apierror.Precondition(name, apierror.ReasonPolicyDeleted, "The policy is deleted. Undelete it first.")
}
