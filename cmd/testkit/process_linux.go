package testkit

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithUs has the kernel kill the process when its parent is gone.
func endWithUs(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

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
