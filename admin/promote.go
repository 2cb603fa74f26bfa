package admin

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/access"
	"understudy/admin/apierror"
	"understudy/admin/content"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// A promotion is worked out from a snapshot: the configuration of the location, the
// policies there, and those of the next location that they replace. All of it becomes
// conditions of the one Txn that is made, so that it takes effect for all policies at one
// instant, or is worked out anew.

// PromotePolicies makes the live revisions of a location's policies live in its next
// location (RFC-042), of all policies or of those named: by reference, and either all
// of them or none. Policies that are only in the next location stay as they are, and
// so do the experiments there. The operation is one of the next location, whose
// sidecars have to apply it.
func (s *Server) PromotePolicies(
	ctx context.Context, r *adminpb.PromotePoliciesRequest,
) (*longrunningpb.Operation, error) {
	from, err := locationKind.parse("parent", r.GetParent())
	if err != nil {
		return nil, err
	}
	if err := s.mayPromote(ctx, from); err != nil {
		return nil, err
	}
	names, err := parsePromoted(from, r.GetNames())
	if err != nil {
		return nil, err
	}
	return s.Mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*Change, error) {
		p, err := s.ReadPromotion(ctx, from, names, false)
		if err != nil {
			return nil, err
		}
		return s.Promote(ctx, p, r.GetValidateOnly())
	})
}

// mayPromote returns PERMISSION_DENIED if the caller may not promote to the next location.
// ReadPromotion checks that again, of the configuration that the Txn depends on: this is
// only so that nothing is validated for a caller who may not (AIP-211).
func (s *Server) mayPromote(ctx context.Context, from Key) error {
	if s.authorizer == nil {
		return nil
	}
	config, err := s.ReadConfig(ctx, ConfigOf(from))
	if err != nil || config.Next() == "" {
		return err
	}
	return s.authorizer.Authorize(ctx, access.PoliciesPromote, string(config.Next()))
}

// parsePromoted checks the names of the policies to promote. A name that is given
// twice counts once.
func parsePromoted(from Key, given []string) ([]Key, error) {
	var names []Key
	for i, text := range given {
		field := fmt.Sprintf("names[%d]", i)
		name, err := policyKind.parse(field, text)
		if err != nil {
			return nil, err
		}
		if Key(name.Location()) != from {
			return nil, apierror.InvalidName(field, "It has to be a policy of the location that is promoted from, "+string(from)+".")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Promotion is what a promotion depends on, as it was read.
type Promotion struct {
	// To is the next location.
	To Key
	// Pairs are the policies that are promoted, each once.
	Pairs []Promoted
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

// ReadPromotion reads the configuration of a location, its policies, which are all
// that are live if no names are given, and those of the next location. With replace,
// what is soft-deleted there gives its ID up. The error is PERMISSION_DENIED if the caller
// may not promote to the next location.
func (s *Server) ReadPromotion(ctx context.Context, from Key, names []Key, replace bool) (*Promotion, error) {
	records, err := s.store.Get(ctx, append([]Key{ConfigOf(from)}, names...)...)
	if err != nil {
		return nil, s.storeFailed(ctx, "reading the policies of "+string(from), err)
	}
	config, err := s.AsConfig(ctx, ConfigOf(from), records[0])
	if err != nil {
		return nil, err
	}
	if config.Next() == "" {
		return nil, noNextLocation(config.Name)
	}
	if s.authorizer != nil {
		if err := s.authorizer.Authorize(ctx, access.PoliciesPromote, string(config.Next())); err != nil {
			return nil, err
		}
	}
	p := &Promotion{To: config.Next(), conditions: []Condition{config.Unchanged()}}
	if len(names) == 0 {
		err = s.addAll(ctx, p, from)
	} else {
		err = s.addNamed(ctx, p, names, records[1:])
	}
	if err != nil {
		return nil, err
	}
	return p, s.readTargets(ctx, p, replace)
}

// addAll adds the live policies of a location. The conditions say that it has just
// these: one that is created meanwhile is promoted too.
func (s *Server) addAll(ctx context.Context, p *Promotion, from Key) error {
	records, err := s.store.List(ctx, Query{Collection: from.In("policies")})
	if err != nil {
		return s.storeFailed(ctx, "listing the policies of "+string(from), err)
	}
	for _, r := range records {
		source := s.AsPolicy(ctx, r)
		if source.Live() && source.Damage != nil {
			return source.Damage
		}
		p.conditions = append(p.conditions, source.Unchanged())
		if source.Live() {
			p.add(source)
		}
	}
	p.conditions = append(p.conditions, FewerThan{from.In("policies"), len(records) + 1})
	return nil
}

// addNamed adds the policies with the names, all of which have to be live.
func (s *Server) addNamed(ctx context.Context, p *Promotion, names []Key, records []Record) error {
	for i, r := range records {
		source := s.AsPolicy(ctx, r)
		switch {
		case !source.exists():
			return apierror.NotFound(names[i])
		case !source.Live():
			return policyDeleted(names[i])
		case source.Damage != nil:
			return source.Damage
		}
		p.conditions = append(p.conditions, source.Unchanged())
		p.add(source)
	}
	return nil
}

// add adds a live policy, to be promoted under its own ID.
func (p *Promotion) add(source StoredPolicy) {
	p.Pairs = append(p.Pairs, Promoted{Source: source, name: p.To.In("policies").Key(source.Record.Key.ID())})
}

// readTargets reads what of the policies is in the next location. A policy that is
// soft-deleted there keeps its ID, so nothing can take its place unless replace says so.
func (s *Server) readTargets(ctx context.Context, p *Promotion, replace bool) error {
	names := make([]Key, len(p.Pairs))
	for i, pair := range p.Pairs {
		names[i] = pair.name
	}
	records, err := s.store.Get(ctx, names...)
	if err != nil {
		return s.storeFailed(ctx, "reading the policies of "+string(p.To), err)
	}
	for i, r := range records {
		target := s.AsPolicy(ctx, r)
		switch {
		case !target.exists():
			p.conditions = append(p.conditions, Absent{names[i]})
		case !target.Live() && !replace:
			return policyDeleted(names[i])
		case !target.Live():
			p.conditions = append(p.conditions, target.Unchanged())
			target = StoredPolicy{}
		case target.Damage != nil:
			return target.Damage
		default:
			p.conditions = append(p.conditions, target.Unchanged())
		}
		p.Pairs[i].Target = target
	}
	return nil
}

// Promote works a promotion out.
func (s *Server) Promote(ctx context.Context, p *Promotion, validateOnly bool) (*Change, error) {
	response := &adminpb.PromotePoliciesResponse{}
	c := &Change{Target: p.To, Verb: VerbPromote, Conditions: p.conditions, Response: response, Settled: NoSequence}
	for _, pair := range p.Pairs {
		if pair.same() {
			c.Settled = max(c.Settled, pair.Target.Record.Sequence)
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
		c.Settled = 0
	}
	return c, nil
}

// same reports whether the revision is live in the next location already.
func (p Promoted) same() bool {
	return p.Target.exists() && Key(p.Target.Policy.Revision).ID() == Key(p.Source.Policy.Revision).ID()
}

// promotedPolicy returns the policy as it will be in the next location, and its
// writes. It takes over the content and the ID of the revision; its identity is its
// own.
func (s *Server) promotedPolicy(ctx context.Context, p Promoted) (*adminpb.Policy, []Write, error) {
	now := timestamppb.New(s.now())
	policy := &adminpb.Policy{Name: string(p.name), Uid: NewID(), CreateTime: now}
	if p.Target.exists() {
		policy = proto.CloneOf(p.Target.Policy)
	}
	content.Copy(policy, p.Source.Policy)
	policy.UpdateTime = now
	field := fmt.Sprintf("policies[%q]", p.Source.Record.Key.ID())
	if err := content.CheckDepth(field, policy, p.Target.Policy); err != nil {
		return nil, nil, err
	}
	if err := s.compile(ctx, field, policy); err != nil {
		return nil, nil, err
	}
	if err := NameContent(policy, Key(p.Source.Policy.Revision).ID()); err != nil {
		return nil, nil, err
	}
	if !p.Target.exists() {
		writes, err := newPolicyWrites(ctx, policy)
		return policy, writes, err
	}
	writes, err := s.policyWrites(ctx, policy)
	return policy, writes, err
}

// noNextLocation is FAILED_PRECONDITION of a location that policies cannot be
// promoted from.
func noNextLocation(config Key) error {
	return apierror.Precondition(config, apierror.ReasonNoNextLocation,
		"It names no next_location to promote to. Update it with one first.")
}
