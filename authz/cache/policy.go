package cache

import (
	"context"
	"errors"

	"understudy/authz"
	"understudy/rego"
)

// Policy is a compiled policy with a tree of questions in front of it, which belongs to it and ends
// with it: a commit begins with an empty one, and nothing has to be invalidated. It is safe for
// concurrent use after SetSize.
type Policy struct {
	compiled *authz.Policy
	// tree is nil if nothing is cached.
	tree *tree
	// evaluations are those that are under way.
	evaluations evaluations
	// Contradicted is called with a contradiction of two evaluations, after which the policy takes no
	// shortcuts any more; nil if nobody is to know. It is set before the policy is used.
	Contradicted func(*Contradiction)
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
func (p *Policy) Caching() bool { return p != nil && p.tree != nil }

// BytesPerDecision is the room that a cache has for each of its decisions, in bytes.
const BytesPerDecision = 1 << 10

// ofTokens is the part of that room which is for answers about tokens: an eighth.
const ofTokens = 8

// mostKept is the size of the largest decision that is kept, in the bytes of the canonical form. A larger
// one may be too large to be verified.
const mostKept = 512 << 10

// SetSize gives the policy a cache with room for about a number of decisions, if its decisions can be
// cached, before it is used; later it changes the number, and what is cached stays as far
// as there is room.
func (p *Policy) SetSize(size int) (err error) {
	if p.Compiled() == nil || !p.compiled.Recordable() {
		return nil
	}
	bytes := uint64(size) * BytesPerDecision
	p.compiled.SetAnswerCache(bytes / ofTokens)
	bytes -= bytes / ofTokens
	if p.tree != nil {
		p.tree.resize(bytes)
		return nil
	}
	p.tree, err = newTree(bytes)
	return err
}

// Find returns the decision on a request if it is a hit. It looks for none once the context is done.
func (p *Policy) Find(ctx context.Context, r *authz.Request) (authz.Decision, Outcome) {
	s := p.Search(ctx, r)
	return s.Decision, s.Outcome
}

// Search is what looking for the decision on a request came to.
type Search struct {
	// Decision is the decision, if it is a hit.
	Decision authz.Decision
	Outcome  Outcome
	// missing is the first node that is not known, if it is a miss.
	missing id
}

// Search is Find with what [Policy.EvaluateShared] goes on with.
func (p *Policy) Search(ctx context.Context, r *authz.Request) Search {
	if p == nil || !p.looks(r) || ctx.Err() != nil {
		return Search{Outcome: NotCached}
	}
	asks, err := p.compiled.Ask(ctx, r, nil, false)
	if err != nil {
		return Search{Outcome: NotCached}
	}
	defer asks.End()
	asks.LookUp()
	d, missing, ok := p.tree.find(asks)
	if !ok {
		return Search{Outcome: Miss, missing: missing}
	}
	return Search{Decision: d, Outcome: Hit}
}

// looks reports whether the decision on a request may be in the cache.
func (p *Policy) looks(r *authz.Request) bool {
	return p.tree != nil && r.Parts != nil && r.Reservation == nil && r.Size <= mostAskedSize && !p.compiled.Distrusted() && !p.compiled.Exempts(r)
}

// mostAskedSize is the size of the largest request that is looked for, in bytes. The document of a larger
// one may be too large to verify by it what is cached.
const mostAskedSize = 4 << 20

// Evaluate asks the policy, whatever is cached, and caches what it decides.
func (p *Policy) Evaluate(ctx context.Context, r *authz.Request, c authz.Conditions) authz.Decision {
	if !c.Plain && p.looks(r) {
		c.Learned = p.keep
	}
	return p.compiled.Decide(ctx, r, c)
}

// keep keeps a decision with the record of its evaluation, if it is one that can be kept. It returns the
// decision as it will be found.
func (p *Policy) keep(record rego.Record, d authz.Decision) authz.Decision {
	if record.Once || !d.Failure.Lasting() || p.compiled.Distrusted() {
		return d
	}
	form, shareable := canonical(d)
	if len(form) > mostKept {
		return d
	}
	var one *authz.Decision
	var weight uint32
	if shareable && len(form) <= maxInternedSize {
		one, weight = p.tree.interned.intern(d, form)
	} else {
		one, weight = new(d.Detached()), weightOf(form)
	}
	kept, err := p.tree.keep(record.Entries, one, d.Timed(), weight)
	if contradiction, ok := errors.AsType[*Contradiction](err); ok {
		p.compiled.Distrust()
		if p.Contradicted != nil {
			p.Contradicted(contradiction)
		}
		return d
	}
	return kept
}

// Decide returns the decision on a request: the cached one, or what the policy decides.
func (p *Policy) Decide(ctx context.Context, r *authz.Request, c authz.Conditions) authz.Decision {
	if d, outcome := p.Find(ctx, r); outcome == Hit {
		return d
	}
	return p.Evaluate(ctx, r, c)
}
