package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	runtimemetrics "runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"

	"understudy/authz/diagnostics"
	"understudy/rego"
)

const (
	// guardEvery is how often the memory is looked at while there is a long evaluation: in
	// that time one allocates some megabytes.
	guardEvery = 5 * time.Millisecond
	// cyclesUntilFreed is how many collections of garbage have to be completed until what
	// an evaluation left behind is free: one that is under way when it ends may still have
	// found it in use.
	cyclesUntilFreed = 2
)

// memoryGuard ends long evaluations while the process has more memory in use than it may
// have, the one that has lasted longest first. Memory that is not there ends the process,
// and denies everything; an evaluation may take a gigabyte by many small steps before its
// time is over, each of them within what one call of a built-in may cost.
//
// The limit is that of Go's runtime: GOMEMLIMIT, or what the start made of the container's
// limit or of the machine's memory. Without one, nothing is ended. The guard costs nothing while no evaluation is
// long. It is safe for concurrent use; a nil guard does nothing.
type memoryGuard struct {
	ended metric.Int64Counter
	log   *diagnostics.LimitedLog

	mu sync.Mutex
	// long are the evaluations that are under way.
	long []*slot
	// watching says that a goroutine looks at the memory.
	watching bool
	// after is the number of collections after which another evaluation may be ended.
	after uint64
}

// guarded is what a long evaluation and the guard know of each other.
type guarded struct {
	// watched is the stopper that the guard was given. It is the evaluation's own.
	watched rego.Stopper
	// stopper ends the long evaluation. It and stopped are the guard's.
	stopper rego.Stopper
	// stopped says that the guard has ended an evaluation, for want of memory.
	stopped atomic.Bool
}

func newMemoryGuard(log *slog.Logger, meters metric.MeterProvider) (*memoryGuard, error) {
	ended, err := meters.Meter("understudy/authz").Int64Counter("understudy.memory.ended_evaluations",
		metric.WithDescription("Live evaluations that were ended because the memory limit of the process was nearly reached. Their requests are denied: OVERLOADED."))
	if err != nil {
		return nil, fmt.Errorf("making the metrics of the memory: %w", err)
	}
	ended.Add(context.Background(), 0) // an alert on a rise needs the zero
	return &memoryGuard{ended: ended, log: diagnostics.NewLimitedLog(log, 10, time.Minute)}, nil
}

// add has the guard watch over an evaluation that has become long.
func (g *memoryGuard) add(p *slot, stopper rego.Stopper) {
	if g == nil || stopper == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p.stopper = stopper
	g.long = append(g.long, p)
	if !g.watching {
		g.watching = true
		go g.watch()
	}
}

// remove is called when an evaluation is over.
func (g *memoryGuard) remove(p *slot) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.long = slices.DeleteFunc(g.long, func(other *slot) bool { return other == p })
	p.stopper = nil
	if p.stopped.Load() {
		g.after = readMemory().cycles + cyclesUntilFreed
	}
}

// watch looks at the memory until no evaluation is long.
func (g *memoryGuard) watch() {
	ticker := time.NewTicker(guardEvery)
	defer ticker.Stop()
	for range ticker.C {
		if !g.look(readMemory()) {
			return
		}
	}
}

// look ends the evaluation that has lasted longest if there is too little memory. It
// returns false if there is none left.
func (g *memoryGuard) look(m memory) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.long) == 0 {
		g.watching = false
		return false
	}
	// Who was ended has to be gone, and its memory collected, before the next one is blamed.
	if !m.scarce() || !m.exhausted() && m.cycles < g.after {
		return true
	}
	p := g.longest(m)
	if p == nil {
		return true
	}
	p.stopped.Store(true)
	p.stopper.Cancel()
	g.ended.Add(context.Background(), 1)
	g.log.Log(context.Background(), slog.LevelWarn, "a live evaluation was ended, since the process has nearly used up its memory: "+
		"give it more, or look for the policy that needs it",
		slog.Duration("lasted", time.Since(p.begin)), slog.Uint64("in_use", m.used), slog.Uint64("limit", m.limit))
	return true
}

// longest returns the evaluation that has lasted longest; nil while one that was ended is
// still there, unless there is no time to wait for it.
func (g *memoryGuard) longest(m memory) (out *slot) {
	for _, p := range g.long {
		switch {
		case !p.stopped.Load():
			if out == nil || p.begin.Before(out.begin) {
				out = p
			}
		case !m.exhausted():
			return nil
		}
	}
	return out
}

// memory is what the runtime says of it, in bytes.
type memory struct {
	// used is what the process has of the system, as GOMEMLIMIT counts it; live is what of
	// the heap the last collection found in use.
	used, live uint64
	limit      uint64
	// cycles is how many collections have been completed.
	cycles uint64
}

// scarce reports whether collecting garbage does not help any more.
func (m memory) scarce() bool {
	return m.limit < math.MaxInt64 && (m.live > m.limit/10*9 || m.used > m.limit+m.limit/32)
}

// exhausted reports whether the process may be killed for its memory soon: the limit of Go
// is nine tenths of the container's.
func (m memory) exhausted() bool { return m.limit < math.MaxInt64 && m.used > m.limit+m.limit/16 }

func readMemory() memory {
	samples := [...]runtimemetrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/cycles/total:gc-cycles"},
	}
	runtimemetrics.Read(samples[:])
	value := func(i int) uint64 { return samples[i].Value.Uint64() }
	return memory{used: value(0) - value(1), live: value(2), limit: value(3), cycles: value(4)}
}
