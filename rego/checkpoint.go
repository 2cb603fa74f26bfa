package rego

import (
	"context"
	"errors"
	"sync/atomic"
)

// stepsPerCheckpoint is how many steps of an evaluation there are between two calls of its
// checkpoint: a step takes about a microsecond, so that a call costs little next to them.
const stepsPerCheckpoint = 16

type checkpointKey struct{}

// Stopper ends one evaluation, which then fails with [ErrStopped] soon after. It is safe
// for concurrent use, and does nothing to an evaluation that is over.
type Stopper interface{ Cancel() }

// ErrStopped is the error of an evaluation that a Stopper ended.
var ErrStopped = errors.New("the evaluation was stopped")

// WithCheckpoint has evaluations with the context call the checkpoint now and then, in the goroutine of
// the evaluation: it may wait there, and so let others go first, and may keep what stops
// the evaluation. The checkpoint is called from OPA's check for cancellation, the only hook
// that it has in its evaluation loop. One built-in is one step, or a few, however long
// it takes; package rego/bounds limits that.
func WithCheckpoint(ctx context.Context, checkpoint func(Stopper)) context.Context {
	return context.WithValue(ctx, checkpointKey{}, checkpoint)
}

// cancel ends an evaluation: OPA asks it at each step. Cancel may be called by any
// goroutine; everything else belongs to the goroutine of the evaluation.
type cancel struct {
	// ctx is that of the evaluation. It is asked, and not watched from the side, which
	// would be four allocations for each evaluation.
	ctx   context.Context
	ended atomic.Bool
	steps uint
	// checkpoint is nil if nobody asked for one.
	checkpoint func(Stopper)
}

func newCancel(ctx context.Context) *cancel {
	checkpoint, _ := ctx.Value(checkpointKey{}).(func(Stopper))
	return &cancel{ctx: ctx, checkpoint: checkpoint}
}

// Cancel implements topdown.Cancel.
func (c *cancel) Cancel() { c.ended.Store(true) }

// Cancelled implements topdown.Cancel.
func (c *cancel) Cancelled() bool {
	if c.checkpoint != nil {
		if c.steps++; c.steps%stepsPerCheckpoint == 0 {
			c.checkpoint(c)
		}
	}
	return c.ended.Load() || c.ctx.Err() != nil
}
