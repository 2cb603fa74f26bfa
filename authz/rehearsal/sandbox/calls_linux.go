//go:build amd64 || arm64

package sandbox

import (
	"github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// allowed are the system calls that the process may make. All others fail with EPERM, also
// those that the kernel will have one day.
//
// No file can be opened: Go reads what it needs of /proc and /sys when it starts, and takes its
// own data of time zones where it finds no file.
var allowed = []string{
	// The files that are open: the stream to the parent, and standard error.
	"read", "write", "close",
	// Go waits for the stream with these. What they watch are files that are open.
	"epoll_ctl", "epoll_pwait", "epoll_pwait2",
	// Memory: of the heap, of stacks, and of C's allocator in a binary with cgo. C takes the
	// error of a forbidden brk for an address.
	"mmap", "mprotect", "munmap", "madvise", "brk",
	// Threads begin, wait for each other, sleep and end. rseq and set_robust_list are what C does
	// in each thread that it begins.
	"clone", "rseq", "set_robust_list", "futex", "nanosleep", "clock_nanosleep", "sched_yield", "exit", "exit_group",
	// A call that SIGSTOP has interrupted goes on with SIGCONT.
	"restart_syscall",
	// Signals within the process: Go preempts a goroutine with one, and a crash ends by one.
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "tgkill", "getpid", "gettid",
	// Random numbers, clocks, and how much processor time the process has used, which the watch asks.
	"getrandom", "clock_gettime", "gettimeofday", "getrusage",
	// Go names its memory, and tries again and again where that fails.
	"prctl",
}

const (
	// newNamespaces are the flags of clone that make a namespace.
	newNamespaces = unix.CLONE_NEWCGROUP | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWNS |
		unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWUTS
)

// refused are arguments with which an allowed call of the process of this number is refused: one
// condition of a list suffices.
//
//	mmap       memory that can be executed, and files
//	mprotect   memory that can be executed
//	clone      what is no thread of the process, and namespaces
//	tgkill     a signal to another process
//	prctl      anything but naming memory
func refused(pid int) []argument {
	return []argument{
		{"mmap", 2, seccomp.BitsSet, unix.PROT_EXEC},
		{"mmap", 3, seccomp.BitsNotSet, unix.MAP_ANONYMOUS},
		{"mprotect", 2, seccomp.BitsSet, unix.PROT_EXEC},
		{"clone", 0, seccomp.BitsNotSet, unix.CLONE_THREAD},
		{"clone", 0, seccomp.BitsSet, newNamespaces},
		{"tgkill", 0, seccomp.NotEqual, uint64(pid)},
		{"prctl", 0, seccomp.NotEqual, unix.PR_SET_VMA},
	}
}

// argument is a condition on an argument of a call; arguments are counted from 0.
type argument struct {
	call      string
	number    uint32
	operation seccomp.Operation
	value     uint64
}

// absent is a call that fails with ENOSYS, as in a kernel that does not have it: its flags are in
// memory, where a filter cannot see them, and C takes clone in its place then.
const absent = "clone3"
