package authz

import (
	"context"
	"runtime"
	"time"

	"understudy/authz/background"
)

const (
	// longAfter is the time from which on an evaluation is long: it gives way to those that
	// are short, which is nearly all of them.
	longAfter = 10 * time.Millisecond
	// leastStep is less than a step of an evaluation takes on average, in steps of 64: an
	// evaluation that took fewer of them than its time has room for was mostly waiting.
	leastStep = 64 * 5 * time.Microsecond
)

// longs has a place for each evaluation that may be long at the same time: one for each
// processor. So no place is wanting while a processor is free, and however many expensive
// requests come, a short one finds few others that can run: these yield every
// 100 µs, as workers off the request path do. A place is a Yielder, and used by one
// evaluation at a time.
type longs chan *background.Yielder

func newLongs() longs {
	places := make(longs, runtime.GOMAXPROCS(0))
	for range cap(places) {
		places <- &background.Yielder{}
	}
	return places
}

// close ends what belongs to the places that are free: an evaluation that nothing can end
// keeps nobody from ending. Who still decides has places that only Go's scheduler knows of.
func (l longs) close() {
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
// decision. A nil one never waits.
type pace struct {
	// ctx is that of the evaluation.
	ctx    context.Context
	places longs
	begin  time.Time
	// place is nil while the evaluation is not long.
	place *background.Yielder
	// waited is how long it has waited for a place.
	waited time.Duration
	// calls is how often it was called.
	calls int
}

func newPace(ctx context.Context, places longs) *pace {
	return &pace{ctx: ctx, places: places, begin: time.Now()}
}

// next is called now and then by the evaluation. It returns when that may go on, or has to
// end.
func (p *pace) next() {
	p.calls++
	switch {
	case p.place != nil:
		p.place.Yield()
	case time.Since(p.begin) >= longAfter:
		p.enter()
	}
}

// enter waits for a place.
func (p *pace) enter() {
	since := time.Now()
	select {
	case p.place = <-p.places:
		p.place.Begin()
	case <-p.ctx.Done():
	}
	p.waited += time.Since(since)
}

// leave gives the place back. A later evaluation of the same decision takes one again.
func (p *pace) leave() {
	if p != nil && p.place != nil {
		p.places <- p.place
		p.place = nil
	}
}

// timedOut is the failure of an evaluation that ran out of time: it says whether that went
// by in it, or beside it.
func (p *pace) timedOut() Decision {
	const slow = "The evaluation ran out of time."
	if p == nil {
		return failed(FailureDeadline, slow)
	}
	took := time.Since(p.begin)
	switch {
	case p.waited > took/2:
		return failed(FailureOverloaded, "The evaluation is a long one, and waited for other long ones until its time was over.")
	case time.Duration(p.calls)*leastStep < (took-p.waited)/2:
		return failed(FailureDeadline, "The time was over before the evaluation was: it waited for a processor, or for a single built-in, for most of it.")
	}
	return failed(FailureDeadline, slow)
}
