package child

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

const (
	// nice is the priority of the process: the traffic goes first. Where all processors are at
	// work, live p99 next to a process that never rests is less with 19 (1.6 × quiet instead of
	// 2.3 ×, one core, 2,000 checks a second), but then all that is asked of the process takes
	// several times as long there, and so does its end.
	nice = 10
	// oomScore makes the system choose this process, and not its parent, when there is no
	// memory left.
	oomScore = "900"
	// slack is how much more memory the system allows than the process allows itself, in
	// bytes: it is for what ends a process that does not come to look at itself.
	slack = 64 << 20

	rlimitData = 2
)

// lowerPriority is about each thread: on Linux a priority is that of a thread, and of those
// that it begins. A sandbox may forbid it.
func lowerPriority() {
	for seen := 0; ; {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil || len(threads) == seen {
			break
		}
		seen = len(threads)
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, nice)
			}
		}
	}
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(oomScore), 0)
}

// boundSystem has the system refuse memory beyond a bound, and write no core: it would have
// requests in it. A process that is instrumented takes memory of its own, many times as much: it has
// no bound.
func boundSystem(memory int64, instrumented bool) {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{})
	if instrumented {
		return
	}
	limit := uint64(dataSize() + memory + slack)
	_ = syscall.Setrlimit(rlimitData, &syscall.Rlimit{Cur: limit, Max: limit})
}

// dataSize is what the process has of what RLIMIT_DATA bounds, in bytes.
func dataSize() int64 {
	statm, err := os.ReadFile("/proc/self/statm")
	fields := bytes.Fields(statm)
	if err != nil || len(fields) < 6 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[5]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
