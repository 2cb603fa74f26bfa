package sidecar

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"understudy/authz/background"
)

const (
	// longAfter is the time from which on an evaluation is long: it gives way to those that
	// are short, which is nearly all of them.
	longAfter = 10 * time.Millisecond
	// longestWait is how long a decision waits for turns in all. Who asks has mostly left
	// before: Envoy waits for a quarter of that.
	longestWait = time.Second
	// mostWaiting bounds the requests that wait for a turn, in bytes.
	mostWaiting = 64 << 20
)

// turns say which evaluations go on: as many as there are processors, and each of them up to
// its end, unless it becomes long. So a burst of evaluations is made one after the other,
// and none of them ends because of the others; with all of them begun at once, all would be
// late. In between, requests whose decision is cached find the processors free.
//
// Short evaluations go before long ones. Of the policies whose evaluations wait, the one
// that has had the least time is next (start-time fair queueing), so that one which is
// asked a great deal, or evaluates for long, keeps no other one waiting; and of a policy the
// decision that began first.
//
// An evaluation is asked to give its turn back between two of its steps. One in a step that
// takes long, or whose thread the system does not run, loses its turn to the next all the
// same: so nothing that nobody can end keeps others from going on.
//
// It is safe for concurrent use.
type turns struct {
	most int
	// processorTime is what the process has used of the processors.
	processorTime func() time.Duration
	// yielder makes what a long evaluation yields by.
	yielder func() *background.Yielder

	mu sync.Mutex
	// having are those whose turn it is.
	having []*slot
	// queues are those in which somebody waits.
	queues []*queue
	// virtual is the time that a policy is taken to have had which comes only now.
	virtual time.Duration
	// waiting is how many wait.
	waiting atomic.Int32
	// bytes is the memory of the requests that wait.
	bytes int
	// watching says that a goroutine looks at those whose turn it is.
	watching bool
	// yielders are those that nobody uses now.
	yielders []*background.Yielder
}

// queue has the decisions of one policy that wait for their turn. Its fields are guarded by
// the mutex of the turns.
type queue struct {
	// short and long are those that wait, the one that began first in front.
	short, long []*slot
	// used is the time that the policy has had, from when it first had to wait.
	used time.Duration
}

func newTurns(most int) *turns {
	return &turns{
		most: most, processorTime: background.ProcessorTime, yielder: func() *background.Yielder { return &background.Yielder{} },
	}
}

// take asks for a turn. It reports whether there is one now. Otherwise p.granted gets a
// value when it comes, unless p withdraws; or there is no room to wait.
func (t *turns) take(p *slot) (now, room bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.policy.queue.idle() {
		p.policy.queue.used = max(p.policy.queue.used, t.virtual)
	}
	if len(t.having) < t.most {
		t.grant(p)
		return true, true
	}
	if t.bytes+p.size > mostWaiting && t.bytes > 0 {
		return false, false
	}
	t.enqueue(p)
	if !t.watching {
		t.watching = true
		go t.watch()
	}
	return false, true
}

// idle reports whether nobody waits in the queue.
func (q *queue) idle() bool { return len(q.short)+len(q.long) == 0 }

// of returns the part of the queue in which a decision waits.
func (q *queue) of(p *slot) *[]*slot {
	if p.long {
		return &q.long
	}
	return &q.short
}

// place is where in a part of a queue those begin that began when a decision did.
func place(part []*slot, p *slot) int {
	at, _ := slices.BinarySearchFunc(part, p, func(a, b *slot) int { return a.begin.Compare(b.begin) })
	return at
}

// enqueue has a decision wait. The mutex is held.
func (t *turns) enqueue(p *slot) {
	if p.policy.queue.idle() {
		t.queues = append(t.queues, &p.policy.queue)
	}
	if p.granted == nil {
		p.granted = make(chan struct{}, 1)
	}
	part := p.policy.queue.of(p)
	*part = slices.Insert(*part, place(*part, p), p)
	t.count(p, 1)
}

// dequeue takes a decision out again. It reports false if it does not wait. The mutex is
// held.
func (t *turns) dequeue(p *slot) bool {
	part := p.policy.queue.of(p)
	from := place(*part, p)
	at := slices.Index((*part)[from:], p)
	if at < 0 {
		return false
	}
	*part = slices.Delete(*part, from+at, from+at+1)
	if p.policy.queue.idle() {
		t.queues = slices.DeleteFunc(t.queues, func(q *queue) bool { return q == &p.policy.queue })
	}
	t.count(p, -1)
	return true
}

// count counts who waits. The mutex is held.
func (t *turns) count(p *slot, n int) {
	t.bytes += n * p.size
	t.waiting.Add(int32(n))
}

// withdraw ends the wait of a decision. It reports false if its turn has come meanwhile.
func (t *turns) withdraw(p *slot) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dequeue(p)
}

// grant begins a turn. It is taken to last for as long as one does at most, until it is
// known. The mutex is held.
func (t *turns) grant(p *slot) {
	t.having = append(t.having, p)
	t.virtual = max(t.virtual, p.policy.queue.used)
	p.policy.queue.used += longAfter
	p.seen.Store(int64(time.Since(p.begin)))
	p.lost.Store(false)
}

// give ends a turn that took some time, which may have been lost already.
func (t *turns) give(p *slot, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.policy.queue.used += took - longAfter
	if !p.lost.Load() {
		t.end(p)
	}
}

// end takes a turn from who has it, and has the next one begin. The mutex is held.
func (t *turns) end(p *slot) {
	t.having = slices.DeleteFunc(t.having, func(other *slot) bool { return other == p })
	for len(t.having) < t.most && len(t.queues) > 0 {
		next := t.next()
		t.dequeue(next)
		t.grant(next)
		next.granted <- struct{}{}
	}
}

// next returns who is next of those that wait. The mutex is held.
func (t *turns) next() *slot {
	var least *queue
	for _, q := range t.queues {
		if least == nil || (len(q.short) > 0) != (len(least.short) > 0) && len(q.short) > 0 ||
			(len(q.short) > 0) == (len(least.short) > 0) && q.used < least.used {
			least = q
		}
	}
	if len(least.short) > 0 {
		return least.short[0]
	}
	return least.long[0]
}

// precedes reports whether somebody who waits goes before a long evaluation whose turn has
// taken some time: any short one, a long one of a policy that has had less time, and an
// older one of its own.
func (t *turns) precedes(p *slot, took time.Duration) bool {
	if t.waiting.Load() == 0 {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.queues, func(q *queue) bool {
		switch {
		case len(q.short) > 0:
			return true
		case q == &p.policy.queue:
			return q.long[0].begin.Before(p.begin)
		}
		return q.used+2*longAfter < p.policy.queue.used+took
	})
}

// watch takes turns from those that do not give them back, as long as somebody waits.
func (t *turns) watch() {
	ticker := time.NewTicker(longAfter)
	defer ticker.Stop()
	for range ticker.C {
		if !t.look() {
			return
		}
	}
}

// look looks once. It reports false if nobody waits any more.
func (t *turns) look() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queues) == 0 {
		t.watching = false
		return false
	}
	for _, p := range slices.Clone(t.having) {
		if time.Since(p.begin)-time.Duration(p.seen.Load()) > longAfter && len(t.queues) > 0 {
			p.lost.Store(true)
			t.end(p)
		}
	}
	return true
}

// borrow returns what a long evaluation yields by, for its turn.
func (t *turns) borrow() *background.Yielder {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.yielders); n > 0 {
		y := t.yielders[n-1]
		t.yielders = t.yielders[:n-1]
		return y
	}
	return t.yielder()
}

// giveBack takes it back.
func (t *turns) giveBack(y *background.Yielder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.yielders = append(t.yielders, y)
}

// close ends what belongs to the turns that nobody has: an evaluation that nothing can end
// keeps nobody from ending.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, y := range t.yielders {
		y.Close()
	}
	t.yielders = nil
}
