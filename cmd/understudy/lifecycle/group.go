// Package lifecycle is how the process runs and ends: goroutines with one owner, what is
// closed at the end and in which time, and how the heap is collected in between.
//
// A Group runs the parts of a server. The first that fails ends all of them, and one that
// does not end is named. An Ending is the one time that the end has: requests, parts,
// exports and stores come one after the other, each with some time of its own, and after
// all of it the process is aborted. So what hangs, whatever it is, can neither keep the
// process nor take the time in which others save what they have.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Group is goroutines with one owner: the first that fails stops all others. Its methods
// are safe for concurrent use.
type Group struct {
	// cancel ends the context of the goroutines.
	cancel context.CancelFunc
	// wait is for Await alone.
	wait sync.WaitGroup

	mu sync.Mutex
	// err is the first failure.
	err error
	// running :: name → how many goroutines of that name have not ended.
	running map[string]int
}

// NewGroup returns a group and the context of its goroutines, which ends with ctx, with
// the first failure, and with Stop.
func NewGroup(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &Group{cancel: cancel, running: make(map[string]int)}, ctx
}

// Go starts a goroutine. name begins its error.
func (g *Group) Go(name string, do func() error) {
	g.mu.Lock()
	g.running[name]++
	g.mu.Unlock()
	g.wait.Go(func() {
		if err := do(); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
			g.ended(name, err)
			g.cancel()
			return
		}
		g.ended(name, nil)
	})
}

// ended notes that a goroutine has ended, and keeps the first error.
func (g *Group) ended(name string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		g.err = err
	}
	if g.running[name]--; g.running[name] == 0 {
		delete(g.running, name)
	}
}

// Stop asks all goroutines to end.
func (g *Group) Stop() { g.cancel() }

// Await waits until all goroutines have ended, or ctx is done. It returns the first failure
// and names those that have not ended: what they wait for may never come, so nobody else
// waits for them.
func (g *Group) Await(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		g.wait.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.running) == 0 {
		return g.err
	}
	late := fmt.Errorf("%s: %w", strings.Join(slices.Sorted(maps.Keys(g.running)), ", "), errLate)
	return errors.Join(g.err, late)
}
