package rehearsal

import (
	"errors"
	"sync/atomic"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/coverage"
)

const (
	// maxDiffs is how often it is tried to find out what the change is, and diffPause is the
	// time between two attempts.
	maxDiffs  = 3
	diffPause = 100 * time.Millisecond
)

// covering is one request that is evaluated by both sides.
type covering struct {
	of    *comparing
	key   coveredKey
	keyed bool
	// urgent says that it does not wait for its turn.
	urgent bool
	tries  int

	// What follows is that of one try.
	begun   time.Time
	waiting atomic.Int32
	failed  atomic.Bool
	// gone says that a side will never answer any more.
	gone atomic.Bool
	// live and candidate are what was pending when they were asked.
	live, candidate []int
}

// cover has both policies evaluate a request for the coverage of their change, now or later,
// if that may tell anything new. The leaf is that of the experiment's decision. It never waits.
func (s *Shadow) cover(j *job, e *Experiment, leaf authz.Leaf) { s.coverRequest(j, e, leaf, false) }

// coverDifference does so for one of the first requests of a group of differences, however
// short ago the last one was: what turned a request away was exercised.
func (s *Shadow) coverDifference(j *job, e *Experiment, leaf authz.Leaf) {
	s.coverRequest(j, e, leaf, true)
}

func (s *Shadow) coverRequest(j *job, e *Experiment, leaf authz.Leaf, urgent bool) {
	p := &e.coverage
	if p.over.Load() || e.Candidate.remote == nil {
		return
	}
	defer (&comparing{s, *j, e}).surviveExamining()
	if !p.begun.Load() && p.begun.CompareAndSwap(false, true) {
		s.beginCoverage(j.live, e)
	}
	if !j.examinable(e) {
		return
	}
	if e.Candidate.unexamined.Load() {
		p.end(s)
	}
	if key, keyed := j.coveredKey(e, leaf); p.wants(key, keyed) {
		p.put(&covering{of: &comparing{s, *j, e}, key: key, keyed: keyed}, urgent)
	} else if !urgent || !p.hasten(key, keyed) {
		return
	}
	p.goOn()
}

// examinable reports whether both policies evaluate the request; a live one without rules
// need not.
func (j *job) examinable(e *Experiment) bool {
	return j.request.Operation != authz.OperationOnEnd && !e.Candidate.exempted.Cover(j.request) && !j.live.Policy.Compiled().Exempts(j.request)
}

// evaluated reports whether the live policy evaluates the request.
func (j *job) evaluated() bool {
	live := j.live.Policy.Compiled()
	return !live.NoOp() && j.request.Operation != authz.OperationOnEnd && !live.Exempts(j.request)
}

// coveredKey returns the leaves of the request. keyed is false if one is not known: then the decision of that
// side is not cached. A side without rules learns nothing, and has none.
func (j *job) coveredKey(e *Experiment, candidate authz.Leaf) (key coveredKey, keyed bool) {
	key = coveredKey{live: j.decision.Leaf(), candidate: candidate}
	none := authz.Leaf{}
	return key, (key.live != none || j.live.Policy.Compiled().NoOp()) && (key.candidate != none || len(e.Candidate.source.GetRules()) == 0)
}

// beginCoverage begins the coverage of a pair, and ends that of the pair which the candidate
// was in before. What waits there, of the same live policy, waits here then.
func (s *Shadow) beginCoverage(live *Version, e *Experiment) {
	if before := e.Candidate.pair.Swap(&e.coverage); before != nil {
		for _, v := range before.leaveAll() {
			if s.releaseUncovered(v.of.job.bytes); v.of.job.live.Policy == live.Policy {
				e.coverage.put(&covering{of: &comparing{s, v.of.job, e}, key: v.key, keyed: v.keyed}, v.urgent)
			}
		}
	}
	s.compareForCoverage(live, e)
}

// compareForCoverage asks what the change is.
func (s *Shadow) compareForCoverage(live *Version, e *Experiment) {
	p := &e.coverage
	if !s.enter() {
		return
	}
	err := e.Candidate.remote.Changes(live.Source, e.Candidate.source, func(changes coverage.Changes, err error) {
		defer s.underWay.Done() // what waits has begun by then
		e.Candidate.examined(err)
		if err != nil {
			p.mu.Lock()
			p.diffs++
			p.mu.Unlock()
			s.compareAgain(live, e, err)
			return
		}
		p.learn(changes)
		p.goOn()
		e.changed()
	})
	if err != nil { // there is no room
		s.compareAgain(live, e, err)
		s.underWay.Done()
	}
}

// compareAgain asks again after a while, unless that is of no use.
func (s *Shadow) compareAgain(live *Version, e *Experiment, why error) {
	p := &e.coverage
	p.mu.Lock()
	hopeless := p.ended || p.diffs >= maxDiffs
	p.mu.Unlock()
	if hopeless || isGone(why) || e.Candidate.unexamined.Load() {
		p.end(s)
		e.changed()
		return
	}
	time.AfterFunc(diffPause, func() { s.compareForCoverage(live, e) })
}

// isGone reports whether who was asked will never answer any more.
func isGone(err error) bool {
	guilt := (*supervisor.Guilt)(nil)
	return errors.Is(err, supervisor.ErrChanged) || errors.Is(err, supervisor.ErrShutdown) || errors.As(err, &guilt)
}

// evaluate asks both sides, if anything of them is pending.
func (v *covering) evaluate() {
	c := v.of
	s, p := c.shadow, &c.experiment.coverage
	v.tries++
	v.begun = time.Now()
	v.failed.Store(false)
	v.waiting.Store(3) // this function is one of those who wait
	p.mu.Lock()
	v.live, v.candidate = p.live.pending, p.candidate.pending
	liveText, candidateText := p.live.text, p.candidate.text
	p.mu.Unlock()
	if len(v.live) == 0 {
		v.leave()
	} else {
		v.ask(&p.live, v.live, s.policies.of(c.job.live), liveText, c.job.live.Policy.Compiled().MayReadBody())
	}
	v.ask(&p.candidate, v.candidate, c.experiment.Candidate.remote, candidateText, c.experiment.Candidate.readsBody())
	v.leave()
}

// ask asks one side.
func (v *covering) ask(side *sideCoverage, pending []int, of *supervisor.Candidate, text []byte, body bool) {
	if len(pending) == 0 {
		v.leave()
		return
	}
	asking := func(prepare func() (wire.Question, bool), done func([]coverage.Seen, error)) error {
		return of.Cover(text, prepare, done)
	}
	examine(v.of, body, asking, func(seen []coverage.Seen, err error) {
		v.of.experiment.Candidate.examined(err)
		if err != nil {
			v.failed.Store(true)
			// Another live policy may have its place for a while.
			if isGone(err) && (side == &v.of.experiment.coverage.candidate || !errors.Is(err, supervisor.ErrChanged)) {
				v.gone.Store(true)
			}
		} else if v.of.experiment.coverage.see(side, pending, seen) {
			v.of.experiment.changed()
		}
		v.leave()
	})
}

// leave is called once by each who waits. The last one ends it: what failed is tried again
// later, and what waits goes on.
func (v *covering) leave() {
	if v.waiting.Add(-1) > 0 {
		return
	}
	s, e := v.of.shadow, v.of.experiment
	p := &e.coverage
	if v.gone.Load() {
		p.end(s)
	}
	p.left(v, s.config.Process.Idle())
	if p.over.Load() {
		p.finish(s)
	}
	p.goOn()
	e.settled()
	s.underWay.Done()
}

// changed says that there is more to tell of the experiment than evidence had.
func (e *Experiment) changed() {
	if e.Evidence != nil {
		e.Evidence.MarkChanged()
	}
}

// settled says so if evidence had requests that wait, and none does any more.
func (e *Experiment) settled() {
	c := &e.coverage
	c.mu.Lock()
	left := len(c.waiting) + c.underWay
	c.mu.Unlock()
	if left == 0 && c.told.CompareAndSwap(true, false) {
		e.changed()
	}
}
