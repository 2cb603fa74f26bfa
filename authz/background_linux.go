package authz

import "syscall"

// lowest is the priority of threads in the background. They get some hundredths of a
// processor that is busy, so that locks which they hold are let go.
const lowest = 19

// lowerPriority is about the thread of the caller; a sandbox may forbid it.
func lowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), lowest) }
