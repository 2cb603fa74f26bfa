package admin

import (
	"context"
	"fmt"
	"slices"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

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
	names, err := parsePromoted(from, r.GetNames())
	if err != nil {
		return nil, err
	}
	return s.mutate(ctx, r.GetValidateOnly(), func(ctx context.Context) (*change, error) {
		p, err := s.readPromotion(ctx, from, names, false)
		if err != nil {
			return nil, err
		}
		return s.promote(ctx, p, r.GetValidateOnly())
	})
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
		if Key(name.location()) != from {
			return nil, invalidName(field, "It has to be a policy of the location that is promoted from, "+string(from)+".")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// promotion is what a promotion depends on, as it was read.
type promotion struct {
	// to is the next location.
	to    Key
	pairs []promoted
	// conditions say that all of it is still so.
	conditions []Condition
}

// promoted is a live policy and the policy of the next location, if there is one,
// that takes its content over.
type promoted struct {
	source storedPolicy
	// name is that of target, which need not exist.
	name   Key
	target storedPolicy
}

// readPromotion reads the configuration of a location, its policies, which are all
// that are live if no names are given, and those of the next location. With replace,
// what is soft-deleted there gives its ID up.
func (s *Server) readPromotion(ctx context.Context, from Key, names []Key, replace bool) (*promotion, error) {
	records, err := s.store.Get(ctx, append([]Key{configOf(from)}, names...)...)
	if err != nil {
		return nil, s.storeFailed(ctx, "reading the policies of "+string(from), err)
	}
	config, err := s.asConfig(ctx, configOf(from), records[0])
	if err != nil {
		return nil, err
	}
	if config.next() == "" {
		return nil, noNextLocation(config.name)
	}
	p := &promotion{to: config.next(), conditions: []Condition{config.unchanged()}}
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
func (s *Server) addAll(ctx context.Context, p *promotion, from Key) error {
	records, err := s.store.List(ctx, Query{Collection: from.in("policies")})
	if err != nil {
		return s.storeFailed(ctx, "listing the policies of "+string(from), err)
	}
	for _, r := range records {
		source := s.asPolicy(ctx, r)
		if source.live() && source.damage != nil {
			return source.damage
		}
		p.conditions = append(p.conditions, source.unchanged())
		if source.live() {
			p.add(source)
		}
	}
	p.conditions = append(p.conditions, FewerThan{from.in("policies"), len(records) + 1})
	return nil
}

// addNamed adds the policies with the names, all of which have to be live.
func (s *Server) addNamed(ctx context.Context, p *promotion, names []Key, records []Record) error {
	for i, r := range records {
		source := s.asPolicy(ctx, r)
		switch {
		case !source.exists():
			return notFound(names[i])
		case !source.live():
			return policyDeleted(names[i])
		case source.damage != nil:
			return source.damage
		}
		p.conditions = append(p.conditions, source.unchanged())
		p.add(source)
	}
	return nil
}

func (p *promotion) add(source storedPolicy) {
	p.pairs = append(p.pairs, promoted{source: source, name: p.to.in("policies").key(source.record.Key.id())})
}

// readTargets reads what of the policies is in the next location. A policy that is
// soft-deleted there keeps its ID, so nothing can take its place unless replace says so.
func (s *Server) readTargets(ctx context.Context, p *promotion, replace bool) error {
	names := make([]Key, len(p.pairs))
	for i, pair := range p.pairs {
		names[i] = pair.name
	}
	records, err := s.store.Get(ctx, names...)
	if err != nil {
		return s.storeFailed(ctx, "reading the policies of "+string(p.to), err)
	}
	for i, r := range records {
		target := s.asPolicy(ctx, r)
		switch {
		case !target.exists():
			p.conditions = append(p.conditions, Absent{names[i]})
		case !target.live() && !replace:
			return policyDeleted(names[i])
		case !target.live():
			p.conditions = append(p.conditions, target.unchanged())
			target = storedPolicy{}
		case target.damage != nil:
			return target.damage
		default:
			p.conditions = append(p.conditions, target.unchanged())
		}
		p.pairs[i].target = target
	}
	return nil
}

// promote works a promotion out.
func (s *Server) promote(ctx context.Context, p *promotion, validateOnly bool) (*change, error) {
	response := &adminpb.PromotePoliciesResponse{}
	c := &change{target: p.to, verb: verbPromote, conditions: p.conditions, response: response, settled: noSequence}
	for _, pair := range p.pairs {
		if pair.same() {
			c.settled = max(c.settled, pair.target.record.Sequence)
			response.Policies = append(response.Policies, pair.target.policy)
			continue
		}
		policy, writes, err := s.promotedPolicy(ctx, pair)
		if err != nil {
			return nil, err
		}
		if validateOnly && !pair.target.exists() {
			policy.Uid, policy.Etag, policy.CreateTime, policy.UpdateTime = "", "", nil, nil
		}
		c.writes = append(c.writes, writes...)
		c.policies = append(c.policies, authz.PolicyName(pair.name))
		response.Policies = append(response.Policies, policy)
	}
	if len(c.policies) > 0 {
		c.settled = 0
	}
	return c, nil
}

// same reports whether the revision is live in the next location already.
func (p promoted) same() bool {
	return p.target.exists() && Key(p.target.policy.Revision).id() == Key(p.source.policy.Revision).id()
}

// promotedPolicy returns the policy as it will be in the next location, and its
// writes. It takes over the content and the ID of the revision; its identity is its
// own.
func (s *Server) promotedPolicy(ctx context.Context, p promoted) (*adminpb.Policy, []Write, error) {
	now := timestamppb.New(s.now())
	policy := &adminpb.Policy{Name: string(p.name), Uid: newID(), CreateTime: now}
	if p.target.exists() {
		policy = proto.CloneOf(p.target.policy)
	}
	copyContent(policy, p.source.policy)
	policy.UpdateTime = now
	field := fmt.Sprintf("policies[%q]", p.source.record.Key.id())
	if err := checkDepth(field, policy, p.target.policy); err != nil {
		return nil, nil, err
	}
	if err := s.compile(ctx, field, policy); err != nil {
		return nil, nil, err
	}
	if err := nameContent(policy, Key(p.source.policy.Revision).id()); err != nil {
		return nil, nil, err
	}
	if !p.target.exists() {
		writes, err := newPolicyWrites(policy)
		return policy, writes, err
	}
	writes, err := s.policyWrites(ctx, policy)
	return policy, writes, err
}
