//go:build !race

// These tests fill the memory of real processes. Under the race detector they take minutes, and what
// it would see is in the tests of supervisor_test.go, too.

package supervisor_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/cmd/testkit"
)

// keeping is a policy that keeps about so many MiB for as long as it is compiled: each of its
// rules compares another field, so that the index of n rules has n²/2 levels of 160 bytes.
// Another note makes it another policy.
func keeping(mib int, note string) *adminpb.Policy {
	n := 1
	for n*n/2*160 < mib<<20 {
		n++
	}
	var text strings.Builder
	fmt.Fprintf(&text, "package envoy.authz # %s\nimport rego.v1\n", note)
	for i := range n {
		fmt.Fprintf(&text, "allow if { input.a%d == \"%d\"; startswith(input.x, \"x%d\") }\n", i, i, i)
	}
	p := policy(`true`)
	p.Modules["keeping.rego"] = text.String()
	return p
}

// bomb makes a list that doubles in many small steps, each of which heeds its
// cancellation: nothing but its memory is wrong with it.
const bomb = `input.x == "bomb"; n := numbers.range(1, 2000); l := [[i, j, k] | some i in n; some j in n; some k in n]; count(l) > 0`

// TestDeathIsChargedToWhoCausesIt has an experiment end the process with its memory while
// another one is evaluated: the other's questions are all answered, and after three deaths
// the first is not asked any more.
func TestDeathIsChargedToWhoCausesIt(t *testing.T) {
	s, _, log := start(t)
	good := ready(t, s.NewRemotePolicy(policy(`input.x != "no"`), supervisor.Options{Name: "good", Keeps: true}))
	bad := ready(t, s.NewRemotePolicy(policy(bomb), supervisor.Options{Name: "bad", Keeps: true}))
	var others []<-chan asked
	for range 4 {
		doomed := ask(bad, "bomb", time.Hour)
		for i := range 20 {
			others = append(others, ask(good, fmt.Sprint(i), time.Hour))
		}
		got := testkit.Receive(t, "an answer", doomed)
		var crash *supervisor.CrashError
		if !errors.As(got.err, &crash) || !strings.Contains(crash.Error(), "128 MiB") {
			t.Fatalf("the bomb ended with %+v, want its crash", got)
		}
	}
	for _, other := range others {
		if got := testkit.Receive(t, "an answer", other); got.err != nil || got.decided.Effect != authz.Allow {
			t.Errorf("a question to the other ended with %+v, want ALLOW", got)
		}
	}
	if !strings.Contains(log.String(), "is not evaluated any more") {
		t.Error("the log does not say that the experiment is suspended")
	}
	if strings.Contains(log.String(), "charged=good") {
		t.Error("a crash was blamed on the wrong experiment")
	}
	changed := ready(t, s.NewRemotePolicy(policy(bomb+"\n true"), supervisor.Options{Name: "bad", Keeps: true}))
	if got := testkit.Receive(t, "an answer", ask(changed, "harmless", time.Hour)); got.err != nil {
		t.Errorf("with other content it is %+v, want a decision", got)
	}
}

// TestCompileThatEndsTheProcess refuses content that does, and does not try it again.
func TestCompileThatEndsTheProcess(t *testing.T) {
	s, kids, _ := start(t)
	big := policy(`true`)
	var text strings.Builder
	text.WriteString("package big\nimport rego.v1\n")
	for i := range 9000 {
		fmt.Fprintf(&text, "r%d if {\n", i)
		for j := range 30 {
			fmt.Fprintf(&text, "input.a%d[_].b == input.c[%d]\n", j, j)
		}
		text.WriteString("}\n")
	}
	big.Modules["big.rego"] = text.String()
	for range 2 {
		err := s.Compile(t.Context(), big)
		var refused *authz.CompileError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "128 MiB") {
			t.Fatalf("it is %v, want a CompileError that names the bound", err)
		}
	}
	if got := len(kids.all); got != 1 {
		t.Errorf("%d processes were started, want 1: what was refused is not tried again", got)
	}
	if err := s.Compile(t.Context(), policy(`true`)); err != nil {
		t.Errorf("another policy: %v", err)
	}
}

// TestGarbageIsNotCharged compiles what takes more than half of the memory, again and again
// in one child: what the last one has left is collected, and not taken for part of the next.
func TestGarbageIsNotCharged(t *testing.T) {
	s, kids, _ := start(t)
	for i := range max(3, testkit.Cases(6)) {
		if err := s.Compile(t.Context(), keeping(72, fmt.Sprint(i))); err != nil {
			t.Fatalf("compiling for the %d. time: %v", i+1, err)
		}
	}
	if got := len(kids.started()); got != 1 {
		t.Errorf("%d processes were started, want 1", got)
	}
}

// TestContentIsRefusedForItsOwnMemory compiles next to an experiment what does not fit next to
// it, but would alone: it is accepted, and the experiment still decides. What fits nowhere is
// refused.
func TestContentIsRefusedForItsOwnMemory(t *testing.T) {
	s, _, log := start(t)
	beside := ready(t, s.NewRemotePolicy(keeping(72, "beside"), supervisor.Options{Name: "beside", Keeps: true}))
	if got := testkit.Receive(t, "an answer", ask(beside, "x", time.Hour)); got.err != nil || got.decided.Effect != authz.Allow {
		t.Fatalf("before: %+v, want ALLOW", got)
	}
	if err := s.Compile(t.Context(), keeping(72, "content")); err != nil {
		t.Errorf("what fits alone: %v", err)
	}
	if got := log.String(); !strings.Contains(got, "cause=memory") || strings.Contains(got, "charged=") {
		t.Errorf("the log is %q, want a death of which nobody is culprit", got)
	}
	if got := testkit.Receive(t, "an answer", ask(beside, "x", time.Hour)); got.err != nil || got.decided.Effect != authz.Allow {
		t.Errorf("after: %+v, want ALLOW", got)
	}
	var refused *authz.CompileError
	if err := s.Compile(t.Context(), keeping(120, "content")); !errors.As(err, &refused) || !strings.Contains(err.Error(), "128 MiB") {
		t.Errorf("what fits nowhere: %v, want a CompileError that names the bound", err)
	}
	if got := testkit.Receive(t, "an answer", ask(beside, "x", time.Hour)); got.err != nil || got.decided.Effect != authz.Allow {
		t.Errorf("in the end: %+v, want ALLOW", got)
	}
}
