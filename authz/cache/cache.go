package cache

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"

	"understudy/authz"
)

// Cache holds decisions on requests of which a policy reads one read set: requests of one
// fingerprint are decided alike, so the policy need not be asked again.
//
// What is kept is bounded in bytes as well as in number, for a policy may make its
// decisions of what the caller sends. A decision is used from the moment at which it was
// made until the first moment at which it could be another. Failures to evaluate are
// never kept, and no token stays longer than its request.
//
// It is safe for concurrent use. A nil one has no decisions.
type Cache struct {
	reads     *authz.ReadSet
	decisions *otter.Cache[authz.Fingerprint, cached]
	interned  *interner
}

// cached is a decision with its validity: from and until when it is right, in nanoseconds
// since 1970.
type cached struct {
	decision    *authz.Decision
	from, until int64
	// weight is about the size of the decision, in bytesPerDecision.
	weight uint32
}

// bytesPerDecision is the room that a cache has for each of its decisions, in the bytes of
// the canonical form. A larger one takes the room of several.
const bytesPerDecision = 1 << 10

// mostKept is the size of the largest decision that is kept, in the bytes of the canonical
// form. A larger one may be too large to be verified.
const mostKept = 512 << 10

// New returns a cache of a number of decisions, of fewer if they are large, of a policy
// that reads a set.
func New(reads *authz.ReadSet, size int) (*Cache, error) {
	decisions, err := otter.New(&otter.Options[authz.Fingerprint, cached]{
		MaximumWeight: uint64(size),
		Weigher:       func(_ authz.Fingerprint, c cached) uint32 { return c.weight },
	})
	if err != nil {
		return nil, err
	}
	return &Cache{reads: reads, decisions: decisions, interned: newInterner()}, nil
}

// Find returns the decision on a request, at the request's time, if it is a hit. Nothing is
// looked for if the request has no fingerprint, or the context is done before it is made.
func (c *Cache) Find(ctx context.Context, r *authz.Request) (authz.Decision, Outcome) {
	if c == nil {
		return authz.Decision{}, NotCached
	}
	fingerprint, ok := r.Fingerprint(ctx, c.reads)
	if !ok {
		return authz.Decision{}, NotCached
	}
	d, hit := c.FindAt(fingerprint, r.Time)
	if !hit {
		return authz.Decision{}, Miss
	}
	return d, Hit
}

// FindAt returns the decision on requests of a fingerprint at a moment.
func (c *Cache) FindAt(f authz.Fingerprint, now time.Time) (authz.Decision, bool) {
	known, ok := c.decisions.GetIfPresent(f)
	if !ok {
		return authz.Decision{}, false
	}
	if at := now.UnixNano(); at < known.from || at >= known.until {
		return authz.Decision{}, false
	}
	return *known.decision, true
}

// Keep keeps a decision on a request as long as it is valid, if it is one that can be kept.
// It returns the decision as it will be found.
func (c *Cache) Keep(ctx context.Context, r *authz.Request, d authz.Decision) authz.Decision {
	if c == nil {
		return d
	}
	fingerprint, ok := r.Fingerprint(ctx, c.reads)
	if !ok {
		return d
	}
	return c.KeepAt(fingerprint, d, r.Time)
}

// KeepAt keeps a decision on requests of a fingerprint that was made at a moment, until
// its ValidUntil. It returns the decision as it will be found.
func (c *Cache) KeepAt(f authz.Fingerprint, d authz.Decision, now time.Time) authz.Decision {
	if !d.ValidUntil().After(now) || !d.Failure.Lasting() {
		return d
	}
	until := d.ValidUntil().UnixNano()
	d = d.WithValidUntil(time.Time{})
	form, shareable := canonical(d)
	if len(form) > mostKept {
		return d
	}
	one := &d
	if shareable && len(form) <= maxInternedSize {
		one = c.interned.intern(d, form)
	}
	c.decisions.Set(f, cached{
		decision: one, from: now.UnixNano(), until: until, weight: uint32(1 + len(form)/bytesPerDecision),
	})
	return *one
}

// SetMaximum changes the number of decisions. What the cache holds stays, as far as there
// is room.
func (c *Cache) SetMaximum(size int) { c.decisions.SetMaximum(uint64(size)) }
