package rehearsal

import (
	"sync"
	"sync/atomic"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
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
}

const (
	// minCoverPause is the least time between two requests of a pair that are evaluated for its
	// coverage, and coverShare for how many times as long as one took the next has to wait.
	// What comes earlier is not lost: the next request of which both policies read the same
	// may be taken.
	minCoverPause = 2 * time.Millisecond
	coverShare    = 4
	// maxDoublings bounds how often the pause is doubled, once for each failure in a row.
	maxDoublings = 8
	// maxDiffs is how often it is tried to find out what the change is.
	maxDiffs = 3
	// maxCovered is how many distinct requests are known to be covered. Beyond, all are
	// forgotten, and some evaluated again.
	maxCovered = 4096
)

// pairCoverage is the coverage of one live policy and one experiment, from the first request
// that both decided. Decisions are cached, and what is cached is not evaluated: so requests
// are evaluated for it by themselves, one of all those of which both policies read the same,
// as long as anything of the change was not seen to be both true and false. The zero value
// has begun with nothing. It is safe for concurrent use.
type pairCoverage struct {
	// over says that there is nothing more to learn.
	over  atomic.Bool
	begun atomic.Bool

	mu        sync.Mutex
	changes   *coverage.Changes
	live      sideCoverage
	candidate sideCoverage
	covered   map[coveredKey]bool
	// underWay is how many requests are being evaluated. Unless one is the first of a group of
	// differences, none is before the others are done and it is next.
	underWay int
	next     time.Time
	diffs    int
	// failures is how many evaluations in a row failed.
	failures int
}

// pauseAfter is how long coverage waits after an evaluation that took so long.
func pauseAfter(took time.Duration) time.Duration { return max(minCoverPause, coverShare*took) }

// coveredKey is what both policies read of a request.
type coveredKey struct{ live, candidate authz.Fingerprint }

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

// add adds what happened to the targets that were pending.
func (s *sideCoverage) add(pending []int, seen []coverage.Seen) {
	done := false
	for i, at := range pending[:min(len(pending), len(seen))] {
		s.seen[at] |= seen[i]
		done = done || s.targets[at].Done(s.seen[at])
	}
	if done {
		s.narrow()
	}
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
	if c.changes == nil {
		return Coverage{}
	}
	rules := c.live.rules(coverage.Live, nil)
	return Coverage{
		Known: true, Rules: c.candidate.rules(coverage.Candidate, rules), Data: c.changes.Data, Truncated: c.changes.Truncated,
	}
}

// cover has both policies evaluate a request for the coverage of their change, if that may
// tell anything new. It never waits.
func (s *Shadow) cover(j *job, e *Experiment) { s.coverWhen(j, e, (*pairCoverage).due) }

// coverDifference does so for one of the first requests of a group of differences, however
// short ago the last one was: what turned a request away was exercised.
func (s *Shadow) coverDifference(j *job, e *Experiment) { s.coverWhen(j, e, (*pairCoverage).fresh) }

func (s *Shadow) coverWhen(j *job, e *Experiment, when func(*pairCoverage, coveredKey, bool) bool) {
	if e.coverage.over.Load() || !j.examinable(e) {
		return
	}
	defer (&comparing{s, *j, e}).surviveExamining()
	candidate, live := e.Candidate, j.live.Policy.Compiled()
	if e.coverage.begun.CompareAndSwap(false, true) {
		e.coverage.compare(j.live, e)
	}
	var key coveredKey
	var keyed, both bool
	key.live, keyed = j.request.Fingerprint(live.Reads())
	key.candidate, both = j.request.Fingerprint(candidate.reads())
	if keyed = keyed && both; !when(&e.coverage, key, keyed) || !s.hold(j.bytes) {
		return
	}
	e.coverage.take(key, keyed)
	s.coverBoth(&comparing{s, *j, e}, key, keyed)
}

// examinable reports whether both policies evaluate the request, and may be examined.
func (j *job) examinable(e *Experiment) bool {
	c := e.Candidate
	return c.remote != nil && c.known.Load() != nil && !c.unexamined.Load() && !c.exempted.Cover(j.request) && j.evaluated()
}

// evaluated reports whether the live policy evaluates the request.
func (j *job) evaluated() bool {
	live := j.live.Policy.Compiled()
	return !live.NoOp() && j.request.Operation != authz.OperationOnEnd && !live.Exempts(j.request)
}

// compare asks what the change is.
func (c *pairCoverage) compare(live *Version, e *Experiment) {
	err := e.Candidate.remote.Changes(live.Source, e.Candidate.source, func(changes coverage.Changes, err error) {
		e.Candidate.examined(err)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err != nil {
			c.diffs++
			c.begun.Store(c.diffs >= maxDiffs)
			return
		}
		c.changes = &changes
		c.live.begin(changes.Live)
		c.candidate.begin(changes.Candidate)
		c.covered = make(map[coveredKey]bool)
		c.over.Store(c.complete())
	})
	if err != nil {
		// There was no room: a later request asks again.
		c.begun.Store(false)
	}
}

// complete reports whether there is nothing more to learn. The lock is held.
func (c *pairCoverage) complete() bool {
	return len(c.live.pending) == 0 && len(c.candidate.pending) == 0
}

// fresh reports whether a request may tell anything new.
func (c *pairCoverage) fresh(key coveredKey, keyed bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes != nil && (!keyed || !c.covered[key])
}

// due reports whether a request may tell anything new, and it is time for the next.
func (c *pairCoverage) due(key coveredKey, keyed bool) bool {
	if !c.fresh(key, keyed) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.underWay == 0 && !time.Now().Before(c.next)
}

// take notes that a request is being evaluated.
func (c *pairCoverage) take(key coveredKey, keyed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay++
	if len(c.covered) >= maxCovered {
		clear(c.covered)
	}
	if keyed {
		c.covered[key] = true
	}
}

// covering is one request that is evaluated by both sides.
type covering struct {
	of      *comparing
	key     coveredKey
	keyed   bool
	begun   time.Time
	waiting atomic.Int32
	failed  atomic.Bool
	// live and candidate are what was pending when they were asked.
	live, candidate []int
}

// coverBoth asks both sides, if anything of them is pending.
func (s *Shadow) coverBoth(c *comparing, key coveredKey, keyed bool) {
	v := &covering{of: c, key: key, keyed: keyed, begun: time.Now()}
	v.waiting.Store(3) // this function is one of those who wait
	p := &c.experiment.coverage
	p.mu.Lock()
	v.live, v.candidate = p.live.pending, p.candidate.pending
	liveText, candidateText := p.live.text, p.candidate.text
	p.mu.Unlock()
	v.ask(&p.live, v.live, s.policies.of(c.job.live), liveText, c.job.live.Policy.Compiled().Reads())
	v.ask(&p.candidate, v.candidate, c.experiment.Candidate.remote, candidateText, c.experiment.Candidate.reads())
	v.leave()
}

// ask asks one side.
func (v *covering) ask(side *sideCoverage, pending []int, of *supervisor.Candidate, text []byte, reads *authz.ReadSet) {
	if len(pending) == 0 {
		v.leave()
		return
	}
	asking := func(prepare func() (wire.Question, bool), done func([]coverage.Seen, error)) error {
		return of.Cover(text, prepare, done)
	}
	examine(v.of, reads, asking, func(seen []coverage.Seen, err error) {
		v.of.experiment.Candidate.examined(err)
		if err != nil {
			v.failed.Store(true)
		} else {
			p := &v.of.experiment.coverage
			p.mu.Lock()
			side.add(pending, seen)
			p.over.Store(p.complete())
			p.mu.Unlock()
		}
		v.leave()
	})
}

// leave is called once by each who waits. The last one ends it: what failed may be tried
// again with another request of the same.
func (v *covering) leave() {
	if v.waiting.Add(-1) > 0 {
		return
	}
	c := v.of
	p := &c.experiment.coverage
	p.mu.Lock()
	p.underWay--
	pause := c.shadow.coverPause(time.Since(v.begun))
	if p.failures++; !v.failed.Load() {
		p.failures = 0
	} else if v.keyed {
		delete(p.covered, v.key)
	}
	// What fails takes all of its time, while decisions of the lane wait.
	p.next = time.Now().Add(pause << min(p.failures, maxDoublings))
	p.mu.Unlock()
	c.shadow.release(c.job.bytes)
}
