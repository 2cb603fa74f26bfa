package examine

import (
	"sync"
	"sync/atomic"

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

// maxCovered is how many distinct requests are known to be covered, or not. Beyond, all are
// forgotten, and some evaluated again.
const maxCovered = 4096

// Pair is a live policy and an experiment, from the first request that was compared. Decisions are
// cached, and what is cached is not evaluated: so requests are evaluated for coverage by themselves,
// one of all those of which both policies learned the same, as long as anything of the change was not
// seen to be both true and false. The zero value has begun with nothing. It is safe for concurrent use.
type Pair struct {
	// Changed is called when there is more to tell than before, by any goroutine. It is set before
	// the first use; nil is called never.
	Changed func()

	// over says that there is nothing more to learn.
	over  atomic.Bool
	begun atomic.Bool
	// told says that requests were pending when Coverage was asked for last.
	told atomic.Bool

	mu        sync.Mutex
	changes   *coverage.Changes
	live      sideCoverage
	candidate sideCoverage
	// covered :: what was learned of a request → that request while it waits; nil if it was evaluated, lost if it was not.
	covered map[coveredKey]*covering
	// pending and unexamined are those that wait, and that were not evaluated.
	pending, unexamined int64
	// ended says that nothing is evaluated any more, though there would be more to learn.
	ended bool
	// diffs is how often it could not be found out what the change is.
	diffs int
	// firsts :: group of differences → how many requests of it were examples.
	firsts map[Group]int
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
func (p *Pair) Coverage() Coverage {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := Coverage{Known: p.changes != nil, Pending: p.pending, Unexamined: p.unexamined}
	if out.Known {
		out.Rules = p.candidate.rules(coverage.Candidate, p.live.rules(coverage.Live, nil))
		out.Data, out.Truncated = p.changes.Data, p.changes.Truncated
	}
	switch {
	case p.complete():
		out.Pending, out.Unexamined = 0, 0
	case p.ended: // what waits will not be evaluated
		out.Pending, out.Unexamined = 0, max(1, out.Unexamined+out.Pending)
	case !out.Known && p.begun.Load(): // with the first request that both decide: until then there is nothing to examine
		out.Pending = max(1, out.Pending)
	}
	p.told.Store(out.Pending > 0)
	return out
}

// learn takes what the change is. The lock is held.
func (p *Pair) learn(changes coverage.Changes) {
	p.changes = &changes
	p.live.begin(changes.Live)
	p.candidate.begin(changes.Candidate)
	p.over.Store(p.complete())
}

// see takes what happened to the targets of a side that were pending, and reports whether
// that is anything new.
func (p *Pair) see(side *sideCoverage, pending []int, seen []coverage.Seen) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	news := side.add(pending, seen)
	p.over.Store(p.complete())
	return news
}

// complete reports whether there is nothing more to learn. The lock is held.
func (p *Pair) complete() bool {
	return p.changes != nil && len(p.live.pending) == 0 && len(p.candidate.pending) == 0
}
