package testkit

import (
	"bufio"
	"bytes"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
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

// StartUntil starts a process as Start does, and returns the rest of the first line on its standard
// output that begins with prefix. It fails the test, with what the process has printed, if the
// process ends before that, or needs more than Patience. The process ends with the test at the
// latest.
func StartUntil(t testing.TB, cmd *exec.Cmd, prefix string) (rest string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = Start(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Kill(cmd) })
	late := time.AfterFunc(Patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	var printed strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), prefix); found {
			return rest
		}
		printed.WriteString(lines.Text() + "\n")
	}
	t.Fatalf("%s ended, or ran for %s, without a line that begins with %q:\n%s", cmd.Path, Patience, prefix, &printed)
	return ""
}

// Kill kills a process, and returns when it has ended. It can be called more than once.
func Kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
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
