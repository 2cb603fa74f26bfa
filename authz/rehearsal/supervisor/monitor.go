package supervisor

import (
	"fmt"
	"sync"
	"time"

	"understudy/authz/rehearsal/process"
	"understudy/authz/rehearsal/wire"
)

const (
	// lookEvery is the time between two looks at a child that is at work, and restEvery at
	// one that is not.
	lookEvery = 20 * time.Millisecond
	restEvery = time.Second
	// pingEvery is the time between two pings of a child that is at work.
	pingEvery = 250 * time.Millisecond
	// deafTime is how much processor time a child may use without answering, deafStopped
	// how long it may not answer because somebody has stopped it, and deafLong after what
	// time it is given up in any case: one that gets hardly any processor time is only slow.
	deafTime    = 5 * time.Second
	deafStopped = 10 * time.Second
	deafLong    = 3 * time.Minute
	// outsideSlack is how much more memory a child may have than it allows itself before it
	// is killed from outside, in bytes: it watches itself more closely.
	outsideSlack = 32 << 20
	// leastLeft is the part of the container's memory that has to be left.
	leastLeft = 0.05
)

// monitor looks at a child from outside: its memory, whether it answers, its share of the
// processors, and whether anybody needs it.
type monitor struct {
	session *session
	begun   time.Time
	wake    chan struct{}
	done    chan struct{}
	// limit is that of the container's memory; zero if there is none.
	limit int64
	share *share

	mu sync.Mutex
	// ready says that the child has answered for the first time.
	ready bool
	// asked is when it was asked for an answer, zero if it has answered since; used is the
	// processor time that it had used by then.
	asked time.Time
	used  time.Duration
	last  time.Time
	idle  time.Time
}

func newMonitor(n *session) *monitor {
	w := &monitor{
		session: n, begun: time.Now(), wake: make(chan struct{}, 1), done: make(chan struct{}), idle: time.Now(),
		share: newShare(n.s.config.Share),
	}
	if limit, ok := process.MemoryLimit(); ok {
		w.limit = limit
	}
	return w
}

// begin notes that the child is at work.
func (w *monitor) begin() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// started notes that the child is ready.
func (w *monitor) started() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = true
}

// answered notes that the child has answered.
func (w *monitor) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = time.Time{}
}

func (w *monitor) close() { close(w.done) }

// run looks until the session is over.
func (w *monitor) run() {
	timer := time.NewTimer(restEvery)
	defer timer.Stop()
	for {
		select {
		case <-w.done:
			return
		case <-w.session.s.closing:
			w.session.kill(causeClosed, "")
			return
		case <-w.wake:
		case <-timer.C:
		}
		working := w.look()
		timer.Reset(restEvery)
		if working {
			timer.Reset(lookEvery)
			w.pauseUntilTimer(timer)
		}
	}
}

// pauseUntilTimer waits for the time to look again: what begins in between changes nothing.
func (w *monitor) pauseUntilTimer(timer *time.Timer) {
	select {
	case <-w.done:
	case <-w.session.s.closing:
	case <-timer.C:
		w.begin()
	}
}

// look looks at everything once. It reports whether the child is at work.
func (w *monitor) look() bool {
	n, s := w.session, w.session.s
	s.mu.Lock()
	working, needed := s.underWay() > 0, s.neededLocked()
	s.mu.Unlock()
	w.mu.Lock()
	ready := w.ready
	w.mu.Unlock()
	switch {
	case !ready:
		if time.Since(w.begun) > startTime {
			n.kill(causeStart, "it did not become ready")
		}
		return false
	case needed:
		w.idle = time.Now()
	case time.Since(w.idle) > s.config.Idle:
		n.kill(causeIdle, "")
	}
	w.lookAtMemory()
	w.lookAtShare()
	if working {
		w.lookAtAnswers()
	}
	return working || w.share.scarce()
}

// neededLocked reports whether there is an experiment or anything to do. The mutex is held.
func (s *Supervisor) neededLocked() bool {
	for _, l := range s.lanes {
		if l.keeps || len(l.underWay) > 0 || l.waits() {
			return true
		}
	}
	return false
}

func (w *monitor) lookAtMemory() {
	used, ok := w.session.child.Memory()
	if !ok {
		return
	}
	config := w.session.s.config
	if most := (config.Memory + outsideSlack) * int64(config.Overhead); used > most {
		w.session.kill(causeMemory, fmt.Sprintf("it had %d MiB, seen from outside", used>>20))
		return
	}
	if w.limit == 0 {
		return
	}
	least := int64(float64(w.limit) * leastLeft)
	if left, ok := process.MemoryLeft(w.limit); ok && left < least && used > least {
		w.session.kill(causeMemory, fmt.Sprintf("the container had %d MiB left, and it had %d", left>>20, used>>20))
	}
}

// lookAtAnswers kills a child that works and does not answer.
func (w *monitor) lookAtAnswers() {
	used, known := w.session.child.ProcessorTime()
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	silence := now.Sub(w.asked)
	switch {
	case !w.asked.IsZero() && (known && used-w.used > deafTime*w.session.s.config.overhead() || silence > deafLong ||
		silence > deafStopped && w.session.child.Stopped()):
		go w.session.kill(causeUnresponsive, fmt.Sprintf("it did not answer for %v", silence.Round(time.Millisecond)))
	case w.asked.IsZero() && now.Sub(w.last) > pingEvery:
		w.asked, w.used, w.last = now, used, now
		// A child that reads nothing keeps who writes.
		go w.session.send(wire.Frame{Kind: wire.KindPing}, false)
	}
}

// lookAtShare has nothing sent while the child has had more than its share.
func (w *monitor) lookAtShare() {
	if !w.share.due() {
		return
	}
	used, ok := w.session.child.ProcessorTime()
	if !ok {
		return
	}
	pause := w.share.spent(used)
	s := w.session.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if scarce := w.share.scarce(); w.session.paused != pause || w.session.scarce != scarce {
		w.session.paused, w.session.scarce = pause, scarce
		s.wakeAll()
	}
}
