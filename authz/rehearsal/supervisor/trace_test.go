package supervisor_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/rehearsal/wire"
	"understudy/cmd/testkit"
	"understudy/rego"
	"understudy/rego/explain"
)

// traced is how a trace ended.
type traced struct {
	trace explain.Trace
	err   error
}

// aboutX asks about a request whose input has a field x.
func aboutX(x string, timeout time.Duration) func() (wire.DecisionRequest, bool) {
	return func() (wire.DecisionRequest, bool) {
		in, err := rego.NewInput(map[string]any{"x": x})
		if err != nil {
			panic(err)
		}
		encoded, err := rego.AppendInput(nil, in)
		if err != nil {
			panic(err)
		}
		return wire.DecisionRequest{ID: x, Time: time.Unix(1, 0), Timeout: timeout, Asked: wire.Document{Facts: wire.Facts{Operation: authz.OperationCheck}, Input: encoded}}, true
	}
}

// trace asks a candidate for a trace of its rule.
func trace(c *supervisor.RemotePolicy, x string, timeout time.Duration) <-chan traced {
	out := make(chan traced, 1)
	err := c.Trace("envoy/authz/allow", false, supervisor.Examination{Prepare: aboutX(x, timeout)}, func(t explain.Trace, err error) { out <- traced{t, err} })
	if err != nil {
		out <- traced{err: err}
	}
	return out
}

// TestTracesOfAnotherProcess compares two policies in a process of their own.
func TestTracesOfAnotherProcess(t *testing.T) {
	s, kids, _ := start(t)
	live := ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "live"}))
	candidate := ready(t, s.NewRemotePolicy(policy(`startswith(input.x, "y"); count(input.x) > 3`), supervisor.Options{Name: "candidate", Keeps: true}))
	causes := func() (out []string) {
		l, c := testkit.Receive(t, "a trace", trace(live, "yes", time.Minute)), testkit.Receive(t, "a trace", trace(candidate, "yes", time.Minute))
		if l.err != nil || c.err != nil {
			t.Fatalf("got the errors %v and %v", l.err, c.err)
		}
		for _, e := range explain.Compare(l.trace, c.trace) {
			out = append(out, e.String())
		}
		return out
	}
	want := []string{`p.rego:4 count(input.x) > 3`, `p.rego:4 (live policy) allow if input.x == "yes"`}
	if got := causes(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	kids.last().Kill()
	// The live policy is not kept by anybody, and is compiled again when it is asked.
	if got := causes(); !slices.Equal(got, want) {
		t.Errorf("got %q after a death, want %q", got, want)
	}
}

// TestATraceEndsInTime has one that takes too long, and asks for a rule that is not there.
func TestATraceEndsInTime(t *testing.T) {
	s, _, _ := start(t)
	endless := ready(t, s.NewRemotePolicy(policy(`count([1 | some a in numbers.range(1, 50000); some b in numbers.range(1, 50000); a == b]) == 1`), supervisor.Options{Name: "endless", Keeps: true}))
	if got := testkit.Receive(t, "a trace", trace(endless, "yes", 10*time.Millisecond)); got.err == nil {
		t.Error("an evaluation without an end has a trace")
	}
	out := make(chan traced, 1)
	err := endless.Trace("no/such/rule", false, supervisor.Examination{Prepare: aboutX("x", time.Minute)}, func(t explain.Trace, err error) { out <- traced{t, err} })
	if err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, "the trace", out); got.err != nil || len(got.trace.Rules) > 0 {
		t.Errorf("got %+v; want an empty trace of a rule that is not there", got)
	}
}

// TestATraceWaitsForADecision has one be made in another lane: the trace is not even asked for before it is.
func TestATraceWaitsForADecision(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	var released atomic.Bool
	s, err := supervisor.New(supervisor.Config{
		Memory: 1 << 40, StuckTime: time.Hour,
		Start: supervisortest.StartWith(child.Options{Before: func(context.Context, wire.DecisionRequest) { close(held); <-hold }}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	a := ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "a", Keeps: true}))
	b := ready(t, s.NewRemotePolicy(policy(`input.x == "yes"`), supervisor.Options{Name: "b", Keeps: true}))
	decided := ask(a, "yes", time.Minute)
	testkit.Closed(t, "the child to hold the request", held)
	traced := make(chan bool, 1)
	prepare := func() (wire.DecisionRequest, bool) {
		traced <- released.Load()
		return aboutX("yes", time.Minute)()
	}
	if err := b.Trace("envoy/authz/allow", false, supervisor.Examination{Prepare: prepare}, func(explain.Trace, error) {}); err != nil {
		t.Fatal(err)
	}
	released.Store(true)
	close(hold)
	testkit.Closed(t, "the decision", decided)
	if !testkit.Receive(t, "the trace", traced) {
		t.Error("the trace was asked for while a decision was made")
	}
}

// TestATraceOfNoProcess has nobody to ask.
func TestATraceOfNoProcess(t *testing.T) {
	if got := testkit.Receive(t, "a trace", trace(nil, "yes", time.Minute)); !errors.Is(got.err, supervisor.ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", got.err)
	}
}
