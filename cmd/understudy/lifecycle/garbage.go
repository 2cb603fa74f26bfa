package lifecycle

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// A sidecar keeps little and makes garbage at every request: collecting a quarter as
// often as Go does by default costs it some tens of megabytes and saves about a tenth
// of its processor time. One with large policies keeps much, and makes no more
// garbage for that.
const (
	// mostPercent is how much the heap may grow between collections, in per cent of
	// what is in use, and leastPercent how much it always may.
	mostPercent, leastPercent = 400, 100
	// garbageRoom is how much garbage there may be beyond leastPercent, in bytes.
	garbageRoom = 256 << 20
)

// TuneGC collects garbage as above, and more often when 90 % of the process's memory are
// used: a sidecar that is killed for its memory denies everything. The memory of the
// rehearsal process, in bytes, is not this one's. GOGC and GOMEMLIMIT win.
func TuneGC(log *slog.Logger, rehearsal int64) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(mostPercent)
		afterCollection(mostPercent)
	}
	limit, err := memlimit.Set(memlimit.WithProvider(ownMemory(memlimit.FromCgroup, memlimit.FromSystem, uint64(rehearsal))))
	if err != nil {
		log.Debug("neither the container's memory limit nor the machine's memory is known", "error", err)
		return
	}
	log.Debug("memory is limited", "bytes", limit)
}

// ownMemory returns what the process may have of the memory, in bytes: of the container's
// limit or, where there is none, of three quarters of the machine's memory, since others are
// on the machine too, what the rehearsal process leaves.
func ownMemory(container, machine memlimit.Provider, rehearsal uint64) memlimit.Provider {
	all := memlimit.ApplyFallback(container, memlimit.ApplyRatio(machine, 0.75))
	return func() (uint64, error) {
		limit, err := all()
		return limit - min(rehearsal, limit/2), err
	}
}

const (
	// mostRehearsal is the memory of the rehearsal process on a machine that has enough, in
	// bytes, and rehearsalPart is its part of a container's.
	mostRehearsal = 256 << 20
	rehearsalPart = 3
)

// RehearsalMemory is how much memory the rehearsal process may use, in bytes: what is
// configured or, if that is 0, what fits the container.
func RehearsalMemory(configured int64) int64 {
	if configured > 0 {
		return configured
	}
	if limit, err := memlimit.FromCgroup(); err == nil {
		return int64(min(mostRehearsal, limit/rehearsalPart))
	}
	return mostRehearsal
}

// afterCollection sets the growth of the heap after the next collection, and after
// each that follows. percent is the present one.
func afterCollection(percent int) {
	// It is garbage at once, so it is found by the next collection.
	sentinel := new([64]byte)
	runtime.AddCleanup(sentinel, func(percent int) {
		next := growth(liveHeap())
		if next != percent {
			debug.SetGCPercent(next)
		}
		afterCollection(next)
	}, percent)
}

// growth returns how much a heap may grow, in steps of 25 per cent: to set another
// growth stops the process for a moment.
func growth(live uint64) int {
	percent := garbageRoom * 100 / max(live, 1)
	return int(min(max(percent/25*25, leastPercent), mostPercent))
}

// liveHeap returns what was in use at the last collection, in bytes.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
