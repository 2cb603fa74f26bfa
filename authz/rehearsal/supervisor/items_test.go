package supervisor_test

import (
	"slices"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
	"understudy/cmd/testkit"
	"understudy/rego/change"
)

// items are those in which a candidate differs from a live policy.
func items(t testing.TB, c *supervisor.RemotePolicy, live *adminpb.Policy) wire.Listed {
	t.Helper()
	packed, err := authz.Pack(live)
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		listed wire.Listed
		err    error
	}
	out := make(chan outcome, 1)
	if err := c.Items(packed, func(l wire.Listed, err error) { out <- outcome{l, err} }); err != nil {
		t.Fatal(err)
	}
	got := testkit.Receive(t, "the items", out)
	if got.err != nil {
		t.Fatal(got.err)
	}
	return got.listed
}

// show asks what a request shows of a list.
func show(t *testing.T, c *supervisor.RemotePolicy, l wire.Listed, prepare func() (wire.DecisionRequest, bool)) (wire.Shown, error) {
	t.Helper()
	type outcome struct {
		shown wire.Shown
		err   error
	}
	out := make(chan outcome, 1)
	err := c.Show(func() []byte { return supervisor.Pending(l.Digest, []byte{0xff}) }, supervisor.Examination{Prepare: prepare}, func(s wire.Shown, err error) { out <- outcome{s, err} })
	if err != nil {
		t.Fatal(err)
	}
	got := testkit.Receive(t, "what is shown", out)
	return got.shown, got.err
}

// TestItemsInAnotherProcess compares two policies in a process of their own, and has requests show what differs.
func TestItemsInAnotherProcess(t *testing.T) {
	s, _, _ := start(t)
	before, after := policy(`input.x == "yes"`), policy(`startswith(input.x, "y")`)
	c := ready(t, s.NewRemotePolicy(after, supervisor.Options{Name: "candidate", Keeps: true}))
	if got, err := show(t, c, wire.Listed{}, aboutX("you", time.Minute)); err != nil || !got.Unlisted {
		t.Errorf("before the items are known: got %+v, %v; want to be told so", got, err)
	}
	listed := items(t, c, before)
	want, err := authz.Items(t.Context(), before, after)
	if err != nil || !slices.Equal(listed.Digest, want.Digest) || !slices.Equal(listed.Conditions, want.Conditions()) {
		t.Fatalf("got %+v, want the list that is made here, %+v; %v", listed, want, err)
	}
	for x, want := range map[string][]change.Shown{"yes": {change.True, change.True}, "you": {change.True}, "no": nil} {
		got, err := show(t, c, listed, aboutX(x, time.Minute))
		if err != nil || !slices.Equal(got.What, want) {
			t.Errorf("x = %s: got %+v, %v; want %v", x, got, err, want)
		}
	}
	listed.Digest = []byte("other")
	if got, err := show(t, c, listed, aboutX("you", time.Minute)); err == nil {
		t.Errorf("of another list: got %+v, want an error", got)
	}
}

// TestItemsOfAFailure has a policy whose own rules contradict each other: that is its decision, another attempt
// would end alike, and what was true is told.
func TestItemsOfAFailure(t *testing.T) {
	s, _, _ := start(t)
	before, after := policy(`input.x`), policy(`input.x`)
	after.Modules["q.rego"] = "package envoy.authz\nallow := {\"allowed\": false} if input.x == \"both\"\n"
	c := ready(t, s.NewRemotePolicy(after, supervisor.Options{Name: "failing", Keeps: true}))
	got, err := show(t, c, items(t, c, before), aboutX("both", time.Minute))
	if err != nil || !slices.Equal(got.What, []change.Shown{change.True}) {
		t.Errorf("got %+v, %v; want that the rule was true", got, err)
	}
}

// TestExaminationsEndInTime has an evaluation that takes too long, and a request that is too large.
func TestExaminationsEndInTime(t *testing.T) {
	s, _, _ := start(t)
	c := ready(t, s.NewRemotePolicy(policy(`count([1 | some a in numbers.range(1, 50000); some b in numbers.range(1, 50000); a == b]) == 1`), supervisor.Options{Name: "endless", Keeps: true}))
	listed := items(t, c, policy(`true`))
	if got, err := show(t, c, listed, aboutX("x", 10*time.Millisecond)); err == nil {
		t.Errorf("an evaluation without an end has shown %+v", got)
	}
	large := func() (wire.DecisionRequest, bool) {
		return wire.DecisionRequest{Asked: wire.Document{Input: make([]byte, wire.MaxDecisionRequest)}, Timeout: time.Minute}, true
	}
	if got, err := show(t, c, listed, large); err == nil {
		t.Errorf("a request that is too large has shown %+v", got)
	}
}
