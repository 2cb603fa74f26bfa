package rehearsal

import (
	"slices"
	"time"
)

// The requests of a pair that wait to be evaluated for its coverage: which do, and when they
// are next.

const (
	// minCoverPause is the least time between two requests of a pair that are evaluated for its
	// coverage while the rehearsal process has decisions to make, and coverShare for how many
	// times as long as one took the next has to wait then.
	minCoverPause = 2 * time.Millisecond
	coverShare    = 4
	// maxCoverPause bounds that: what took long may have waited for a process that stood still.
	maxCoverPause = time.Second
	// maxDoublings bounds how often the pause is doubled, once for each failure in a row.
	maxDoublings = 8
	// maxTries is how often a request is evaluated that fails to be.
	maxTries = 8
	// maxCovered is how many distinct requests are known to be covered. Beyond, all are
	// forgotten, and some evaluated again.
	maxCovered = 4096
	// maxUncovered is how many requests of a pair may wait to be evaluated.
	maxUncovered = 1024
)

// pauseAfter is how long coverage waits after an evaluation that took so long. While the
// rehearsal process has nothing else to do, it need not wait.
func pauseAfter(took time.Duration, idle bool) time.Duration {
	if idle {
		return 0
	}
	return min(max(minCoverPause, coverShare*took), maxCoverPause)
}

// leaveAll ends a pair that another one follows, and returns what waits in it.
func (c *pairCoverage) leaveAll() []*covering {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.waiting
	c.waiting, c.ended = nil, true
	return all
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
