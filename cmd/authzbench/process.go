package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a server that was started here. It is safe for concurrent use.
type process struct {
	name string
	cmd  *exec.Cmd
	// output is standard error. Its last lines are the reason in the error of a server
	// that ended or did not start.
	output *tail
	// exited is closed when the process has ended and was waited for.
	exited chan struct{}
}

// startProcess starts a command on some processors. Each line that it writes on
// standard error goes to line, from a goroutine of os/exec; line may be nil.
func startProcess(name string, cpus cpuList, cmd *exec.Cmd, line func(string)) (*process, error) {
	p := &process{name: name, cmd: cmd, output: &tail{line: line}, exited: make(chan struct{})}
	cmd.Stderr = p.output
	// The server ends with this process, however that ends.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		// Pdeathsig is about the thread that starts the child; it stays until then.
		runtime.LockOSThread()
		started <- onProcessors(cpus, cmd.Start)
		if cmd.Process != nil {
			_ = cmd.Wait()
		}
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stopTime is how long a server may take to end by itself.
const stopTime = 15 * time.Second

// stop asks the server to end by itself, as it would be stopped in production, so that
// its files are closed; then it is killed. It returns when the process has ended, and
// may be called twice.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopTime):
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// startTime bounds how long a server may take until it listens. It takes seconds on a busy machine.
const startTime = 3 * time.Minute

// await waits for what a starting server reports, such as its addresses, or for its
// end. Without the second, a server that refuses its flags would cost startTime and
// a useless message.
func await[T any](ctx context.Context, p *process, reported <-chan T) (T, error) {
	var none T
	select {
	case v := <-reported:
		return v, nil
	case <-p.exited:
		return none, fmt.Errorf("%s ended: %s", p.name, p.output.last())
	case <-time.After(startTime):
		return none, fmt.Errorf("%s does not say where it listens: %s", p.name, p.output.last())
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// tail is the writer of a child's output: it splits it into lines, hands each over and
// keeps the last ten. os/exec writes from one goroutine; last may be called from
// another.
type tail struct {
	line func(string)

	mu      sync.Mutex
	partial []byte
	lines   []string
}

// Write takes bytes as they come. A line may come in several writes, so the end without
// a newline is kept for the next.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partial = append(t.partial, b...)
	for {
		line, rest, found := bytes.Cut(t.partial, []byte("\n"))
		if !found {
			return len(b), nil
		}
		t.lines = append(t.lines[max(0, len(t.lines)-9):], string(line))
		if t.line != nil {
			t.line(string(line))
		}
		t.partial = append([]byte(nil), rest...)
	}
}

// last returns the last lines, for error messages.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(append(t.lines, string(t.partial)), "\n")
}

var _ io.Writer = (*tail)(nil)

// cpuTime returns the processor time that a process and its children have used since
// they started: user and system time. The clock of the process is read instead of
// /proc/PID/stat, which counts in hundredths of a second; a loop of two seconds needs
// more exactness.
//
// Children count, since a server may be a script that starts the real one, and since a
// sidecar rehearses in a child. The time of children that have ended is lost, so a
// server must not replace its children while it is measured.
func cpuTime(pid int) (time.Duration, error) {
	var total time.Duration
	for _, p := range family(pid) {
		var t unix.Timespec
		// The clock of a process: its number, inverted, and CPUCLOCK_SCHED (clock_getcpuclockid).
		if err := unix.ClockGettime(int32(^p<<3|2), &t); err != nil {
			if p != pid {
				continue // a child that has ended
			}
			return 0, fmt.Errorf("reading the processor time of process %d: %w", pid, err)
		}
		total += time.Duration(t.Nano())
	}
	return total, nil
}

// residentMemory returns the resident memory of a process and its children, in bytes.
// Pages that they share count once for each. It is what a container's limit is compared
// with, more or less; Go's own statistics leave out stacks, code and what was freed but
// not given back.
func residentMemory(pid int) (int64, error) {
	var total int64
	for _, p := range family(pid) {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p))
		if err != nil {
			if p != pid {
				continue
			}
			return 0, fmt.Errorf("reading the memory of process %d: %w", pid, err)
		}
		// The second field of statm is the resident set, in pages (proc_pid_statm(5)).
		fields := strings.Fields(string(statm))
		if len(fields) < 2 {
			return 0, fmt.Errorf("/proc/%d/statm is %q", p, statm)
		}
		pages, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/statm: %w", p, err)
		}
		total += pages * int64(os.Getpagesize())
	}
	return total, nil
}

// family returns a process and all that descend from it. Each thread has a list of its
// own of the children that it started, hence the star.
func family(pid int) []int {
	out := []int{pid}
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for _, child := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				out = append(out, family(n)...)
			}
		}
	}
	return out
}
