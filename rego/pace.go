package rego

import (
	"context"
	"sync/atomic"
)

// stepsPerPace is how many steps of an evaluation there are between two calls of its
// pace: a step takes about a microsecond, so that a call costs little beside them.
const stepsPerPace = 64

type paceKey struct{}

// WithPace has evaluations with the context call pace now and then, in the goroutine of
// the evaluation: it may wait there, and so let others go first. One built-in is one step,
// or a few, however long it takes.
func WithPace(ctx context.Context, pace func()) context.Context {
	return context.WithValue(ctx, paceKey{}, pace)
}

// cancel ends an evaluation, which asks at each step. Apart from Cancel it is called by
// the goroutine of the evaluation alone.
type cancel struct {
	ended atomic.Bool
	steps uint
	// pace is nil if nobody paces the evaluation.
	pace func()
}

func newCancel(ctx context.Context) *cancel {
	pace, _ := ctx.Value(paceKey{}).(func())
	return &cancel{pace: pace}
}

// Cancel implements topdown.Cancel.
func (c *cancel) Cancel() { c.ended.Store(true) }

// Cancelled implements topdown.Cancel.
func (c *cancel) Cancelled() bool {
	if c.pace != nil {
		if c.steps++; c.steps%stepsPerPace == 0 {
			c.pace()
		}
	}
	return c.ended.Load()
}
