package rehearsal

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/coverage"
)

const (
	// minCoverPause is the least time between two requests of a pair that are evaluated for its
	// coverage while the rehearsal process has decisions to make, and coverShare for how many
	// times as long as one took the next has to wait then.
	minCoverPause = 2 * time.Millisecond
	coverShare    = 4
	// maxDoublings bounds how often the pause is doubled, once for each failure in a row.
	maxDoublings = 8
	// maxTries is how often a request is evaluated that fails to be.
	maxTries = 8
	// maxDiffs is how often it is tried to find out what the change is, and diffPause is the
	// time between two attempts.
	maxDiffs  = 3
	diffPause = 100 * time.Millisecond
	// maxCovered is how many distinct requests are known to be covered. Beyond, all are
	// forgotten, and some evaluated again.
	maxCovered = 4096
	// maxUncovered is how many requests of a pair may wait to be evaluated. All of them hold at
	// most this part of the memory for requests.
	maxUncovered  = 1024
	uncoveredPart = 8
)

// pauseAfter is how long coverage waits after an evaluation that took so long. While the
// rehearsal process has nothing else to do, it need not wait.
func pauseAfter(took time.Duration, idle bool) time.Duration {
	if idle {
		return 0
	}
	return max(minCoverPause, coverShare*took)
}

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
// if that may tell anything new. It never waits.
func (s *Shadow) cover(j *job, e *Experiment) { s.coverRequest(j, e, false) }

// coverDifference does so for one of the first requests of a group of differences, however
// short ago the last one was: what turned a request away was exercised.
func (s *Shadow) coverDifference(j *job, e *Experiment) { s.coverRequest(j, e, true) }

func (s *Shadow) coverRequest(j *job, e *Experiment, urgent bool) {
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
	if key, keyed := j.coveredKey(e); p.wants(key, keyed) {
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

// coveredKey returns what both policies read of the request. keyed is false if they read the
// whole, or it is not known yet what they read.
func (j *job) coveredKey(e *Experiment) (key coveredKey, keyed bool) {
	live, reads := j.live.Policy.Compiled(), e.Candidate.reads()
	if reads == nil {
		return key, false
	}
	if key.candidate, keyed = j.request.Fingerprint(reads); keyed && !live.NoOp() {
		key.live, keyed = j.request.Fingerprint(live.Reads())
	}
	return key, keyed
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

// leaveAll ends a pair that another one follows, and returns what waits in it.
func (c *pairCoverage) leaveAll() []*covering {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waiting
	c.waiting, c.ended = nil, true
	return all
}

// compareForCoverage asks what the change is.
func (s *Shadow) compareForCoverage(live *Version, e *Experiment) {
	p := &e.coverage
	err := e.Candidate.remote.Changes(live.Source, e.Candidate.source, func(changes coverage.Changes, err error) {
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

// wants reports whether a request may tell anything new, and is to wait. One that cannot be
// evaluated any more is noted.
func (c *pairCoverage) wants(key coveredKey, keyed bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if keyed && c.covered[key] {
		return false
	}
	if c.ended {
		c.miss(key, keyed)
		return false
	}
	return true
}

// put has a request wait, if there is room.
func (c *pairCoverage) put(v *covering, urgent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || len(c.waiting) >= maxUncovered || !v.of.shadow.holdUncovered(v.of.job.bytes) {
		c.miss(v.key, v.keyed)
		return
	}
	if len(c.covered) >= maxCovered {
		clear(c.covered)
		c.forgotten = true
	}
	if v.keyed {
		if c.covered == nil {
			c.covered = make(map[coveredKey]bool)
		}
		c.covered[v.key] = true
		delete(c.missed, v.key)
	}
	if v.urgent = urgent; urgent {
		c.waiting = slices.Insert(c.waiting, 0, v)
	} else {
		c.waiting = append(c.waiting, v)
	}
}

// hasten makes a request that waits the next one. It reports whether there is one.
func (c *pairCoverage) hasten(key coveredKey, keyed bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.waiting, func(v *covering) bool { return keyed && v.keyed && v.key == key })
	if i < 0 {
		return false
	}
	v := c.waiting[i]
	v.urgent = true
	c.waiting = slices.Insert(slices.Delete(c.waiting, i, i+1), 0, v)
	return true
}

// goOn has requests evaluated that wait, as far as it is time.
func (c *pairCoverage) goOn() {
	for v := c.take(); v != nil; v = c.take() {
		v.evaluate()
	}
}

// take takes the next request that is to be evaluated now. If it is to be later, a timer goes
// on then.
func (c *pairCoverage) take() *covering {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == nil || len(c.waiting) == 0 {
		return nil
	}
	v := c.waiting[0]
	if wait := time.Until(c.next); !v.urgent && (c.underWay > 0 || wait > 0) {
		if c.underWay == 0 && !c.timed {
			c.timed = true
			time.AfterFunc(wait, c.timeout)
		}
		return nil
	}
	if !v.of.shadow.enter() {
		return nil
	}
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	c.underWay++
	return v
}

func (c *pairCoverage) timeout() {
	c.mu.Lock()
	c.timed = false
	c.mu.Unlock()
	c.goOn()
}

// end ends the coverage: what waits is not evaluated.
func (c *pairCoverage) end(s *Shadow) {
	c.mu.Lock()
	all := c.waiting
	c.waiting, c.ended = nil, true
	for _, v := range all {
		delete(c.covered, v.key)
		c.miss(v.key, v.keyed)
	}
	c.mu.Unlock()
	s.releaseAll(all)
}

// finish forgets what waits and what was missed: there is nothing more to learn.
func (c *pairCoverage) finish(s *Shadow) {
	c.mu.Lock()
	all := c.waiting
	c.waiting, c.missed, c.missedMore = nil, nil, 0
	c.mu.Unlock()
	s.releaseAll(all)
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
		v.ask(&p.live, v.live, s.policies.of(c.job.live), liveText, c.job.live.Policy.Compiled().Reads())
	}
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

// left notes how a request was evaluated, and when the next one may be. What failed waits
// again, but for the last time.
func (c *pairCoverage) left(v *covering, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
	pause := v.of.shadow.coverPause(time.Since(v.begun), idle && !c.forgotten)
	if !v.failed.Load() {
		c.failures, c.next = 0, time.Now().Add(pause)
		v.of.shadow.releaseUncovered(v.of.job.bytes)
		return
	}
	// What fails takes all of its time, while decisions of the lane wait.
	c.failures++
	c.next = time.Now().Add(max(minCoverPause, pause) << min(c.failures, maxDoublings))
	if !c.ended && v.tries < maxTries {
		v.urgent = false
		c.waiting = append(c.waiting, v)
		return
	}
	delete(c.covered, v.key)
	c.miss(v.key, v.keyed)
	v.of.shadow.releaseUncovered(v.of.job.bytes)
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

// holdUncovered takes the room for a request of so many bytes that waits to be covered, if
// there is any.
func (s *Shadow) holdUncovered(bytes int) bool {
	n, most := int64(bytes), int64(s.config.Limits.QueueBytes)
	uncovered, all := s.uncovered.Add(n), s.bytes.Add(n)
	if uncovered <= most/uncoveredPart && all <= most {
		return true
	}
	s.releaseUncovered(bytes)
	return false
}

func (s *Shadow) releaseUncovered(bytes int) {
	s.uncovered.Add(-int64(bytes))
	s.bytes.Add(-int64(bytes))
}

func (s *Shadow) releaseAll(of []*covering) {
	for _, v := range of {
		s.releaseUncovered(v.of.job.bytes)
	}
}
