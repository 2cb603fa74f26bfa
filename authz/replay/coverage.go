package replay

import (
	"context"
	"sync"
	"sync/atomic"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/coverage"
)

// covering finds out how much of the change between the policies the entries exercise. Each
// request that differs from the others in what a policy reads is evaluated once more, as long
// as there is something left to see. It is safe for concurrent use.
type covering struct {
	changes coverage.Changes
	sides   [2]*covered
}

// covered is what was seen of one side.
type covered struct {
	side *side
	over atomic.Bool

	mu      sync.Mutex
	targets []coverage.Target
	seen    []coverage.Seen
	// requests are those that were evaluated.
	requests map[authz.Fingerprint]struct{}
}

// maxCovered is how many requests are known; after more of them some are evaluated again.
const maxCovered = 1 << 16

func newCovering(live, candidate *side, changes coverage.Changes) *covering {
	c := &covering{changes: changes}
	for i, s := range []*side{live, candidate} {
		targets := [][]coverage.Target{changes.Live, changes.Candidate}[i]
		c.sides[i] = &covered{side: s, targets: targets, seen: make([]coverage.Seen, len(targets)), requests: make(map[authz.Fingerprint]struct{})}
		c.sides[i].over.Store(len(targets) == 0)
	}
	return c
}

// cover has both sides evaluate a request if that may tell anything new.
func (c *covering) cover(ctx context.Context, r *authz.Request) {
	for _, s := range c.sides {
		if !s.over.Load() {
			s.cover(ctx, r)
		}
	}
}

func (s *covered) cover(ctx context.Context, r *authz.Request) {
	if s.side.compiled.Exempts(r) {
		return
	}
	key, keyed := r.Fingerprint(ctx, s.side.compiled.Reads())
	if keyed && !s.take(key) {
		return
	}
	pending, at := s.pending()
	tracer := coverage.NewTracer(pending)
	if s.side.compiled.Cover(ctx, nil, r, tracer) != nil {
		return
	}
	s.add(at, tracer.Seen())
}

// take reports whether a request has not been evaluated, and notes that it is.
func (s *covered) take(key authz.Fingerprint) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.requests[key]; known {
		return false
	}
	if len(s.requests) >= maxCovered {
		clear(s.requests)
	}
	s.requests[key] = struct{}{}
	return true
}

// pending returns the targets of which not all was seen, with their indexes.
func (s *covered) pending() (out []coverage.Target, at []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range s.targets {
		if !t.Done(s.seen[i]) {
			out, at = append(out, t), append(at, i)
		}
	}
	return out, at
}

func (s *covered) add(at []int, seen []coverage.Seen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	over := true
	for i, target := range at[:min(len(at), len(seen))] {
		s.seen[target] |= seen[i]
	}
	for i, t := range s.targets {
		over = over && t.Done(s.seen[i])
	}
	s.over.Store(over)
}

// rules returns what was seen, in the form of evidence.
func (c *covering) rules() (out []*evidencepb.Rule) {
	for i, s := range c.sides {
		side := []adminpb.Report_ChangedRule_Side{adminpb.Report_ChangedRule_POLICY, adminpb.Report_ChangedRule_EXPERIMENT}[i]
		for n, t := range s.targets {
			out = append(out, &evidencepb.Rule{
				Side: int32(side), File: t.File, Line: int32(t.Line), Name: t.Name, //nolint:gosec // a line
				EvaluatedTrue: s.seen[n]&coverage.True != 0, EvaluatedFalse: s.seen[n]&coverage.False != 0,
			})
		}
	}
	return out
}
