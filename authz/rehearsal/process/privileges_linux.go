package process

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// keepMemory keeps the memory, the environment and the files of this process from processes of
// the same user, among them the one that is started: they cannot be read in /proc, and no
// debugger can attach. That needs CAP_SYS_PTRACE from now on. The system writes no core of this
// process either.
//
// What a process reads of itself in /proc/self is still there, except for what only its owner
// may read: environ, maps, mem, io, auxv and the like belong to root then.
func keepMemory() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// unprivileged calls start on a thread without privileges, from which a process that is started
// there inherits that it has none, and gets none by being root's. What this process may not drop
// itself stays: a user other than root has nothing to drop.
func unprivileged(start func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The first thread stands for the process: it stays as it is, and out of the way.
			result <- unprivileged(start)
			runtime.UnlockOSThread()
			return
		}
		// Never unlocked: the thread ends with this goroutine.
		dropPrivileges()
		result <- start()
	}()
	return <-result
}

// noRoot are the bits by which a user ID gives no capabilities, and by which they stay set.
const noRoot = 1<<0 | 1<<1 // SECBIT_NOROOT, SECBIT_NOROOT_LOCKED

// dropPrivileges has the next program of this thread begin without capabilities, anyone who's it is
// and whatever its file grants, and never get any. Where root lacks CAP_SETPCAP, it keeps those
// that root has there.
func dropPrivileges() {
	_ = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	_ = unix.Prctl(unix.PR_SET_SECUREBITS, noRoot, 0, 0, 0)
	// The kernel refuses the first number that it does not know.
	for capability := uintptr(0); unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0) == nil; capability++ {
	}
}
