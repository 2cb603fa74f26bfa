//go:build amd64 || arm64

package child_test

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// attempt is something that a confined process may not do. Its arguments are such that it does no
// harm where it is not forbidden, and ends with another error than EPERM or with none: unless the
// system forbids it by itself, as containers do.
type attempt struct {
	name string
	do   func() error
	// instead is the error that is wanted in the place of EPERM.
	instead unix.Errno
}

// want is the text of the error that is wanted.
func (a attempt) want() string {
	if a.instead != 0 {
		return a.instead.Error()
	}
	return unix.EPERM.Error()
}

// bad is an address at which nothing is, and none a file descriptor, process or user that is
// nobody's.
const bad, none = 1, ^uintptr(0)

// parent is asked for while that is allowed.
var parent = uintptr(os.Getppid())

var attempts = []attempt{
	// Files.
	{name: "read a file", do: func() error { return open("/proc/self/status", os.O_RDONLY) }},
	{name: "read the parent's memory", do: func() error { return open("/proc/"+strconv.Itoa(int(parent))+"/mem", os.O_RDONLY) }},
	{name: "write a file of its own", do: func() error { return open("/proc/self/oom_score_adj", os.O_WRONLY) }},
	{name: "create a file", do: func() error { return open("/nonexistent/file", os.O_CREATE|os.O_WRONLY) }},
	{name: "openat2", do: call(unix.SYS_OPENAT2, none, bad, bad, 0)},
	{name: "memfd_create", do: call(unix.SYS_MEMFD_CREATE, bad, 0)},
	{name: "unlinkat", do: call(unix.SYS_UNLINKAT, none, bad, 0)},
	{name: "chroot", do: call(unix.SYS_CHROOT, bad)},
	{name: "mount", do: call(unix.SYS_MOUNT, 0, bad, 0, 0, 0)},
	{name: "ioctl", do: call(unix.SYS_IOCTL, none, 0, 0)},
	{name: "fcntl", do: call(unix.SYS_FCNTL, none, unix.F_GETFD)},
	{name: "pread64", do: call(unix.SYS_PREAD64, none, bad, 1, 0)},
	{name: "dup", do: call(unix.SYS_DUP, none)},

	// Connections.
	{name: "connect to TCP", do: func() error { return dial("tcp", "127.0.0.1:1") }},
	{name: "connect to a unix socket", do: func() error { return dial("unix", "/nonexistent") }},
	{name: "socket", do: call(unix.SYS_SOCKET, none, 0, 0)},
	{name: "socketpair", do: call(unix.SYS_SOCKETPAIR, none, 0, 0, 0)},
	{name: "connect", do: call(unix.SYS_CONNECT, none, 0, 0)},
	{name: "bind", do: call(unix.SYS_BIND, none, 0, 0)},
	{name: "sendto", do: call(unix.SYS_SENDTO, none, 0, 0, 0)},
	{name: "sendmsg", do: call(unix.SYS_SENDMSG, none, 0, 0)},
	{name: "io_uring_setup", do: call(unix.SYS_IO_URING_SETUP, none, bad)},

	// Programs and processes.
	{name: "execve", do: func() error { return unix.Exec("/nonexistent", nil, nil) }},
	{name: "execveat", do: call(unix.SYS_EXECVEAT, none, bad, 0, 0, 0)},
	{name: "fork", do: call(unix.SYS_CLONE, unix.CLONE_SIGHAND)},
	{name: "a thread in a namespace", do: call(unix.SYS_CLONE, unix.CLONE_THREAD|unix.CLONE_NEWUSER)},
	{name: "clone3", do: call(unix.SYS_CLONE3, 0, 0), instead: unix.ENOSYS},
	{name: "unshare", do: call(unix.SYS_UNSHARE, 0)},
	{name: "setns", do: call(unix.SYS_SETNS, none, 0)},

	// The parent, and other processes.
	{name: "ptrace", do: call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, none>>33, 0, 0)},
	{name: "process_vm_readv", do: call(unix.SYS_PROCESS_VM_READV, parent, 0, 0, 0, 0, 1)},
	{name: "process_vm_writev", do: call(unix.SYS_PROCESS_VM_WRITEV, parent, 0, 0, 0, 0, 1)},
	{name: "kill the parent", do: call(unix.SYS_KILL, parent, 0)},
	{name: "tgkill the parent", do: call(unix.SYS_TGKILL, parent, parent, 0)},
	{name: "tkill the parent", do: call(unix.SYS_TKILL, parent, 0)},
	{name: "rt_sigqueueinfo", do: call(unix.SYS_RT_SIGQUEUEINFO, parent, 0, bad)},
	{name: "pidfd_open", do: call(unix.SYS_PIDFD_OPEN, parent, 0)},
	{name: "getppid", do: call(unix.SYS_GETPPID)},

	// Memory that can be executed, or is a file.
	{name: "mmap to execute", do: call(unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE, none, 0)},
	{name: "mmap of a file", do: call(unix.SYS_MMAP, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE, none, 0)},
	{name: "mprotect to execute", do: call(unix.SYS_MPROTECT, bad, 4096, unix.PROT_READ|unix.PROT_EXEC)},
	{name: "pkey_mprotect", do: call(unix.SYS_PKEY_MPROTECT, bad, 4096, unix.PROT_EXEC, none)},
	{name: "shmget", do: call(unix.SYS_SHMGET, none, 0, 0)},
	{name: "userfaultfd", do: call(unix.SYS_USERFAULTFD, none)},

	// Rights and bounds.
	{name: "setuid", do: call(unix.SYS_SETUID, none)},
	{name: "setresuid", do: call(unix.SYS_SETRESUID, none, none, none)},
	{name: "capset", do: call(unix.SYS_CAPSET, bad, bad)},
	{name: "prctl", do: call(unix.SYS_PRCTL, unix.PR_GET_DUMPABLE)},
	{name: "prlimit64", do: call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, 0)},
	{name: "setpriority", do: call(unix.SYS_SETPRIORITY, 99, 0, 0)},
	{name: "personality", do: call(unix.SYS_PERSONALITY, 0xffffffff)},
	{name: "seccomp", do: call(unix.SYS_SECCOMP, 99, 0, 0)},
	{name: "bpf", do: call(unix.SYS_BPF, 0, bad, 1<<20)},
	{name: "keyctl", do: call(unix.SYS_KEYCTL, 99)},
	{name: "perf_event_open", do: call(unix.SYS_PERF_EVENT_OPEN, bad, 0, 0, 0, 0)},
	{name: "timer_create", do: call(unix.SYS_TIMER_CREATE, 99, 0, 0)},
}

// makeAttempts makes all of them and says of each how it ended.
func makeAttempts() (results []string) {
	for _, a := range attempts {
		result := "it worked"
		if err := a.do(); err != nil {
			result = err.Error()
			var number unix.Errno
			if errors.As(err, &number) {
				result = number.Error()
			}
		}
		results = append(results, a.name+": "+result)
	}
	return results
}

// call is an attempt of a system call.
func call(number uintptr, arguments ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], arguments)
		if _, _, err := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); err != 0 {
			return err
		}
		return nil
	}
}

// open is an attempt to open a file.
func open(name string, flag int) error {
	f, err := os.OpenFile(name, flag, 0o600)
	if err == nil {
		_ = f.Close()
	}
	return err
}
