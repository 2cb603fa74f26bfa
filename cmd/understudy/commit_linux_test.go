package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"understudy/cmd/testkit"
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

// commit runs a commit on a terminal, does something when it asks why, and answers.
func (o operator) commit(meanwhile func()) (code int, stderr string) {
	o.t.Helper()
	return o.answer("as planned", meanwhile, "commit", demo.Policy+"/tighter")
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
			return testkit.Receive(o.t, "the command to end", ended), said.String()
		}
		said.WriteRune(char)
		if strings.HasSuffix(said.String(), "[y/N] ") || strings.HasSuffix(said.String(), "[reason] ") {
			meanwhile()
			if _, err := keyboard.WriteString(answer + "\n"); err != nil {
				o.t.Fatal(err)
			}
		}
	}
}

// TestAHotFixBetweenReportAndCommit: it is never undone by the commit of what was reported
// before it, and the error says what was changed, and what to do.
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

// TestACommitOnATerminalIsCareful: what the report does not show is listed, a reason is asked for, and
// with it all of that is accepted, for what was shown.
func TestACommitOnATerminalIsCareful(t *testing.T) {
	t.Parallel()
	o := operator{t, startServer(t, nil)}
	tighter := demo.Policy + "/tighter"
	o.do("apply", demo.Policy, "-f", "../../deploy/examples/policy.yaml")
	o.do("apply", tighter, "-f", "../../deploy/examples/experiment.yaml")
	o.do("start", tighter)
	var out strings.Builder
	if code := run(t.Context(), []string{
		"check", "--addr", o.r.bound["authz"], "--path", "/internal/stock", "--principal", "spiffe://cluster.local/ns/shop/sa/web",
	}, strings.NewReader(""), &out, &out); code != 0 {
		t.Fatalf("the check ended with %d:\n%s", code, out.String())
	}
	o.awaitReport()

	code, stderr := o.answer("no", func() {}, "commit", tighter)
	for _, want := range []string{
		"NOT MET  newly-denied=0", "NOT MET  unjudged=0", "Who commits accepts:\n", "  newly denied GET /internal/stock: 1 request, for at most 2 requests of this caller\n",
		"  not seen: `data.permissions.support[\"api/reports\"]` + ", "[reason] understudy: nothing was committed\n",
	} {
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("no reason: got %d and\n%s\nwant 1 and %q", code, stderr, want)
		}
	}
	code, stderr = o.answer("", func() {}, "commit", tighter, "--yes")
	if code != 1 || !strings.Contains(stderr, "nothing was committed: newly-denied=0 has 1") || !strings.Contains(stderr, "without --yes it asks") {
		t.Errorf("--yes: got %d and\n%s", code, stderr)
	}
	var warned strings.Builder
	run(t.Context(), []string{"commit", tighter, "--etag", o.etag(tighter), "--validate-only", "--admin", o.r.bound["admin"], "--location", location},
		strings.NewReader(""), io.Discard, &warned)
	if !strings.Contains(warned.String(), "warning: nobody has judged what a careful commit requires: newly-denied=0 has 1") {
		t.Errorf("--etag says\n%s", warned.String())
	}

	answers := 0
	code, stderr = o.answer("y", func() { answers++ }, "commit", tighter, "--validate-only")
	if code != 0 || answers != 0 {
		t.Errorf("--validate-only asked %d times, and ended with %d:\n%s", answers, code, stderr)
	}
	const list = "newly-denied<=1,newly-allowed=0"
	code, stderr = o.answer("no", func() {}, "commit", tighter, "--require", list)
	for _, want := range []string{
		"Look first: both requirements are met, but no requirement is about unjudged", "No requirement is about unjudged. Who commits accepts:\n",
		"  not seen: `data.permissions.support[\"api/reports\"]` + ", "[reason] understudy: nothing was committed\n",
	} {
		if code != 1 || !strings.Contains(stderr, want) || strings.Contains(stderr, "newly denied GET /internal/stock: 1 request, for") {
			t.Errorf("--require: got %d and\n%s\nwant 1 and %q, and nothing that the list has judged", code, stderr, want)
		}
	}
	code, stderr = o.answer("the shop has no web any more", func() {}, "commit", tighter, "--require", list)
	if code != 0 {
		t.Fatalf("with a reason: got %d and\n%s", code, stderr)
	}
	var report strings.Builder
	run(t.Context(), []string{"report", demo.Policy + "@latest", "--all", "--admin", o.r.bound["admin"], "--location", location}, strings.NewReader(""), &report, &report)
	if n := strings.Count(report.String(), "the shop has no web any more"); n < 2 {
		t.Errorf("the revision has the reason %d times:\n%s", n, report.String())
	}
}

// etag is that of an experiment.
func (o operator) etag(experiment string) string {
	o.t.Helper()
	var out strings.Builder
	run(o.t.Context(), []string{"get", experiment, "-o", "json", "--admin", o.r.bound["admin"], "--location", location}, strings.NewReader(""), &out, &out)
	_, rest, _ := strings.Cut(out.String(), "W/\\\"")
	etag, _, found := strings.Cut(rest, "\\\"")
	if !found {
		o.t.Fatalf("no etag in\n%s", out.String())
	}
	return `W/"` + etag + `"`
}

// awaitReport waits until the report of shop/tighter has a request, and all are examined, so that its items stay as they
// are.
func (o operator) awaitReport() {
	o.t.Helper()
	testkit.Await(o.t, "a request is compared and examined", func() bool {
		var report struct{ RequestCount, PendingRequestCount json.Number }
		_, text := o.r.call(o.t, "admin", "GET", policies+"/shop/experiments/tighter/report", "")
		if err := json.Unmarshal([]byte(text), &report); err != nil {
			o.t.Fatal(err)
		}
		return report.RequestCount != "" && report.RequestCount != "0" && (report.PendingRequestCount == "" || report.PendingRequestCount == "0")
	})
}
