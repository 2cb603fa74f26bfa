package cache

import (
	"context"

	"understudy/authz"
)

// Policy is a compiled policy with a cache in front of it, which belongs to it and ends
// with it: a commit begins with an empty one, and nothing has to be invalidated. An
// experiment that becomes the live policy is the same Policy, and brings its cache along.
// It is safe for concurrent use after SetSize.
type Policy struct {
	compiled *authz.Policy
	// cache is nil if nothing is cached.
	cache *Cache
}

// NewPolicy returns a compiled policy without a cache: see SetSize.
func NewPolicy(compiled *authz.Policy) *Policy { return &Policy{compiled: compiled} }

// Compiled returns the policy itself; nil if there is none.
func (p *Policy) Compiled() *authz.Policy {
	if p == nil {
		return nil
	}
	return p.compiled
}

// Caching reports whether decisions are cached.
func (p *Policy) Caching() bool { return p != nil && p.cache != nil }

// SetSize gives the policy a cache of a number of decisions, if its decisions can be
// cached, before it is used; later it changes the number, and what is cached stays as far
// as there is room.
func (p *Policy) SetSize(size int) error {
	switch {
	case p.Compiled() == nil || !p.compiled.Cacheable():
		return nil
	case p.cache != nil:
		p.cache.SetMaximum(size)
		return nil
	}
	var err error
	p.cache, err = New(p.compiled.Reads(), size)
	return err
}

// Adopt gives the policy, before it is used, the cache of decisions that were made by equal
// content elsewhere, if they are known by what this policy reads. Nil is none.
func (p *Policy) Adopt(c *Cache) {
	if c != nil && p.compiled.Cacheable() && c.reads.String() == p.compiled.Reads().String() {
		p.cache = c
	}
}

// Find returns the decision on a request if it is a hit.
func (p *Policy) Find(r *authz.Request) (authz.Decision, Outcome) {
	if p == nil || p.cache == nil || p.compiled.Distrusted() || p.compiled.Exempts(r) {
		return authz.Decision{}, NotCached
	}
	return p.cache.Find(r)
}

// Evaluate asks the policy, whatever is cached, and caches what it decides.
func (p *Policy) Evaluate(ctx context.Context, r *authz.Request, c authz.Conditions) authz.Decision {
	d := p.compiled.Decide(ctx, r, c)
	if p.cache == nil || c.Plain || p.compiled.Distrusted() {
		return d
	}
	return p.cache.Keep(r, d)
}

// Decide returns the decision on a request: the cached one, or what the policy decides.
func (p *Policy) Decide(ctx context.Context, r *authz.Request, c authz.Conditions) authz.Decision {
	if d, outcome := p.Find(r); outcome == Hit {
		return d
	}
	return p.Evaluate(ctx, r, c)
}
