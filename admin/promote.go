package admin

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// A promotion is worked out from a snapshot: the configuration of both locations, the
// policies of the one, and those of the other that they replace. All of it becomes
// conditions of the one Txn that is made, so that it takes effect for all policies at one
// instant, or is worked out anew.

// maxPromoted is the number of policies that one call may promote.
const maxPromoted = 1000

// PromotePolicies makes live revisions of a location's policies live in its next
// location (RFC-042): by reference, and either all of them or none. What is promoted,
// where to and in the place of what is all in the request, so that nobody promotes what he
// has not seen; if some of it is not so any more, nothing is. Policies that are only in the
// next location stay as they are, and so do the experiments there. The operation is one of
// the next location, whose sidecars have to apply it.
func (s *Server) PromotePolicies(
	ctx context.Context, r *adminpb.PromotePoliciesRequest,
) (*longrunningpb.Operation, error) {
	from, err := locationKind.parse("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	to, err := s.parseDestination(ctx, r.GetDestination())
	if err != nil {
		return nil, err
	}
	seen, err := parsePromoted(from, r.GetPolicies())
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		p, err := s.readSeen(ctx, from, to, seen)
		if err != nil {
			return nil, err
		}
		return s.Promote(ctx, p, r.GetValidateOnly())
	})
}

// parseDestination checks the location to promote to, and before that whether the caller
// may (AIP-211).
func (s *Server) parseDestination(ctx context.Context, given string) (Key, error) {
	if given == "" {
		return "", apierror.Required("destination", "It is the next_location of the location's config.")
	}
	if err := s.mayPromoteTo(ctx, given); err != nil {
		return "", err
	}
	return locationKind.parse("destination", given)
}

// mayPromoteTo returns PERMISSION_DENIED if the caller may not promote to a location.
func (s *Server) mayPromoteTo(ctx context.Context, location string) error {
	if s.authorizer == nil {
		return nil
	}
	return s.authorizer.Authorize(ctx, access.PoliciesPromote, location)
}

// seenPolicy is a policy to promote, in the versions that the caller has seen.
type seenPolicy struct {
	revision Key
	// targetEtag is that of the policy in the destination; empty if there was none.
	targetEtag string
}

// parsePromoted checks the policies to promote.
func parsePromoted(from Key, given []*adminpb.PromotedPolicy) ([]seenPolicy, error) {
	switch {
	case len(given) == 0:
		return nil, apierror.Required("policies", "Name at least one: its revision, and the etag of the policy whose place it takes.")
	case len(given) > maxPromoted:
		return nil, apierror.Invalid(apierror.ReasonInvalidField, "policies",
			fmt.Sprintf("There are more than %d. Promote them by several calls.", maxPromoted))
	}
	var seen []seenPolicy
	named := make(map[Key]bool)
	for i, p := range given {
		field := apierror.Field(fmt.Sprintf("policies[%d].revision", i))
		revision, err := revisionKind.parse(field, p.GetRevision())
		switch {
		case err != nil:
			return nil, err
		case Key(revision.Location()) != from:
			return nil, apierror.InvalidName(field, "It has to be of a policy of the location that is promoted from, "+string(from)+".")
		case revision.ID() == latestRevision:
			return nil, apierror.InvalidName(field, "The alias latest is for reading: what it stands for may change before the promotion. "+
				"Name the revision by its ID.")
		case named[revision.Policy()]:
			return nil, apierror.InvalidName(field, "Its policy stands there twice. Name each one once.")
		}
		named[revision.Policy()] = true
		seen = append(seen, seenPolicy{revision, p.GetTargetEtag()})
	}
	return seen, nil
}

// Promotion is what a promotion depends on, as it was read.
type Promotion struct {
	// To is the next location.
	To Key
	// Pairs are the policies that are promoted, each once.
	Pairs []Promoted
	// source and destination are the configurations of both locations.
	source, destination StoredConfig
	// conditions say that all of it is still so.
	conditions []Condition
}

// Promoted is a live policy and the policy of the next location, if there is one,
// that takes its content over.
type Promoted struct {
	// Source is live, and can be read.
	Source StoredPolicy
	// name is that of Target, which need not exist.
	name   Key
	Target StoredPolicy
}

// Promote works a promotion out. The error is FAILED_PRECONDITION if it is not what the
// destination requires.
func (s *Server) Promote(ctx context.Context, p *Promotion, validateOnly bool) (*Change, error) {
	if err := s.checkPromotion(ctx, p); err != nil {
		return nil, err
	}
	response := &adminpb.PromotePoliciesResponse{}
	c := &Change{Target: p.To, Verb: VerbPromote, Conditions: p.conditions, Response: response, ExistingSequence: NoSequence}
	for _, pair := range p.Pairs {
		if pair.same() {
			c.ExistingSequence = max(c.ExistingSequence, pair.Target.Record.Sequence)
			response.Policies = append(response.Policies, pair.Target.Policy)
			continue
		}
		policy, writes, err := s.promotedPolicy(ctx, pair)
		if err != nil {
			return nil, err
		}
		if validateOnly && !pair.Target.exists() {
			policy.Uid, policy.Etag, policy.CreateTime, policy.UpdateTime = "", "", nil, nil
		}
		c.Writes = append(c.Writes, writes...)
		c.Policies = append(c.Policies, authz.PolicyName(pair.name))
		response.Policies = append(response.Policies, policy)
	}
	if len(c.Policies) > 0 {
		c.ExistingSequence = 0
	}
	return c, nil
}

// same reports whether the revision is live in the next location already.
func (p Promoted) same() bool {
	return p.Target.exists() && Key(p.Target.Policy.Revision).ID() == Key(p.Source.Policy.Revision).ID()
}

// changing returns the pairs of which the target changes.
func (p *Promotion) changing() []Promoted {
	return slices.DeleteFunc(slices.Clone(p.Pairs), Promoted.same)
}

// promotedPolicy returns the policy as it will be in the next location, and its
// writes. It takes over the content and the ID of the revision; its identity is its
// own.
func (s *Server) promotedPolicy(ctx context.Context, p Promoted) (*adminpb.Policy, []Write, error) {
	now := timestamppb.New(s.now())
	policy := &adminpb.Policy{Name: string(p.name), Uid: NewID(), CreateTime: now}
	if p.Target.exists() {
		policy = content.Basic(p.Target.Policy)
	}
	content.Copy(policy, p.Source.Policy)
	policy.UpdateTime = now
	field := apierror.Field(fmt.Sprintf("policies[%q]", p.Source.Record.Key.ID()))
	if err := content.CheckDepth(field, policy, p.Target.Policy); err != nil {
		return nil, nil, err
	}
	if err := s.compile(ctx, field, policy); err != nil {
		return nil, nil, err
	}
	if err := NameContent(policy, Key(p.Source.Policy.Revision).ID()); err != nil {
		return nil, nil, err
	}
	how := activation{verb: VerbPromote, source: Key(p.Source.Policy.Revision)}
	if !p.Target.exists() {
		writes, err := newPolicyWrites(ctx, policy, how)
		return policy, writes, err
	}
	writes, err := s.policyWrites(ctx, policy, how)
	return policy, writes, err
}
