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

// TestGarbageIsNotCharged compiles what takes more than half of the memory, again and again
// in one child: what the last one has left is collected, and not taken for part of the next.
func TestGarbageIsNotCharged(t *testing.T) {
	s, kids, _ := start(t)
	for i := range 6 {
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
	beside := ready(t, s.NewRemotePolicy(keeping(60, "beside"), supervisor.Options{Name: "beside", Keeps: true}))
	if got := <-ask(beside, "x", time.Hour); got.err != nil || got.decided.Effect != authz.Allow {
		t.Fatalf("before: %+v, want ALLOW", got)
	}
	if err := s.Compile(t.Context(), keeping(60, "content")); err != nil {
		t.Errorf("what fits alone: %v", err)
	}
	if got := log.String(); !strings.Contains(got, "cause=memory") || strings.Contains(got, "culprit=") {
		t.Errorf("the log is %q, want a death of which nobody is culprit", got)
	}
	if got := <-ask(beside, "x", time.Hour); got.err != nil || got.decided.Effect != authz.Allow {
		t.Errorf("after: %+v, want ALLOW", got)
	}
	var refused *authz.CompileError
	if err := s.Compile(t.Context(), keeping(120, "content")); !errors.As(err, &refused) || !strings.Contains(err.Error(), "128 MiB") {
		t.Errorf("what fits nowhere: %v, want a CompileError that names the bound", err)
	}
	if got := <-ask(beside, "x", time.Hour); got.err != nil || got.decided.Effect != authz.Allow {
		t.Errorf("in the end: %+v, want ALLOW", got)
	}
}
