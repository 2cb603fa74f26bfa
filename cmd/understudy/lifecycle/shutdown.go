package lifecycle

import (
	"context"
	"sync"
	"time"
)

// The phases of an ending, as the part of its time by which each has to be over. What an
// early phase does not use is left to the later ones. A request that hangs must not take
// the time in which records are exported, so each later phase has some of its own.
const (
	requestsUntil = 0.75
	partsUntil    = 0.85
	exportsUntil  = 0.92
	closingUntil  = 0.97
)

// Shutdown is the time in which a process ends. It begins once, and all phases of the end
// are measured from there, so that they do not add up. It is safe for concurrent use.
type Shutdown struct {
	// timeout is all of the time, from begun on.
	timeout time.Duration
	abort   func()

	// once guards begun: a failure and a signal may come together.
	once  sync.Once
	begun time.Time
	// last calls abort.
	last *time.Timer
}

// NewEnding returns an ending that has so much time. abort is called when all of it is
// over and the process is still there; nil calls nothing.
func NewEnding(timeout time.Duration, abort func()) *Shutdown {
	return &Shutdown{timeout: timeout, abort: abort}
}

// Begin starts the clock, if it does not run.
func (e *Shutdown) Begin() {
	e.once.Do(func() {
		e.begun = time.Now()
		if e.abort != nil {
			// Whatever waits for something that never comes, even a log line that nobody
			// reads, ends here.
			e.last = time.AfterFunc(e.timeout, e.abort)
		}
	})
}

// Over says that the ending has come to its end, so that abort is not called any more.
func (e *Shutdown) Over() {
	e.Begin()
	if e.last != nil {
		e.last.Stop()
	}
}

// Requests is the context of requests that are under way.
func (e *Shutdown) Requests() (context.Context, context.CancelFunc) { return e.until(requestsUntil) }

// Parts is the context in which the goroutines of the process end.
func (e *Shutdown) Parts() (context.Context, context.CancelFunc) { return e.until(partsUntil) }

// exports is the context of what still has records to export.
func (e *Shutdown) exports() (context.Context, context.CancelFunc) { return e.until(exportsUntil) }

// closing is the context of all that is closed last.
func (e *Shutdown) closing() (context.Context, context.CancelFunc) { return e.until(closingUntil) }

// until returns a context that ends when a share of the time is over. It does not come
// from the context of the process, which has ended by then.
func (e *Shutdown) until(share float64) (context.Context, context.CancelFunc) {
	e.Begin()
	return context.WithDeadline(context.Background(), e.begun.Add(time.Duration(share*float64(e.timeout))))
}
