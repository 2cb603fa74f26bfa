package child

import (
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"

	"understudy/authz/rehearsal/wire"
)

// The process counts the memory that is in use, and garbage only until it is collected. Its
// parent has all collections stop the world (process.Collector): during a collection that
// does not, an evaluation goes on, and on a machine that leaves the process hardly any time
// it outruns the collector by more than the bound.
const (
	// mostGarbage is how much the heap may grow between two collections, in per cent of what
	// is in use. What is kept is small next to what each evaluation throws away, so that Go's
	// default collects all the time: a third of the work.
	mostGarbage = 400
	// leastRoom is the part of the bound by which the heap may always grow: a collection at
	// each megabyte would take all the time there is. So much of the bound is not used.
	leastRoom = 32
)

// Bound bounds the process as far as it can do that at its start: the stack of a goroutine may
// have a quarter of the memory.
func Bound(h wire.Hello) {
	if h.Memory <= 0 {
		return
	}
	debug.SetGCPercent(mostGarbage)
	debug.SetMaxStack(int(h.Memory / 4))
	boundSystem(h.Memory, h.Instrumented)
}

// memory bounds the memory of the process. It belongs to the goroutine of the watchdog.
type memory struct {
	// bound is in bytes; nothing is bounded if it is zero.
	bound int64
	// tuned says that this process collects garbage as is said here.
	tuned   bool
	percent int
	// collecting says that a collection is under way that was asked for here.
	collecting atomic.Bool
}

// look returns how much memory the process uses, and whether that is too much. It has garbage
// collected before it says so.
func (m *memory) look() (used int64, tooMuch bool) {
	if m.bound <= 0 {
		return 0, false
	}
	u := memoryUsed()
	if !m.tuned {
		return u.all, u.all > m.bound
	}
	if u.needed > m.bound-m.bound/leastRoom {
		return u.needed, true
	}
	if percent := garbageAllowed(m.bound, u); percent != m.percent {
		m.percent = percent
		debug.SetGCPercent(percent)
	}
	if u.all > m.bound && m.collecting.CompareAndSwap(false, true) {
		go func() {
			defer m.collecting.Store(false)
			debug.FreeOSMemory()
		}()
	}
	return u.all, false
}

// usage is what the process has of the system's memory, in bytes: all, as GOMEMLIMIT counts
// it, and what was no garbage when that was last collected, of which live is the heap.
type usage struct{ all, needed, live int64 }

func memoryUsed() usage {
	samples := [...]metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples[:])
	of := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	all, live := of(0)-of(1), of(4)
	return usage{all: all, needed: all - of(2) - of(3) + live, live: live}
}

// garbageAllowed is how much the heap may grow until garbage is collected, in per cent of what
// is live: up to four fifths of the bound. Beyond that it is halfway to the bound, so that
// what needs nearly all of it is not refused.
func garbageAllowed(bound int64, u usage) int {
	room := max(bound/5*4-u.needed, (bound-u.needed)/2, bound/leastRoom)
	return int(min(mostGarbage, max(1, room*100/max(1, u.live))))
}
