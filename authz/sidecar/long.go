package sidecar

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/rego"
)

const (
	// longAfter is the time from which on an evaluation is long: it gives way to those that
	// are short, which is nearly all of them.
	longAfter = 10 * time.Millisecond
	// leastStep is less than a step of an evaluation takes on average, in steps of 16: an
	// evaluation that took fewer of them than its time has room for was mostly waiting.
	leastStep = 16 * 5 * time.Microsecond
)

// places has one place for each evaluation that may be long at the same time: one for each
// processor. So no place is wanting while a processor is free, and however many expensive
// requests come, a short one finds few others that can run: these yield every
// 100 µs, as workers off the request path do. A place is a Yielder, and used by one
// evaluation at a time.
type places chan *background.Yielder

func newPlaces() places {
	all := make(places, runtime.GOMAXPROCS(0))
	for range cap(all) {
		all <- &background.Yielder{}
	}
	return all
}

// close ends what belongs to the places that are free: an evaluation that nothing can end
// keeps nobody from ending. Who still decides has places that only Go's scheduler knows of.
func (l places) close() {
	for range len(l) {
		select {
		case place := <-l:
			place.Close()
			defer func() { l <- place }()
		default:
			return
		}
	}
}

// pace is how one decision takes part in that. It belongs to the goroutine that makes the
// decision.
type pace struct {
	// ctx is that of the evaluation.
	ctx    context.Context
	places places
	// memory is nil if nobody watches it.
	memory *memoryGuard
	begin  time.Time
	// place is nil while the evaluation is not long.
	place *background.Yielder
	// waited is how long it has waited for a place.
	waited time.Duration
	// calls is how often it was called.
	calls int
	// stopper ends the evaluation that has the place. It and stopped are the guard's.
	stopper rego.Stopper
	// stopped says that the guard has ended an evaluation, for want of memory.
	stopped atomic.Bool
}

func newPace(ctx context.Context, places places) *pace {
	return &pace{ctx: ctx, places: places, begin: time.Now()}
}

// pacer bounds what long evaluations cost: it has the places, and watches the memory
// while there is one in a place. It implements authz.Pacer.
type pacer struct {
	places places
	memory *memoryGuard
}

// Pace returns how one decision takes part, and the context of its evaluation.
func (l pacer) Pace(ctx context.Context) (context.Context, authz.Pace) {
	p := newPace(ctx, l.places)
	p.memory = l.memory
	return rego.WithPace(ctx, p.next), p
}

// next is called now and then by the evaluation. It returns when that may go on, or has to
// end.
func (p *pace) next(stopper rego.Stopper) {
	p.calls++
	switch {
	case p.place != nil:
		p.place.Yield()
	case time.Since(p.begin) >= longAfter:
		p.enter(stopper)
	}
}

// enter waits for a place.
func (p *pace) enter(stopper rego.Stopper) {
	since := time.Now()
	select {
	case p.place = <-p.places:
		p.place.Begin()
		p.memory.add(p, stopper)
	case <-p.ctx.Done():
	}
	p.waited += time.Since(since)
}

// Leave gives the place back. A later evaluation of the same decision takes one again.
func (p *pace) Leave() {
	if p.place != nil {
		p.memory.remove(p)
		p.places <- p.place
		p.place = nil
	}
}

// TimedOut says whether the time went by in the evaluation, or beside it.
func (p *pace) TimedOut() (authz.Failure, string) {
	took := time.Since(p.begin)
	switch {
	case p.stopped.Load():
		return authz.FailureOverloaded, "The memory of the sidecar is nearly used up, and this evaluation lasted longest."
	case p.waited > took/2:
		return authz.FailureOverloaded, "The evaluation is a long one, and waited for other long ones until its time was over."
	case time.Duration(p.calls)*leastStep < (took-p.waited)/2:
		return authz.FailureDeadline, "The time was over before the evaluation was: it waited for a processor, or for a single built-in, for most of it."
	}
	return authz.FailureDeadline, authz.TimedOut
}
