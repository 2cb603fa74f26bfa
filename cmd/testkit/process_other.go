//go:build !linux

package testkit

import (
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// startWithUs only starts a process: on this system it cannot ask to end with its parent.
func startWithUs(cmd *exec.Cmd) error { return cmd.Start() }

// watch starts a process that kills another one when this process is gone, and ends when either
// is.
func watch(pid int) { watchFor(os.Getpid(), pid) }

func watchFor(parent, pid int) {
	const script = `while kill -0 "$1" && kill -0 "$2"; do sleep 1; done 2>/dev/null; kill -9 "$2" 2>/dev/null`
	watcher := exec.Command("sh", "-c", script, "sh", strconv.Itoa(parent), strconv.Itoa(pid))
	if watcher.Start() == nil {
		go func() { _ = watcher.Wait() }()
	}
}

func replace(program string, arguments, environment []string) error {
	watchFor(os.Getppid(), os.Getpid())
	return syscall.Exec(program, arguments, environment)
}
