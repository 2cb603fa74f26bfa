package testkit

import (
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// Start starts a process that ends with the test binary, even if that is killed or reaches the
// time limit of `go test`, when nothing else can be cleaned up. The caller waits for the process.
func Start(cmd *exec.Cmd) error {
	if err := startWithUs(cmd); err != nil {
		return err
	}
	watch(cmd.Process.Pid)
	return nil
}

// CombinedOutput is exec.Cmd.CombinedOutput for a process that ends with the test binary.
func CombinedOutput(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := Start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	return out.Bytes(), err
}

// Exec replaces this process by a program, which then ends with the process that has started this
// one. It is for a test binary that a script runs under the name of the program. It returns only
// if it fails.
func Exec(program string, arguments, environment []string) error {
	return replace(program, arguments, environment)
}

// Running reports whether a process is there and has not ended. A process whose exit code has not
// been read yet has ended.
func Running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !strings.HasPrefix(string(state), "Z")
}
