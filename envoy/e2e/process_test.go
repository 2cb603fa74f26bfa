//go:build realenvoy

package e2e_test

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"understudy/cmd/testkit"
)

// process is a program that a test runs. What it writes is kept line by line.
type process struct {
	name    string
	command *exec.Cmd
	log     *lines // standard error
	out     *lines // standard output
	ended   chan struct{}
}

// start runs a program until the test or the test binary ends, if it does not end before. Variables are
// added to the environment.
func start(t *testing.T, name string, variables []string, program string, arguments ...string) *process {
	t.Helper()
	p := &process{
		name: name, command: exec.Command(program, arguments...), log: newLines(), out: newLines(),
		ended: make(chan struct{}),
	}
	p.command.Env = append(os.Environ(), variables...)
	logs, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.Start(p.command); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	go p.read(logs, out)
	t.Cleanup(func() {
		p.kill(t)
		if t.Failed() {
			t.Logf("%s wrote\n%s", name, p.log.tail())
		}
	})
	return p
}

// read reads until the process has closed both, which it does at its end.
func (p *process) read(logs, out io.Reader) {
	var reading sync.WaitGroup
	reading.Go(func() { p.log.read(logs) })
	reading.Go(func() { p.out.read(out) })
	reading.Wait()
	_ = p.command.Wait()
	close(p.ended)
}

// signal sends a signal; one to a process that has ended is lost.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	select {
	case <-p.ended:
	default:
		if err := p.command.Process.Signal(s); err != nil && !strings.Contains(err.Error(), "already finished") {
			t.Fatalf("signalling %s: %v", p.name, err)
		}
	}
}

// kill ends a process as a crash does, and waits for its end.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	p.join(t)
}

// terminate asks a process to end, and waits for it.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	p.join(t)
}

func (p *process) join(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(testkit.Patience):
		t.Errorf("%s does not end", p.name)
	}
}

// lines are the lines that a process has written so far.
type lines struct {
	mu   sync.Mutex
	all  []string
	more chan struct{} // closed and made anew with each line
}

func newLines() *lines { return &lines{more: make(chan struct{})} }

func (l *lines) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<22)
	for scanner.Scan() {
		l.mu.Lock()
		l.all = append(l.all, scanner.Text())
		close(l.more)
		l.more = make(chan struct{})
		l.mu.Unlock()
	}
}

// count returns how many lines there are.
func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// await returns the first line from a place on that has the text.
func (l *lines) await(t *testing.T, from int, text string) string {
	t.Helper()
	line, ok := l.find(from, text, nil)
	if !ok {
		t.Fatalf("no line has %q; the last are\n%s", text, l.tail())
	}
	return line
}

// find waits for the first line from a place on that has the text. It gives up when the
// writer has ended, or after testkit.Patience.
func (l *lines) find(from int, text string, ended <-chan struct{}) (line string, ok bool) {
	late := time.After(testkit.Patience)
	for {
		l.mu.Lock()
		for ; from < len(l.all); from++ {
			if strings.Contains(l.all[from], text) {
				defer l.mu.Unlock()
				return l.all[from], true
			}
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-ended:
			return "", false
		case <-late:
			return "", false
		}
	}
}

// with returns the lines that have a text.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// tail is the last of the lines, without what Envoy lists of its parts.
func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := slices.DeleteFunc(slices.Clone(l.all), func(line string) bool { return strings.HasPrefix(line, "info   ") })
	return strings.Join(said[max(0, len(said)-30):], "\n")
}

// fixedAddress returns an address of this machine that nobody listens on. Its port is
// below those that the system gives to clients, so that it stays free while a server
// that had it is restarted.
func fixedAddress(t *testing.T) string {
	t.Helper()
	for range 1000 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(15_000+rand.IntN(15_000)))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// split returns host and port of an address.
func split(t *testing.T, address string) (host string, port int) {
	t.Helper()
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	if port, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
	return host, port
}
