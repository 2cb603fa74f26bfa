package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/diagnostics/logtest"
	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/process"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/rehearsal/wire"
	"understudy/cmd/testkit"
	"understudy/rego"
	"understudy/rego/regotest"
)

// TestMain is the rehearsal process as well: tests start this binary again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.Argument {
		os.Exit(child.Main("test"))
	}
	os.Exit(m.Run())
}

// children remembers the processes that a supervisor starts.
type children struct {
	mu  sync.Mutex
	all []*process.Process
}

func (c *children) start() (supervisor.Child, error) {
	p, err := process.Start()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
	return p, nil
}

func (c *children) last() *process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) == 0 {
		return nil
	}
	return c.all[len(c.all)-1]
}

// started are all of them, so far.
func (c *children) started() []*process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// start returns a supervisor with real processes of little memory.
func start(t testing.TB) (*supervisor.Supervisor, *children, *logtest.Buffer) {
	t.Helper()
	log, kids := &logtest.Buffer{}, &children{}
	s, err := supervisor.New(supervisor.Config{
		Start: kids.start, Build: "test", Overhead: supervisortest.Overhead(), Memory: 128 << 20, StuckTime: testkit.Patience, CompileTime: testkit.Patience,
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if t.Failed() {
			t.Log(log)
		}
	})
	return s, kids, log
}

// policy is one with a rule whose body is given.
func policy(body string) *adminpb.Policy {
	return &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"p.rego": "package envoy.authz\nimport rego.v1\ndefault allow := false\nallow if { " + body + " }\n"},
	}
}

// asked is how a request ended.
type asked struct {
	decided authz.Decision
	err     error
}

// ask asks a candidate about a request whose input has a field x.
func ask(c *supervisor.RemotePolicy, x string, timeout time.Duration) <-chan asked {
	out := make(chan asked, 1)
	err := c.Decide(supervisor.DecisionRequest{
		Prepare: func() (wire.DecisionRequest, bool) {
			in, err := rego.NewInput(map[string]any{"x": x})
			if err != nil {
				panic(err)
			}
			encoded, err := rego.AppendInput(nil, in)
			if err != nil {
				panic(err)
			}
			return wire.DecisionRequest{
				ID: x, Time: time.Unix(1, 0), Timeout: timeout,
				Asked: wire.Document{Facts: wire.Facts{Operation: authz.OperationCheck}, Input: encoded},
			}, true
		},
		Done: func(d authz.Decision, err error) { out <- asked{d, err} },
	})
	if err != nil {
		out <- asked{err: err}
	}
	return out
}

// ready waits until a candidate has compiled.
func ready(t testing.TB, c *supervisor.RemotePolicy) *supervisor.RemotePolicy {
	t.Helper()
	testkit.Closed(t, "c is ready", c.Ready())
	if _, err := c.Facts(); err != nil {
		t.Fatalf("the candidate does not compile: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestDecisionsOfAnotherProcess(t *testing.T) {
	s, _, _ := start(t)
	c := ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "a", Keeps: true}))
	if facts, _ := c.Facts(); facts != (authz.Facts{Deterministic: true}) {
		t.Errorf("the facts are %+v, want those of a policy that reads no body", facts)
	}
	for x, want := range map[string]authz.Effect{"yes": authz.Allow, "no": authz.Deny} {
		if got := testkit.Receive(t, "an answer", ask(c, x, time.Minute)); got.err != nil || got.decided.Effect != want {
			t.Errorf("x = %s is %+v, want %v", x, got, want)
		}
	}
}

func TestContentOfTheAPI(t *testing.T) {
	s, _, _ := start(t)
	if err := s.Compile(t.Context(), policy(`input.x == "yes"`)); err != nil {
		t.Errorf("a policy that compiles: %v", err)
	}
	var refused *authz.CompileError
	if err := s.Compile(t.Context(), policy(`input.x = `)); !errors.As(err, &refused) || refused.Violations[0].Code == "" {
		t.Errorf("a policy that does not: %v, want violations of the compiler", err)
	}
	p := policy(`input.x == "yes"`)
	p.Modules["p_test.rego"] = "package envoy.authz_test\nimport rego.v1\nimport data.envoy.authz\n" +
		"test_yes if authz.allow with input as {\"x\": \"yes\"}\ntest_no if authz.allow with input as {}\n"
	report, err := s.Test(t.Context(), p, time.Minute, regotest.Options{Timeout: time.Minute})
	if err != nil || len(report.Tests) != 2 || report.Tests[0].Bad() || !report.Tests[1].Bad() {
		t.Errorf("tests: %+v, %v; want one that passes and one that fails", report.Tests, err)
	}
}

// TestItemsOfTheAPI compares two policies in the process, as it is done anywhere else, whatever becomes
// of them.
func TestItemsOfTheAPI(t *testing.T) {
	s, kids, _ := start(t)
	live, candidate := policy(`input.x == "yes"`), policy(`input.x == "no"`)
	want, err := authz.Items(t.Context(), live, candidate)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Items(t.Context(), live, candidate, false)
	if diff := cmp.Diff(want, got); err != nil || diff != "" || len(got.Items) == 0 {
		t.Errorf("got %v (-want +got):\n%s", err, diff)
	}
	if got, err := s.Items(t.Context(), live, policy(`input.x = `), false); err == nil {
		t.Errorf("of one that does not parse: got %v", got)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Items(gone, live, candidate, false); !errors.Is(err, context.Canceled) {
		t.Errorf("for who does not wait: got %v", err)
	}
	if got := len(kids.started()); got != 1 {
		t.Errorf("%d processes were started, want 1", got)
	}
}

// TestKilledFromOutside shows that questions are asked again when somebody kills the child.
func TestKilledFromOutside(t *testing.T) {
	s, kids, _ := start(t)
	a := ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "a", Keeps: true}))
	b := ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "b", Keeps: true}))
	kids.last().Kill()
	for _, c := range []*supervisor.RemotePolicy{a, b} {
		got := testkit.Receive(t, "an answer", ask(c, "yes", time.Hour))
		if got.err == nil && got.decided.Effect == authz.Allow {
			continue
		}
		// It may have been under way alone, and is blamed for it.
		if crash := (*supervisor.CrashError)(nil); !errors.As(got.err, &crash) {
			t.Errorf("the request ended with %+v, want a decision", got)
		}
	}
}

// TestKilledIsNoCrash has somebody kill a child: the cause says so.
func TestKilledIsNoCrash(t *testing.T) {
	s, kids, log := start(t)
	c := ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "a", Keeps: true}))
	kids.last().Kill()
	testkit.Await(t, "another child is started", func() bool {
		testkit.Receive(t, "an answer", ask(c, "yes", time.Hour))
		return len(kids.started()) == 2
	})
	if got := log.String(); !strings.Contains(got, "cause=killed") {
		t.Errorf("the log is %q, want the cause killed", got)
	}
}

// TestKilledWhileItCompiles has somebody kill the first two children while a policy is being
// compiled: that says nothing about the policy.
func TestKilledWhileItCompiles(t *testing.T) {
	kids := &children{}
	s, err := supervisor.New(supervisor.Config{Build: "test", Overhead: supervisortest.Overhead(), Start: func() (supervisor.Child, error) {
		child, err := kids.start()
		if len(kids.started()) > 2 || err != nil {
			return child, err
		}
		return &killedOnFrame{Child: child}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Compile(t.Context(), policy(`true`)); err != nil {
		t.Errorf("compiling: %v", err)
	}
	if got := len(kids.started()); got != 3 {
		t.Errorf("%d children were started, want 3", got)
	}
}

// killedOnFrame is a child that is killed when it is asked for something.
type killedOnFrame struct {
	supervisor.Child
	written int
}

// Write is first called with the greeting.
func (k *killedOnFrame) Write(b []byte) (int, error) {
	if k.written++; k.written > 1 {
		k.Kill()
	}
	return k.Child.Write(b)
}

// lingering is a child whose end is held up, once it has begun or before it is noticed.
type lingering struct {
	supervisor.Child
	holdsKill, holdsWait func()
}

func (l *lingering) Kill() {
	l.holdsKill()
	l.Child.Kill()
}

func (l *lingering) Wait() string {
	state := l.Child.Wait()
	l.holdsWait()
	return state
}

// TestAnIdleChildTakesNothingAlong asks while a child ends because nothing is under way: just
// before it is killed, and after it has ended but before the supervisor knows. Each question is
// answered.
func TestAnIdleChildTakesNothingAlong(t *testing.T) {
	for _, moment := range []string{"before it is killed", "before its end is noticed"} {
		t.Run(moment, func(t *testing.T) {
			held, goOn, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
			hold := func() {
				select {
				case held <- struct{}{}:
					<-goOn
				case <-over:
				}
			}
			s, err := supervisor.New(supervisor.Config{Idle: time.Nanosecond, Start: func() (supervisor.Child, error) {
				child, err := supervisortest.Start()
				if moment == "before it is killed" {
					return &lingering{child, sync.OnceFunc(hold), func() {}}, err
				}
				return &lingering{child, func() {}, hold}, err
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			defer close(over)
			c := ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "a"}))
			check := func(answer <-chan asked) {
				t.Helper()
				if got := testkit.Receive(t, "an answer", answer); got.err != nil || got.decided.Effect != authz.Allow {
					t.Fatalf("the question ended with %+v, want ALLOW", got)
				}
			}
			for range 20 {
				testkit.Receive(t, "a child that ends, as it is idle", held)
				answer := ask(c, "yes", time.Hour)
				goOn <- struct{}{}
				check(answer)
				if moment == "before it is killed" {
					check(ask(c, "yes", time.Hour)) // the child that was killed may have answered; this one has another
				}
			}
		})
	}
}

// TestSlowIsNotCharged has an evaluation run out of time.
func TestSlowIsNotCharged(t *testing.T) {
	s, kids, _ := start(t)
	c := ready(t, s.NewRemotePolicy(policy(`n := numbers.range(1, 3000); count([1 | some i in n; some j in n; i + j < 0]) == 1`), supervisor.Options{Name: "slow", Keeps: true}))
	if got := testkit.Receive(t, "an answer", ask(c, "x", time.Millisecond)); got.err != nil || got.decided.Failure != authz.FailureDeadline {
		t.Errorf("it ended with %+v, want a deadline", got)
	}
	if got := len(kids.all); got != 1 {
		t.Errorf("%d processes were started, want 1", got)
	}
}

// TestClosingDropsWhatWaits closes a candidate whose evaluation lasts.
func TestClosingDropsWhatWaits(t *testing.T) {
	s, _, _ := start(t)
	c := ready(t, s.NewRemotePolicy(policy(`n := numbers.range(1, 3000); count([1 | some i in n; some j in n; some k in n; i + j + k < 0]) == 1`), supervisor.Options{Name: "slow", Keeps: true}))
	var all []<-chan asked
	for i := range 100 {
		all = append(all, ask(c, fmt.Sprint(i), time.Hour))
	}
	c.Close()
	for _, one := range all {
		if got := testkit.Receive(t, "an answer", one); !errors.Is(got.err, supervisor.ErrChanged) {
			t.Errorf("a question ended with %+v, want ErrChanged", got)
		}
	}
	other := ready(t, s.NewRemotePolicy(policy(`true`), supervisor.Options{Name: "other", Keeps: true}))
	if got := testkit.Receive(t, "an answer", ask(other, "x", time.Hour)); got.err != nil {
		t.Errorf("another candidate: %v", got.err)
	}
}

// TestQueueIsBounded asks more than may wait.
func TestQueueIsBounded(t *testing.T) {
	kids := &children{}
	s, err := supervisor.New(supervisor.Config{Start: kids.start, Build: "test", Overhead: supervisortest.Overhead()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := s.NewRemotePolicy(policy(`n := numbers.range(1, 3000); count([1 | some i in n; some j in n; some k in n; i + j + k < 0]) == 1`), supervisor.Options{Name: "slow", Keeps: true, Queue: 3})
	full := 0
	for i := range 200 {
		select {
		case got := <-ask(c, fmt.Sprint(i), time.Hour):
			if !errors.Is(got.err, supervisor.ErrQueueFull) {
				t.Fatalf("a request ended with %+v", got)
			}
			full++
		default:
		}
	}
	if full < 100 {
		t.Errorf("%d of 200 requests were refused, want nearly all", full)
	}
}

// TestNoProcess has a process that cannot be started.
func TestNoProcess(t *testing.T) {
	s, err := supervisor.New(supervisor.Config{Start: func() (supervisor.Child, error) { return nil, errors.New("no") }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Compile(t.Context(), policy(`true`)); !errors.Is(err, supervisor.ErrUnavailable) {
		t.Errorf("compiling: %v, want ErrUnavailable", err)
	}
	c := s.NewRemotePolicy(policy(`true`), supervisor.Options{Name: "a", Keeps: true})
	if got := testkit.Receive(t, "an answer", ask(c, "x", time.Hour)); !errors.Is(got.err, supervisor.ErrUnavailable) {
		t.Errorf("a question ended with %+v, want ErrUnavailable", got)
	}
}

// TestStuckIsCharged has an evaluation go on after it was cancelled, beside another one.
func TestStuckIsCharged(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	s, err := supervisor.New(supervisor.Config{StuckTime: time.Millisecond, Overhead: supervisortest.Overhead(), Start: supervisortest.StartWith(child.Options{
		Before: func(_ context.Context, q wire.DecisionRequest) {
			for q.ID == "stuck" {
				select {
				case <-release:
					return
				default:
				}
			}
		},
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stuck := ready(t, s.NewRemotePolicy(policy(`true`), supervisor.Options{Name: "stuck"}))
	good := ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "good"}))
	got := testkit.Receive(t, "an answer", ask(stuck, "stuck", time.Millisecond))
	if crash := (*supervisor.CrashError)(nil); !errors.As(got.err, &crash) || !strings.Contains(crash.Error(), "cannot be cancelled") {
		t.Errorf("it ended with %+v, want its crash", got)
	}
	if got := testkit.Receive(t, "an answer", ask(good, "yes", time.Hour)); got.err != nil || got.decided.Effect != authz.Allow {
		t.Errorf("the other ended with %+v, want ALLOW", got)
	}
}
