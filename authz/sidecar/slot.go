package sidecar

import (
	"context"
	"sync/atomic"
	"time"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/rego"
)

// leastStep is less than a step of an evaluation takes on average, in steps of 16: an
// evaluation that took fewer of them than its time has room for was mostly in one built-in.
const leastStep = 16 * 5 * time.Microsecond

// scheduler has the decisions of one policy take turns with all others, and watches the memory
// while one of them is long. It implements authz.Scheduler.
type scheduler struct {
	turns *turns
	// memory is nil if nobody watches it.
	memory *memoryGuard
	queue  queue
}

// Slot returns the slot of one decision, and the context of its evaluation.
func (l *scheduler) Slot(ctx context.Context, r *authz.Request, timeout time.Duration) (context.Context, authz.Slot) {
	p := &slot{Context: ctx, policy: l, timeout: timeout, size: r.Size, begin: time.Now()}
	p.until = answerBy(ctx, p.begin)
	return rego.WithCheckpoint(p, p.next), p
}

// replyTime is how long before the caller's deadline there is an answer at the latest: one
// that it gets, and that says why, is worth more than none.
const replyTime = 20 * time.Millisecond

// answerBy returns the moment by which a call that began now has to be answered; zero if it
// has no deadline.
func answerBy(ctx context.Context, now time.Time) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return deadline.Add(-min(replyTime, deadline.Sub(now)/10))
}

// slot has one decision wait for its turns. It is the context of the decision too, which ends
// when that has taken its time. It belongs to the goroutine that makes the decision, but
// for what is said to be others'.
//
// What the decision has taken is the time of its turns, as far as the process had a
// processor then: a machine that is busy with others makes it later, and does not end it.
type slot struct {
	// Context is that of the call.
	context.Context
	// policy is that whose decision it is, in its turns.
	policy *scheduler
	// timeout is how much time the decision may take; zero if that is not bounded.
	timeout time.Duration
	// size is about the memory of the request, in bytes.
	size  int
	begin time.Time
	// until is when it ends whatever it has taken, since the caller waits no longer; zero if
	// that is not known.
	until time.Time

	turn
	// long says that it gives way to those that are not.
	long bool
	spent
	// waited is how long it has waited for turns.
	waited time.Duration
	// calls is how often it was called.
	calls int
	// ended says that its time is over.
	ended atomic.Bool
	// shed is why it ended without a turn; empty if it did not.
	shed string
	guarded
}

// turn is that of a decision.
type turn struct {
	// granted gets a value when the turn of a decision that waits has come. It is nil before
	// the first wait.
	granted chan struct{}
	// has says that it is its turn.
	has bool
	// yielder is nil while the evaluation has not yielded in this turn.
	yielder *background.Yielder
	// seen is when it was last seen between two steps, in nanoseconds since begin, and lost
	// says that the turn was given to another one. Lost is set by the turns.
	seen atomic.Int64
	lost atomic.Bool
}

// spent is the time that a decision has taken.
type spent struct {
	// used is what it has taken up to since, and inTurn the part of that in this turn.
	used, inTurn time.Duration
	since        time.Time
	// processors is what the process had used of the processors at since.
	processors time.Duration
}

// Err implements context.Context.
func (p *slot) Err() error {
	if p.ended.Load() {
		return context.DeadlineExceeded
	}
	return p.Context.Err()
}

// The reasons of decisions that never got their turn, or not again.
const (
	reasonWaited  = "The evaluation waited for others until its time was over."
	reasonNoRoom  = "Too many requests wait to be evaluated."
	reasonMemory  = "The memory of the sidecar is nearly used up, and this evaluation lasted longest."
	reasonBuiltin = "The time was over before the evaluation was: it was in a single built-in for most of it."
)

// endWithout ends the decision without a turn.
func (p *slot) endWithout(why string) {
	p.shed = why
	p.ended.Store(true)
}

// Enter implements authz.Slot.
func (p *slot) Enter() error {
	if !p.has && p.Err() == nil {
		p.take()
	}
	return p.Err()
}

// take waits for a turn, until the caller has left or it has waited for too long.
func (p *slot) take() {
	now, room := p.policy.turns.take(p)
	switch {
	case now:
		p.has = true
	case !room:
		p.endWithout(reasonNoRoom)
		return
	default:
		p.wait()
	}
	p.since, p.processors, p.inTurn = time.Now(), p.policy.turns.processorTime(), 0
	if p.has && p.long {
		p.yielder = p.policy.turns.borrow()
		p.yielder.Begin()
	}
}

// wait waits until the turn comes.
func (p *slot) wait() {
	since := time.Now()
	longest := longestWait - p.waited
	if !p.until.IsZero() {
		longest = min(longest, p.until.Sub(since))
	}
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-p.granted:
		p.has = true
	case <-p.Done():
	case <-timer.C:
		p.endWithout(reasonWaited)
	}
	if !p.has && !p.policy.turns.withdraw(p) {
		<-p.granted
		p.has = true
	}
	p.waited += time.Since(since)
}

// give gives the turn back.
func (p *slot) give() {
	if !p.has {
		return
	}
	p.account(time.Now())
	if p.yielder != nil {
		p.policy.turns.giveBack(p.yielder)
		p.yielder = nil
	}
	p.has = false
	p.policy.turns.give(p, p.inTurn)
}

// account adds what was taken since the last time: no more than the process had of the
// processors. Of less than a millisecond that is not asked for: it is a call of the system.
func (p *slot) account(now time.Time) {
	took := now.Sub(p.since)
	processors := p.processors + took
	if took >= time.Millisecond {
		processors = p.policy.turns.processorTime()
		took = min(took, processors-p.processors)
	}
	p.used, p.inTurn = p.used+took, p.inTurn+took
	p.since, p.processors = now, processors
}

// took reports whether the decision has taken so much. It looks at the processors only when
// that may be.
func (p *slot) took(limit time.Duration, now time.Time) bool {
	if p.used+now.Sub(p.since) < limit {
		return false
	}
	p.account(now)
	return p.used >= limit
}

// next is called now and then by the evaluation. It returns when that may go on, or has to
// end.
func (p *slot) next(stopper rego.Stopper) {
	p.calls++
	if p.Err() != nil {
		return
	}
	now := time.Now()
	p.seen.Store(int64(now.Sub(p.begin)))
	if !p.long && p.took(longAfter, now) {
		p.long = true
		p.yielder = p.policy.turns.borrow()
	}
	if p.over(now) {
		return
	}
	switch {
	case p.lost.Load(), p.long && p.policy.turns.precedes(p, p.inTurn+now.Sub(p.since)):
		p.give()
		p.take()
	case p.long:
		p.yield()
	}
	if p.long && p.watched != stopper {
		p.watched = stopper
		p.policy.memory.add(p, stopper)
	}
}

// over ends the decision if its time is over, and reports whether it is.
func (p *slot) over(now time.Time) bool {
	switch {
	case !p.until.IsZero() && now.After(p.until):
		p.endAtLast(now)
	case p.timeout > 0 && p.took(p.timeout, now):
		p.ended.Store(true)
	default:
		return false
	}
	return true
}

// endAtLast ends a decision whose caller waits no longer, because of what it did for most of
// the time.
func (p *slot) endAtLast(now time.Time) {
	p.account(now)
	if now.Sub(p.begin) > 2*p.used {
		p.endWithout(reasonWaited)
	}
	p.ended.Store(true)
}

// yield lets requests go first that need no turn. That is not time of the decision.
func (p *slot) yield() {
	before := time.Now()
	p.yielder.Yield()
	p.since = p.since.Add(time.Since(before))
}

// Leave implements authz.Slot.
func (p *slot) Leave() {
	p.give()
	if p.watched != nil {
		p.policy.memory.remove(p)
		p.watched = nil
	}
}

// Outside implements authz.Slot.
func (p *slot) Outside() (context.Context, context.CancelFunc) {
	p.Leave()
	if p.timeout <= 0 {
		return p, func() {}
	}
	since := time.Now()
	ctx, cancel := context.WithTimeout(p, p.timeout-p.used)
	return ctx, func() {
		cancel()
		if p.used += time.Since(since); p.used >= p.timeout {
			p.ended.Store(true)
		}
	}
}

// TimedOut says whether the time went by in the evaluation, or while it waited.
func (p *slot) TimedOut() (authz.Failure, string) {
	switch {
	case p.stopped.Load():
		return authz.FailureOverloaded, reasonMemory
	case p.shed != "":
		return authz.FailureOverloaded, p.shed
	case time.Duration(p.calls)*leastStep < p.used/2:
		return authz.FailureDeadline, reasonBuiltin
	}
	return authz.FailureDeadline, authz.TimedOut
}
