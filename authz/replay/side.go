package replay

import (
	"context"
	"fmt"
	"slices"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
)

// Side says which of the two policies something is about.
type Side string

// The sides.
const (
	Live      Side = "live policy"
	Candidate Side = "candidate"
)

// cachedDecisions is how many decisions of a side are cached.
const cachedDecisions = 1 << 15

// side is one of the two policies. It is safe for concurrent use.
type side struct {
	name     Side
	source   *adminpb.Policy
	compiled *authz.Policy
	cached   *cache.Policy
}

// newSide compiles a policy. The error is an *authz.CompileError or that of ctx.
func newSide(ctx context.Context, name Side, p *adminpb.Policy) (*side, error) {
	compiled, err := authz.Compile(ctx, p)
	if err != nil {
		return nil, err
	}
	s := &side{name: name, source: p, compiled: compiled, cached: cache.NewPolicy(compiled)}
	if err := s.cached.SetSize(cachedDecisions); err != nil {
		return nil, fmt.Errorf("making the decision cache: %w", err)
	}
	return s, nil
}

// decide returns the decision on a request, by its own time.
func (s *side) decide(ctx context.Context, r *authz.Request, c authz.Conditions) authz.Decision {
	c.Name = string(s.name)
	return s.cached.Decide(ctx, r, c)
}

// asks reports whether a path is that of a rule of the chain.
func (s *side) asks(path string) bool {
	return slices.ContainsFunc(s.source.GetRules(), func(r *adminpb.PolicyRule) bool {
		return r.GetRego() != nil && (r.GetRego().GetPath() == path || r.GetRego().GetPath() == "" && path == usualPath)
	})
}

// usualPath is the rule of a filter that names none.
const usualPath = "envoy/authz/allow"

// positionOf returns where the policy reads a field, as file:line; empty if no line names it. Of
// several it is the one that names most of it, and of those the first.
func (s *side) positionOf(path []string) string {
	best, most := "", -1
	for _, ref := range s.compiled.References() {
		common := 0
		for common < min(len(ref.Path), len(path)) && ref.Path[common] == path[common] {
			common++
		}
		if common > most && common == min(len(ref.Path), len(path)) {
			best, most = fmt.Sprintf("%s:%d", ref.File, ref.Row), common
		}
	}
	return best
}
