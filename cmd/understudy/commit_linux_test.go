package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"understudy/cmd/understudy/demo"
)

// openTerminal opens a pseudo-terminal: what is written to keyboard is typed on tty.
func openTerminal(t *testing.T) (keyboard, tty *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keyboard.Close() })
	var unlock, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, keyboard.Fd(), request, uintptr(unsafe.Pointer(value))); errno != 0 {
			t.Fatal(errno)
		}
	}
	if tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return keyboard, tty
}

// location is that of the server.
const location = "projects/p1/locations/l1"

// operator runs commands on the server r.
type operator struct {
	t *testing.T
	r *running
}

// do runs a command that has to go well.
func (o operator) do(args ...string) {
	o.t.Helper()
	var out strings.Builder
	if code := run(o.t.Context(), append(args, "--admin", o.r.bound["admin"], "--location", location), strings.NewReader(""), &out, &out); code != 0 {
		o.t.Fatalf("%v ended with %d:\n%s", args, code, out.String())
	}
}

// commit runs a commit on a terminal, does something when it asks, and answers yes.
func (o operator) commit(meanwhile func()) (code int, stderr string) {
	o.t.Helper()
	return o.answer("y", meanwhile, "commit", demo.Policy+"/tighter")
}

// answer runs a command on a terminal, does something when it asks, and answers.
func (o operator) answer(answer string, meanwhile func(), args ...string) (code int, stderr string) {
	o.t.Helper()
	keyboard, tty := openTerminal(o.t)
	read, write := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(context.WithoutCancel(o.t.Context()), append(args, "--admin", o.r.bound["admin"], "--location", location), tty, io.Discard, write)
		_ = write.Close()
	}()
	var said strings.Builder
	for in := bufio.NewReader(read); ; {
		char, _, err := in.ReadRune()
		if err != nil {
			return <-ended, said.String()
		}
		said.WriteRune(char)
		if strings.HasSuffix(said.String(), "[y/N] ") {
			meanwhile()
			if _, err := keyboard.WriteString(answer + "\n"); err != nil {
				o.t.Fatal(err)
			}
		}
	}
}

// TestAHotFixBetweenReportAndCommit: it is never undone by the commit of what was reported
// before it, and who commits is told what was changed, and what to do.
func TestAHotFixBetweenReportAndCommit(t *testing.T) {
	t.Parallel()
	o := operator{t, startServer(t, nil)}
	o.do("apply", demo.Policy, "-f", "../../deploy/examples/policy.yaml")
	o.do("apply", demo.Policy+"/tighter", "-f", "../../deploy/examples/experiment.yaml")
	o.do("start", demo.Policy+"/tighter")
	code, stderr := o.commit(func() { o.do("apply", demo.Policy, "-f", "../../deploy/examples/allow.yaml") })
	for _, want := range []string{
		"nothing was committed: the live policy has changed since the report at ",
		": allow.rego was added, shop.rego was removed, shop_test.rego was removed, data.permissions was removed, rules.",
		"would undo it", "understudy apply shop/tighter -f FILE", "understudy report shop/tighter",
	} {
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("got %d and\n%s\nwant 1 and %q", code, stderr, want)
		}
	}

	code, stderr = o.commit(func() { o.do("apply", demo.Policy+"/tighter", "-f", "../../deploy/examples/experiment.yaml") })
	if code != 0 {
		t.Errorf("an experiment that was applied again as it was: got %d and\n%s", code, stderr)
	}
}
