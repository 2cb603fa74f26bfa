package supervisor_test

import (
	"slices"
	"testing"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
	"understudy/cmd/testkit"
	"understudy/rego/coverage"
)

// TestCoverageOfAnotherProcess compares two policies in a process of their own, and watches
// what differs.
func TestCoverageOfAnotherProcess(t *testing.T) {
	s, _, _ := start(t)
	before, after := policy(`input.x == "yes"`), policy(`startswith(input.x, "y")`)
	c := ready(t, s.NewCandidate(after, supervisor.Options{Name: "candidate", Keeps: true}))

	type outcome struct {
		changes coverage.Changes
		err     error
	}
	diffed := make(chan outcome, 1)
	live, err := authz.Pack(before)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Changes(live, after, func(changes coverage.Changes, err error) { diffed <- outcome{changes, err} }); err != nil {
		t.Fatal(err)
	}
	got := testkit.Receive(t, "an answer", diffed)
	if got.err != nil || len(got.changes.Live) != 1 || len(got.changes.Candidate) != 1 || got.changes.Candidate[0].Line != 4 {
		t.Fatalf("got %+v; want one rule of each side", got)
	}
	cover := func(x string) []coverage.Seen {
		out := make(chan []coverage.Seen, 1)
		err := c.Cover(func() []byte { return supervisor.Targets(got.changes.Candidate) }, supervisor.Examination{Prepare: aboutX(x, time.Minute)}, func(seen []coverage.Seen, err error) {
			if err != nil {
				t.Error(err)
			}
			out <- seen
		})
		if err != nil {
			t.Fatal(err)
		}
		return testkit.Receive(t, "an answer", out)
	}
	for x, want := range map[string]coverage.Seen{"you": coverage.True, "no": coverage.False} {
		if seen := cover(x); !slices.Equal(seen, []coverage.Seen{want}) {
			t.Errorf("x = %s: got %v, want %v", x, seen, want)
		}
	}
}

// TestCoverageOfAFailure has a policy whose own rules contradict each other: that is its decision,
// another attempt would end alike, and what was true is told.
func TestCoverageOfAFailure(t *testing.T) {
	s, _, _ := start(t)
	before, after := policy(`input.x`), policy(`input.x`)
	after.Modules["q.rego"] = "package envoy.authz\nallow := {\"allowed\": false} if input.x == \"both\"\n"
	changes, err := authz.Changes(t.Context(), before, after)
	if err != nil || len(changes.Candidate) != 1 {
		t.Fatalf("got %+v, %v; want one rule", changes, err)
	}
	c := ready(t, s.NewCandidate(after, supervisor.Options{Name: "failing", Keeps: true}))
	type outcome struct {
		seen []coverage.Seen
		err  error
	}
	covered := make(chan outcome, 1)
	err = c.Cover(func() []byte { return supervisor.Targets(changes.Candidate) }, supervisor.Examination{Prepare: aboutX("both", time.Minute)}, func(seen []coverage.Seen, err error) { covered <- outcome{seen, err} })
	if err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, "an answer", covered); got.err != nil || !slices.Equal(got.seen, []coverage.Seen{coverage.True}) {
		t.Errorf("got %+v; want that the rule was true", got)
	}
}

// TestCoverageEndsInTime has an evaluation that takes too long.
func TestCoverageEndsInTime(t *testing.T) {
	s, _, _ := start(t)
	c := ready(t, s.NewCandidate(policy(`count([1 | some a in numbers.range(1, 50000); some b in numbers.range(1, 50000); a == b]) == 1`), supervisor.Options{Name: "endless", Keeps: true}))
	failed := make(chan error, 1)
	err := c.Cover(func() []byte { return supervisor.Targets(nil) }, supervisor.Examination{Prepare: aboutX("x", 10*time.Millisecond)}, func(_ []coverage.Seen, err error) { failed <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "an answer", failed); err == nil {
		t.Error("an evaluation without an end was covered")
	}
	large := func() (wire.Question, bool) {
		return wire.Question{Asked: wire.Document{Input: make([]byte, wire.MaxQuestion)}, Timeout: time.Minute}, true
	}
	none := func() []byte { return supervisor.Targets(nil) }
	err = c.Cover(none, supervisor.Examination{Prepare: large}, func(_ []coverage.Seen, err error) { failed <- err })
	if err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "an answer", failed); err == nil {
		t.Error("a request that is too large was covered")
	}
}
