package background

import "syscall"

// lowPriority is the priority of threads in the background: enough less than others' that a
// request goes first, and no less. A garbage collection and who waits for a lock have to
// wait for such a thread, and on a machine that others keep busy it has to come to that
// in milliseconds: with 19 that took half a second, with 5 as long as usual.
const lowPriority = 5

// lowerPriority is about the thread of the caller; a sandbox may forbid it.
func lowerPriority() { _ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), lowPriority) }
