package rego

import (
	"context"
	"errors"
	"sync/atomic"
)

// stepsPerPace is how many steps of an evaluation there are between two calls of its
// pace: a step takes about a microsecond, so that a call costs little beside them.
const stepsPerPace = 16

type paceKey struct{}

// Stopper ends one evaluation, which then fails with [ErrStopped] soon after. It is safe
// for concurrent use, and does nothing to an evaluation that is over.
type Stopper interface{ Cancel() }

// ErrStopped is the error of an evaluation that a Stopper ended.
var ErrStopped = errors.New("the evaluation was stopped")

// WithPace has evaluations with the context call pace now and then, in the goroutine of
// the evaluation: it may wait there, and so let others go first, and may keep what stops
// the evaluation. The pace is called from OPA's check for cancellation, the only hook
// that it has in its evaluation loop. One built-in is one step, or a few, however long
// it takes; package rego/bounds limits that.
func WithPace(ctx context.Context, pace func(Stopper)) context.Context {
	return context.WithValue(ctx, paceKey{}, pace)
}

// cancel ends an evaluation: OPA asks it at each step. Cancel may be called by any
// goroutine; everything else belongs to the goroutine of the evaluation.
type cancel struct {
	// ctx is that of the evaluation. It is asked, and not watched from the side, which
	// would be four allocations for each evaluation.
	ctx   context.Context
	ended atomic.Bool
	steps uint
	// pace is nil if nobody paces the evaluation.
	pace func(Stopper)
}

func newCancel(ctx context.Context) *cancel {
	pace, _ := ctx.Value(paceKey{}).(func(Stopper))
	return &cancel{ctx: ctx, pace: pace}
}

// Cancel implements topdown.Cancel.
func (c *cancel) Cancel() { c.ended.Store(true) }

// Cancelled implements topdown.Cancel.
func (c *cancel) Cancelled() bool {
	if c.pace != nil {
		if c.steps++; c.steps%stepsPerPace == 0 {
			c.pace(c)
		}
	}
	return c.ended.Load() || c.ctx.Err() != nil
}
