//go:build amd64 || arm64

package child_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/process"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/rehearsal/wire"
	"understudy/rego"
)

// TestMain is the rehearsal process as well, which does here what a request asks it for by its ID.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.Argument {
		options := child.ProcessOptions("test")
		options.Before = doAsked
		os.Exit(child.Run(options))
	}
	os.Exit(m.Run())
}

// The IDs of requests that ask for something.
const (
	askAttempts = "make all attempts"
	askThreads  = "begin threads"
)

// manyThreads is how many threads the process is asked to begin.
const manyThreads = 24

// doAsked does in the process what a request asks for, when its evaluation begins.
func doAsked(_ context.Context, q wire.DecisionRequest) {
	switch q.ID {
	case askAttempts:
		// The parent reads of its standard error what begins like this.
		fmt.Fprintln(os.Stderr, "understudy rehearse: "+strings.Join(makeAttempts(), ", "))
		os.Exit(1)
	case askThreads:
		var begun sync.WaitGroup
		for range manyThreads {
			begun.Add(1)
			go func() {
				runtime.LockOSThread()
				begun.Done()
				select {}
			}()
		}
		begun.Wait()
	}
}

// TestTheProcessMayNotDoMore has the process make system calls, as code would that got into it
// through a request. Each attempt ends otherwise where nothing forbids it.
func TestTheProcessMayNotDoMore(t *testing.T) {
	p, conn := begin(t)
	evaluate(t, conn, askAttempts)
	said := p.Wait()
	_, results, found := strings.Cut(said, "understudy rehearse: ")
	if !found {
		t.Fatalf("it said nothing of its attempts, but: %s", said)
	}
	got := strings.Split(results, ", ")
	if len(got) != len(attempts) {
		t.Fatalf("%d results of %d attempts: %s", len(got), len(attempts), results)
	}
	for i, a := range attempts {
		if want := a.name + ": " + a.want(); got[i] != want {
			t.Errorf("got %q, want %q", got[i], want)
		}
	}
}

// TestEachThreadIsConfined looks at the threads of a process from outside: those that were there
// when it was confined, and those that it has begun since.
func TestEachThreadIsConfined(t *testing.T) {
	p, conn := begin(t)
	evaluate(t, conn, askThreads)
	if f, err := conn.Receive(); err != nil || f.Kind != wire.KindDecided {
		t.Fatalf("got the frame %d, %v; want a decision", f.Kind, err)
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.PID()))
	if err != nil || len(threads) < manyThreads {
		t.Fatalf("it has %d threads, %v; want %d at least", len(threads), err, manyThreads)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"\nSeccomp:\t2\n", "\nNoNewPrivs:\t1\n", "\nCapPrm:\t0000000000000000\n", "\nCapEff:\t0000000000000000\n"} {
			if !bytes.Contains(status, []byte(want)) {
				t.Errorf("%s does not have %q:\n%s", thread, want, status)
			}
		}
	}
}

// TestConfinedBeforeThePolicy looks at a process that was sent nothing but the greeting.
func TestConfinedBeforeThePolicy(t *testing.T) {
	p := start(t)
	conn := wire.NewConn(p)
	greet(t, conn)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil || !bytes.Contains(status, []byte("\nSeccomp:\t2\n")) {
		t.Errorf("it is not confined, %v:\n%s", err, status)
	}
}

// TestTimeZonesAreThere asks for zones by their names, for which no file can be opened then: one
// that Go has, and one that only this system has.
func TestTimeZonesAreThere(t *testing.T) {
	zones := t.TempDir()
	if err := os.MkdirAll(filepath.Join(zones, "Nowhere"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(zones, "Nowhere", "Land"), zoneFile(3*time.Hour, "NWL"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ZONEINFO", zones)
	_, conn := begin(t)
	for zone, hour := range map[string]int{"Europe/Zurich": 14, "Nowhere/Land": 15} {
		compile(t, conn, fmt.Sprintf(`time.clock([1751371200000000000, %q]) == [%d, 0, 0]`, zone, hour))
		evaluate(t, conn, zone)
		f, err := conn.Receive()
		if err != nil || f.Kind != wire.KindDecided {
			t.Fatalf("%s: got the frame %d, %v; want a decision", zone, f.Kind, err)
		}
		if d, err := wire.ParseDecided(f.Payload); err != nil || d.Effect != authz.Allow {
			t.Errorf("%s: got %+v, %v; want ALLOW", zone, d, err)
		}
	}
}

// zoneFile is the file of a time zone that is always ahead of UTC by as much, in the first version
// of the form that RFC 9636 describes.
func zoneFile(ahead time.Duration, name string) []byte {
	file := append([]byte("TZif"), make([]byte, 16)...)
	// The numbers of indicators, leap seconds and transitions, of types of time, and of letters.
	for _, count := range []uint32{0, 0, 0, 0, 1, uint32(len(name) + 1)} {
		file = binary.BigEndian.AppendUint32(file, count)
	}
	file = binary.BigEndian.AppendUint32(file, uint32(ahead/time.Second))
	file = append(file, 0, 0) // no summer time, and its name begins at the first letter
	return append(file, name+"\x00"...)
}

// start starts a process, which ends with the test.
func start(t *testing.T) *process.Process {
	t.Helper()
	p, err := process.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		_ = p.Close()
		p.Wait()
	})
	return p
}

// begin starts a process that has compiled a policy.
func begin(t *testing.T) (*process.Process, *wire.Conn) {
	t.Helper()
	p := start(t)
	conn := wire.NewConn(p)
	greet(t, conn)
	compile(t, conn, "true")
	return p, conn
}

// greet sends the first frame, and has the answer that the process is confined.
func greet(t *testing.T, conn *wire.Conn) {
	t.Helper()
	hello := wire.Hello{Build: "test", Instrumented: supervisortest.Overhead() > 1, Memory: 128 << 20, CompileTime: time.Minute, StuckTime: time.Minute}
	f := exchange(t, conn, wire.Frame{Kind: wire.KindHello, Payload: wire.Marshal(hello)})
	var ready wire.Ready
	if err := wire.Unmarshal(f.Payload, &ready); f.Kind != wire.KindReady || err != nil || ready.Unconfined != "" {
		t.Fatalf("got the frame %d with %+v, %v; want a process that is ready and confined", f.Kind, ready, err)
	}
}

// compile makes a policy whose rule has this body the one of the lane.
func compile(t *testing.T, conn *wire.Conn, body string) {
	t.Helper()
	payload, err := proto.Marshal(&adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"p.rego": "package envoy.authz\nimport rego.v1\ndefault allow := false\nallow if { " + body + " }\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := exchange(t, conn, wire.Frame{Kind: wire.KindCompile, Lane: 1, Payload: payload})
	var compiled wire.Compiled
	if err := wire.Unmarshal(f.Payload, &compiled); f.Kind != wire.KindCompiled || err != nil || compiled.Refused != nil {
		t.Fatalf("got the frame %d with %+v, %v; want a policy that compiles", f.Kind, compiled.Refused, err)
	}
}

// evaluate asks for a decision about a request with this ID. The answer is not waited for.
func evaluate(t *testing.T, conn *wire.Conn, id string) {
	t.Helper()
	request, err := wire.AppendDecisionRequest(nil, wire.DecisionRequest{
		ID: id, Time: time.Unix(1, 0), Timeout: time.Minute,
		Asked: wire.Document{Facts: wire.Facts{Operation: authz.OperationCheck}, Input: input(t)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Send(wire.Frame{Kind: wire.KindEvaluate, Lane: 1, Job: 1, Payload: request}); err != nil {
		t.Fatal(err)
	}
}

// input is an encoded input document.
func input(t *testing.T) []byte {
	t.Helper()
	in, err := rego.NewInput(map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := rego.AppendInput(nil, in)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// exchange sends a frame and returns the next one that comes.
func exchange(t *testing.T, conn *wire.Conn, f wire.Frame) wire.Frame {
	t.Helper()
	if err := conn.Send(f); err != nil {
		t.Fatal(err)
	}
	got, err := conn.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// dial tries to make a connection.
func dial(network, address string) error {
	conn, err := net.Dial(network, address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}
