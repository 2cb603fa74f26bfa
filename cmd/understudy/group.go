package main

import (
	"context"
	"fmt"
	"sync"
)

// group is goroutines with one owner: the first that fails stops all others.
type group struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup
	once   sync.Once
	err    error
}

// newGroup returns a group and the context of its goroutines, which ends with ctx, with
// the first failure, and with stop.
func newGroup(ctx context.Context) (*group, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &group{cancel: cancel}, ctx
}

// run starts a goroutine. name begins its error.
func (g *group) run(name string, do func() error) {
	g.wait.Go(func() {
		if err := do(); err != nil {
			g.once.Do(func() { g.err = fmt.Errorf("%s: %w", name, err) })
			g.cancel()
		}
	})
}

// stop asks all goroutines to end.
func (g *group) stop() { g.cancel() }

// await waits until all goroutines have ended, and returns the first failure.
func (g *group) await() error {
	g.wait.Wait()
	return g.err
}
