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

// covering finds out how much of the change between the policies the entries exercise. Of the
// requests of one leaf, of which a policy learns the same, one is evaluated once more, as long as
// there is something left to see. It is safe for concurrent use.
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
	// leaves are those of the requests that were evaluated.
	leaves map[authz.Leaf]struct{}
}

// maxCovered is how many leaves are known; after more of them some are evaluated again.
const maxCovered = 1 << 16

func newCovering(live, candidate *side, changes coverage.Changes) *covering {
	c := &covering{changes: changes}
	for i, s := range []*side{live, candidate} {
		targets := [][]coverage.Target{changes.Live, changes.Candidate}[i]
		c.sides[i] = &covered{side: s, targets: targets, seen: make([]coverage.Seen, len(targets)), leaves: make(map[authz.Leaf]struct{})}
		c.sides[i].over.Store(len(targets) == 0)
	}
	return c
}

// cover has both sides evaluate a request that they have decided, if that may tell anything new.
func (c *covering) cover(ctx context.Context, j *judgement) {
	for i, leaf := range []authz.Leaf{j.live.Leaf(), j.candidate.Leaf()} {
		if s := c.sides[i]; !s.over.Load() {
			s.cover(ctx, j.request, leaf)
		}
	}
}

func (s *covered) cover(ctx context.Context, r *authz.Request, leaf authz.Leaf) {
	if s.side.compiled.Exempts(r) || !s.take(leaf) {
		return
	}
	pending, at := s.pending()
	tracer := coverage.NewTracer(pending)
	if s.side.compiled.Cover(ctx, nil, r, tracer) != nil {
		return
	}
	s.add(at, tracer.Seen())
}

// take reports whether no request of a leaf has been evaluated, and notes that one is. Without a leaf none
// is known to be alike.
func (s *covered) take(leaf authz.Leaf) bool {
	if leaf == (authz.Leaf{}) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.leaves[leaf]; known {
		return false
	}
	if len(s.leaves) >= maxCovered {
		clear(s.leaves)
	}
	s.leaves[leaf] = struct{}{}
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
