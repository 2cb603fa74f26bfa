// Package lifecycle is how the process runs and ends: goroutines with one owner, what is
// closed at the end and in which time, and how the heap is collected in between.
package lifecycle

import (
	"context"
	"fmt"
	"sync"
)

// Group is goroutines with one owner: the first that fails stops all others.
type Group struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup
	once   sync.Once
	err    error
}

// NewGroup returns a group and the context of its goroutines, which ends with ctx, with
// the first failure, and with stop.
func NewGroup(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &Group{cancel: cancel}, ctx
}

// Go starts a goroutine. name begins its error.
func (g *Group) Go(name string, do func() error) {
	g.wait.Go(func() {
		if err := do(); err != nil {
			g.once.Do(func() { g.err = fmt.Errorf("%s: %w", name, err) })
			g.cancel()
		}
	})
}

// Stop asks all goroutines to end.
func (g *Group) Stop() { g.cancel() }

// Await waits until all goroutines have ended, and returns the first failure.
func (g *Group) Await() error {
	g.wait.Wait()
	return g.err
}
