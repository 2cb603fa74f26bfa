package rehearsal

import (
	"sync"
	"sync/atomic"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/rego/coverage"
)

// Coverage is how much of the change between the live policy and an experiment the requests
// that were compared have exercised.
type Coverage struct {
	// Known is false until it is known what the change is: then there are no rules yet.
	Known bool
	// Rules are those that only one side has, at most 256 of each; the live policy's first.
	Rules []coverage.Rule
	// Data are the paths of data that is not the same, such as data.roles.admin. The rules of
	// the experiment that read it are among Rules.
	Data []string
	// Truncated says that there are more rules than are kept.
	Truncated bool
	// Pending is how many requests are still to be evaluated for it, of those of which both
	// policies learned the same only one. It is at least 1 until it is known what the change is.
	Pending int64
	// Unexamined is how many could not be, and are not tried again: there was no room, or the
	// evaluation failed. One of which both policies learned the same may be evaluated later.
	Unexamined int64
}

// pairCoverage is the coverage of one live policy and one experiment, from the first request
// that was compared. Decisions are cached, and what is cached is not evaluated: so requests
// are evaluated for it by themselves, one of all those of which both policies learned the same,
// as long as anything of the change was not seen to be both true and false. What cannot be
// evaluated at once waits, so that no later request is needed for it. The zero value has begun
// with nothing. It is safe for concurrent use.
type pairCoverage struct {
	// over says that there is nothing more to learn.
	over  atomic.Bool
	begun atomic.Bool
	// told says that evidence was given while requests waited.
	told atomic.Bool

	mu        sync.Mutex
	changes   *coverage.Changes
	live      sideCoverage
	candidate sideCoverage
	// covered are the requests that wait, are being evaluated, or were; forgotten says that
	// there were too many.
	covered   map[coveredKey]bool
	forgotten bool
	waiting   []*covering
	// underWay is how many requests are being evaluated. Unless one is the first of a group of
	// differences, none is before the others are done and it is next.
	underWay int
	next     time.Time
	// timed says that a timer will go on at next.
	timed bool
	// ended says that nothing is evaluated any more, though there would be more to learn.
	ended bool
	// missed are the requests that were not evaluated, and missedMore is how many there are
	// beside those.
	missed     map[coveredKey]bool
	missedMore int64
	diffs      int
	// failures is how many evaluations in a row failed.
	failures int
}

// coveredKey is what both policies have learned of a request.
type coveredKey struct{ live, candidate authz.Leaf }

// sideCoverage is that of one of the two policies.
type sideCoverage struct {
	targets []coverage.Target
	seen    []coverage.Seen
	// pending are the indexes of the targets of which not all was seen, and text is how they
	// are asked for.
	pending []int
	text    []byte
}

// begin starts with targets of which nothing was seen.
func (s *sideCoverage) begin(targets []coverage.Target) {
	s.targets, s.seen = targets, make([]coverage.Seen, len(targets))
	s.narrow()
}

// narrow leaves out the targets of which all was seen.
func (s *sideCoverage) narrow() {
	var left []coverage.Target
	s.pending = nil
	for i, t := range s.targets {
		if !t.Done(s.seen[i]) {
			left, s.pending = append(left, t), append(s.pending, i)
		}
	}
	s.text = supervisor.Targets(left)
}

// add adds what happened to the targets that were pending, and reports whether that is
// anything new.
func (s *sideCoverage) add(pending []int, seen []coverage.Seen) (news bool) {
	done := false
	for i, at := range pending[:min(len(pending), len(seen))] {
		news = news || s.seen[at]|seen[i] != s.seen[at]
		s.seen[at] |= seen[i]
		done = done || s.targets[at].Done(s.seen[at])
	}
	if done {
		s.narrow()
	}
	return news
}

func (s *sideCoverage) rules(side coverage.Side, out []coverage.Rule) []coverage.Rule {
	for i, t := range s.targets {
		out = append(out, coverage.Rule{
			Side: side, File: t.File, Line: t.Line, Name: t.Name,
			SeenTrue: s.seen[i]&coverage.True != 0, SeenFalse: s.seen[i]&coverage.False != 0,
		})
	}
	return out
}

// Coverage returns how much of the change between the experiment and its live policy was
// exercised so far. A new version of either begins anew.
func (e *Experiment) Coverage() Coverage {
	c := &e.coverage
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Coverage{
		Known: c.changes != nil, Pending: int64(len(c.waiting) + c.underWay), Unexamined: int64(len(c.missed)) + c.missedMore,
	}
	switch {
	case out.Known:
		out.Rules = c.candidate.rules(coverage.Candidate, c.live.rules(coverage.Live, nil))
		out.Data, out.Truncated = c.changes.Data, c.changes.Truncated
	case c.ended || e.Candidate.remote == nil:
		// Whatever was compared, nothing is known of the change.
		out.Unexamined = max(1, out.Unexamined)
	case c.begun.Load(): // with the first request that both decide: until then there is nothing to examine
		out.Pending = max(1, out.Pending)
	}
	return out
}

// learn takes what the change is.
func (c *pairCoverage) learn(changes coverage.Changes) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes = &changes
	c.live.begin(changes.Live)
	c.candidate.begin(changes.Candidate)
	c.over.Store(c.complete())
}

// see takes what happened to the targets of a side that were pending, and reports whether
// that is anything new.
func (c *pairCoverage) see(side *sideCoverage, pending []int, seen []coverage.Seen) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := side.add(pending, seen)
	c.over.Store(c.complete())
	return news
}

// complete reports whether there is nothing more to learn. The lock is held.
func (c *pairCoverage) complete() bool {
	return c.changes != nil && len(c.live.pending) == 0 && len(c.candidate.pending) == 0
}

// miss notes that a request is not evaluated. The lock is held.
func (c *pairCoverage) miss(key coveredKey, keyed bool) {
	if !keyed || !c.missed[key] && len(c.missed) >= maxCovered {
		c.missedMore++
		return
	}
	if c.missed == nil {
		c.missed = make(map[coveredKey]bool)
	}
	c.missed[key] = true
}
