package testkit

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// startWithUs starts a process that the kernel kills when its parent is gone. For the kernel the
// parent is the thread that starts the process. Threads of Go may end before the test binary does,
// such as the threads on which a server starts its rehearsal process, so one that never ends starts
// all processes.
func startWithUs(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	result := make(chan error, 1)
	starterThread() <- func() { result <- cmd.Start() }
	return <-result
}

// starterThread returns a channel of functions that one thread calls, one after the other.
var starterThread = sync.OnceValue(func() chan<- func() {
	calls := make(chan func())
	go func() {
		runtime.LockOSThread()
		for call := range calls {
			call()
		}
	}()
	return calls
})

// watch does nothing: the kernel watches.
func watch(int) {}

func replace(program string, arguments, environment []string) error {
	// The request to be killed is one of this thread, and a program that replaces it keeps it.
	runtime.LockOSThread()
	parent := unix.Getppid()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	if unix.Getppid() != parent {
		return unix.ESRCH // the parent ended before the kernel watched it
	}
	return unix.Exec(program, arguments, environment)
}
