package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Argument is the first argument of the process: a hidden command of the binary.
const Argument = "rehearse"

// Process is a process that was started, with the stream to it.
type Process struct {
	io.ReadWriteCloser
	cmd    *exec.Cmd
	stderr *head

	ended chan struct{}
	state string
}

// Start starts the process, which has no privileges. From then on no process of the same user can
// read the memory of this one.
func Start() (*Process, error) {
	cmd := exec.CommandContext(context.Background(), executable(), Argument)
	// A binary that is several programs chooses by its name.
	cmd.Args[0] = os.Args[0]
	cmd.Dir = string(os.PathSeparator)
	cmd.Env = environment()
	keepFiles()
	keepMemory()
	p := &Process{cmd: cmd, stderr: &head{}, ended: make(chan struct{})}
	cmd.Stderr = p.stderr
	// Nobody else has its standard error: this is for a system on which that is not so.
	cmd.WaitDelay = time.Second
	err := unprivileged(func() (err error) {
		p.ReadWriteCloser, err = start(cmd)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("starting the rehearsal process: %w", err)
	}
	go p.wait()
	return p, nil
}

// Collector is a variable of the environment by which Go collects garbage while nothing else
// runs in the process. Its other mode, concurrent with what runs, bounds memory only where the collector
// gets its part of the processor; nobody waits for this process.
const Collector = "GODEBUG=gcstoptheworld=1"

// environment has what compiling and evaluating depend on, and no more: it may have secrets. With
// GOCOVERDIR, a binary that counts coverage does not complain that it is missing; a process that
// is confined writes no counters.
func environment() []string {
	collector := Collector
	if value := os.Getenv("GODEBUG"); value != "" {
		collector += "," + value
	}
	out := []string{collector}
	for _, name := range []string{"TZ", "ZONEINFO", "GOMAXPROCS", "GOCOVERDIR", "GORACE", "SYSTEMROOT"} {
		if value, ok := os.LookupEnv(name); ok {
			out = append(out, name+"="+value)
		}
	}
	return out
}

func (p *Process) wait() {
	defer close(p.ended)
	err := p.cmd.Wait()
	var exit *exec.ExitError
	switch {
	case err == nil:
		p.state = "exit status 0"
	case errors.As(err, &exit):
		p.state = exit.String()
	default:
		p.state = err.Error()
	}
	if line := p.stderr.crash(); line != "" {
		p.state += separator + line
	}
}

// PID is the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the process, if it has not ended.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Wait waits until the process has ended and says how: its exit status, and the first line
// of a crash.
func (p *Process) Wait() string {
	<-p.ended
	return p.state
}

// separator is between the exit status and the first line of a crash.
const separator = ": "

// Crashed reports whether a state that Wait returned is that of a crash, and not that of a
// process which somebody ended with a signal.
func Crashed(state string) bool {
	return strings.Contains(strings.TrimPrefix(state, "signal"+separator), separator)
}

// maxHead is how much of the standard error is looked at, in bytes.
const maxHead = 16 << 10

// head keeps the beginning of what is written.
type head struct {
	mu   sync.Mutex
	text []byte
}

func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, b[:min(len(b), maxHead-len(h.text))]...)
	return len(b), nil
}

// crash returns the first line that says why the process ended. Those of the Go runtime
// have nothing of a request or a policy in them; another panic may, and is not shown.
func (h *head) crash() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for line := range bytes.Lines(h.text) {
		text := strings.TrimSpace(string(line))
		switch {
		case strings.HasPrefix(text, "fatal error: "), strings.HasPrefix(text, "panic: runtime error: "),
			strings.HasPrefix(text, "understudy rehearse: "):
			return text
		case strings.HasPrefix(text, "panic: "):
			return "panic"
		}
	}
	return ""
}
