package sidecar_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
	"understudy/rego"
)

const (
	onlyGET  = `input.method == "GET"`
	onlyPOST = `input.method == "POST"`
	// nonsense is a module that does not compile.
	nonsense = "package envoy.authz\nallow := nonsense("
)

func TestSidecarDeniesUntilItHasPolicies(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.down = true
	s, _ := start(t, feed, func(c *sidecar.Config) { c.Default = authz.Allow })
	d := s.Check(t.Context(), request("GET", nil))
	if d.Effect != authz.Deny || d.Failure != authz.FailureNotReady {
		t.Errorf("got %+v; want a denial, not ready", d)
	}
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	feed.setDown(false)
	testkit.Closed(t, "s is ready", s.Ready())
	if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Allow {
		t.Errorf("got %+v; want it allowed", d)
	}
}

func TestSidecarFollowsChanges(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	for _, step := range []struct {
		name  string
		state authz.PolicyState
		get   authz.Effect
		post  authz.Effect
	}{
		{"another content", authz.PolicyState{Policy: policy("b", allowIf(onlyPOST))}, authz.Deny, authz.Allow},
		{"deleted", authz.PolicyState{}, authz.Deny, authz.Deny},
		{"back", authz.PolicyState{Policy: policy("c", allowIf(onlyGET))}, authz.Allow, authz.Deny},
		{"no rules", authz.PolicyState{Policy: policy("d", "")}, authz.Deny, authz.Deny},
	} {
		feed.awaitApplied(t, feed.put(webName, step.state))
		if got := s.Check(t.Context(), request("GET", nil)).Effect; got != step.get {
			t.Errorf("%s: GET is %v, want %v", step.name, got, step.get)
		}
		if got := s.Check(t.Context(), request("POST", nil)).Effect; got != step.post {
			t.Errorf("%s: POST is %v, want %v", step.name, got, step.post)
		}
	}
}

func TestSidecarKeepsItsPoliciesWhenTheStoreIsLost(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	feed.setDown(true)
	testkit.Await(t, "noticing the loss", func() bool { return s.Status().Lost != nil })
	if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Allow {
		t.Errorf("got %+v; want the last policy's answer", d)
	}
	if status := s.Status(); !status.Ready {
		t.Error("a sidecar that decides is ready")
	}
	sequence := feed.put(webName, authz.PolicyState{Policy: policy("b", allowIf(onlyPOST))})
	feed.setDown(false)
	feed.awaitApplied(t, sequence)
	if d := s.Check(t.Context(), request("POST", nil)); d.Effect != authz.Allow {
		t.Errorf("got %+v; want the new policy's answer", d)
	}
}

// TestAStoreComesBackWithoutAChange: the sidecar says that the store answers, although there may be no change for days.
func TestAStoreComesBackWithoutAChange(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	feed.setDown(true)
	testkit.Await(t, "noticing the loss", func() bool { return s.Status().Lost != nil })
	back := time.Now()
	feed.setDown(false)
	testkit.Await(t, "noticing that it is back", func() bool { return s.Status().Lost == nil })
	if contact := s.Status().Contact; contact.Before(back) {
		t.Errorf("the last contact was %v before the store came back", back.Sub(contact))
	}
	testkit.Await(t, "the next contact", func() bool { return s.Status().Contact.After(back.Add(time.Second)) })
}

func TestSidecarReportsWhatItCannotApply(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	broken := feed.put(webName, authz.PolicyState{Policy: policy("b", "package envoy.authz\nallow := nonsense(")})
	n := feed.awaitNode(t, func(n *adminpb.Node) bool { return n.Error != nil })
	info, ok := status.FromProto(n.Error).Details()[0].(*errdetails.ErrorInfo)
	if !ok || info.Reason != authz.ReasonNotApplied || info.Metadata["resource"] != webName || info.Metadata["sequence"] != "2" || broken != 2 {
		t.Errorf("the node's error is %v", n.Error)
	}
	if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Allow {
		t.Errorf("got %+v; want the last good policy's answer", d)
	}
	feed.put(webName, authz.PolicyState{Policy: policy("c", allowIf(onlyPOST))})
	feed.awaitNode(t, func(n *adminpb.Node) bool { return n.Error == nil && n.AppliedSequence == 3 })
}

// TestNodeReportsItsDefaultPolicy: anyone who reads the node can see that there is no such
// policy, and what requests get then.
func TestNodeReportsItsDefaultPolicy(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	other := location.Policy("other")
	feed.put(other, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, func(c *sidecar.Config) { c.Default = authz.Allow })
	testkit.Closed(t, "s is ready", s.Ready())
	n := feed.awaitNode(t, func(n *adminpb.Node) bool { return n.DefaultPolicy != "" })
	if n.DefaultPolicy != webName || !n.DefaultAllow || authz.AbsentDefault(n) != "web" {
		t.Errorf("got default policy %q, allowing %t, absent %q; want %q, allowing, absent",
			n.DefaultPolicy, n.DefaultAllow, authz.AbsentDefault(n), webName)
	}
	sequence := feed.put(webName, authz.PolicyState{Policy: policy("b", allowIf(onlyGET))})
	n = feed.awaitNode(t, func(n *adminpb.Node) bool { return n.AppliedSequence == sequence })
	if got := authz.AbsentDefault(n); got != "" {
		t.Errorf("got %q absent, want none: it is there", got)
	}
}

// TestNoReportHasAChangeWithoutItsFailure watches every report of a sidecar that
// applies what it cannot compile: the control plane would take one with the sequence
// and no error for a success (L-8).
func TestNoReportHasAChangeWithoutItsFailure(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	const changes = 50
	go func() {
		for range changes {
			feed.put(webName, authz.PolicyState{Policy: policy("b", nonsense)})
		}
	}()
	feed.awaitNode(t, func(n *adminpb.Node) bool {
		if n.AppliedSequence > 1 && n.Error == nil {
			t.Fatalf("the change %d is reported as applied", n.AppliedSequence)
		}
		return n.AppliedSequence == 1+changes
	})
}

func TestAFailureEndsWithItsPolicy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		trim bool
	}{{"followed", false}, {"loaded again", true}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			feed := newFeed()
			feed.put(webName, authz.PolicyState{Policy: policy("a", nonsense)})
			s, _ := start(t, feed, nil)
			testkit.Closed(t, "s is ready", s.Ready())
			feed.awaitNode(t, func(n *adminpb.Node) bool { return n.Error != nil })
			feed.mu.Lock()
			feed.trim = c.trim
			feed.mu.Unlock()
			sequence := feed.put(webName, authz.PolicyState{})
			feed.awaitNode(t, func(n *adminpb.Node) bool {
				if n.AppliedSequence == sequence && n.Error != nil {
					t.Fatalf("the failure of a deleted policy is still reported: %v", n.Error)
				}
				return n.AppliedSequence == sequence
			})
		})
	}
}

func TestAPolicyThatNeverCompiledDenies(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy:      policy("bad", nonsense),
		Experiments: []*adminpb.PolicyExperiment{experiment("e", "good", allowIf(onlyGET)), experiment("f", "bad", nonsense)},
	})
	s, rec := start(t, feed, func(c *sidecar.Config) { c.Default = authz.Allow })
	testkit.Closed(t, "s is ready", s.Ready())
	if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Deny || d.Failure == "" || d.Default {
		t.Errorf("got %+v; want a failure", d)
	}
	r := rec.await(t, 1)[0]
	if r.attributes["understudy.policy.name"] != webName || r.attributes["understudy.policy.etag"] != "bad" ||
		r.attributes["understudy.policy.result"] != "ERROR" || r.attributes["understudy.experiment.etag"] != "good" {
		t.Errorf("the record is %v", r.attributes)
	}
	// The change counts as applied when it is known that the experiment cannot be.
	n := feed.awaitNode(t, func(n *adminpb.Node) bool { return n.AppliedSequence == 1 })
	if details := status.FromProto(n.Error).Details(); n.Error.GetCode() != 9 || len(details) != 2 {
		t.Errorf("the node's error is %v; want both resources in it", n.Error)
	}
}

func TestSidecarLeavesItsLocation(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	s, stop := startWith(t, feed, newRecording(), nil)
	testkit.Closed(t, "s is ready", s.Ready())
	n := feed.awaitNode(t, func(*adminpb.Node) bool { return true })
	stop()
	if len(feed.left) != 1 || feed.left[0] != n.Name || n.Name != string(location)+"/nodes/n1" {
		t.Errorf("%v left; the node is %s", feed.left, n.Name)
	}
}

func TestAConfigNeedsItsFeed(t *testing.T) {
	if _, err := sidecar.New(sidecar.Config{Scope: authz.Scope{Location: location}, Node: "n1"}); err == nil {
		t.Error("a sidecar without a feed")
	}
}

func TestSidecarLoadsAgainAfterATrim(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	feed.mu.Lock()
	feed.trim = true
	feed.mu.Unlock()
	feed.awaitApplied(t, feed.put(webName, authz.PolicyState{Policy: policy("b", allowIf(onlyPOST))}))
	if d := s.Check(t.Context(), request("POST", nil)); d.Effect != authz.Allow {
		t.Errorf("got %+v; want the new policy's answer", d)
	}
}

func TestSidecarNoticesThatTheStoreWentBack(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	feed.mu.Lock()
	feed.cursor.Nonce = "another"
	feed.policies[webName] = authz.PolicyState{Policy: policy("b", allowIf(onlyPOST))}
	feed.mu.Unlock()
	testkit.Await(t, "loading what the store has now", func() bool {
		return s.Check(t.Context(), request("POST", nil)).Effect == authz.Allow
	})
}

func TestRouteChoosesThePolicy(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	other := policy("b", allowIf(onlyPOST))
	other.Name = string(location.Policy("other"))
	feed.put(location.Policy("other"), authz.PolicyState{Policy: other})
	s, _ := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	r := request("POST", nil)
	r.Policy = "other"
	if d := s.Check(t.Context(), r); d.Effect != authz.Allow {
		t.Errorf("got %+v; want the route's policy", d)
	}
	r = request("GET", nil)
	r.Policy = "none"
	if d := s.Check(t.Context(), r); d.Effect != authz.Deny || !d.Default {
		t.Errorf("got %+v; want the default decision", d)
	}
}

func TestALiveDecisionRunsOutOfTime(t *testing.T) {
	// An examination may begin, and has as much time as it needs.
	const late = `count([1 | some i in numbers.range(1, 500); some j in numbers.range(1, 500); i + j > 1]) > 0`
	feed, m := newFeed(), newMeter()
	feed.put(webName, authz.PolicyState{
		Policy: policy("live", allowIf(late)), Experiments: []*adminpb.PolicyExperiment{experiment("e", "e", allowIf("true"))},
	})
	s, rec := start(t, feed, func(c *sidecar.Config) { c.DecisionTimeout, c.Meters = time.Millisecond, m })
	testkit.Closed(t, "s is ready", s.Ready())
	d := s.Check(t.Context(), request("GET", nil))
	if d.Effect != authz.Deny || d.Failure != authz.FailureDeadline {
		t.Errorf("got %+v; want a denial for time", d)
	}
	// What an experiment decides in its place is no difference of the policies.
	r := rec.await(t, 1)[0]
	if got := r.attributes; got["understudy.preview.difference"] != "LIVE_FAILED" || got["understudy.preview.reason"] != d.Reason || r.severity != "WARN" {
		t.Errorf("the record is %+v", r)
	}
	if n := m.count(t, "understudy.preview.comparisons", label("difference", "LIVE_FAILED"), label("failure", "DEADLINE_EXCEEDED"), label("policy_result", "ERROR")); n != 1 {
		t.Errorf("%d such comparisons are counted", n)
	}
}

// TestACallerThatLeavesIsNoError: it is counted apart, and no experiment is asked what it
// would have been notified.
func TestACallerThatLeavesIsNoError(t *testing.T) {
	feed, m := newFeed(), newMeter()
	feed.put(webName, authz.PolicyState{
		Policy:      policy("live", allowIf(`input.method == "POST"; `+slow)),
		Experiments: []*adminpb.PolicyExperiment{experiment("e", "e", allowIf(onlyGET))},
	})
	s, rec := start(t, feed, func(c *sidecar.Config) { c.Meters = m })
	testkit.Closed(t, "s is ready", s.Ready())
	ctx, leave := context.WithCancel(t.Context())
	r := request("POST", nil)
	source := r.Source
	r.Source = func(*authz.ReadBudget) (rego.Input, error) { leave(); return source(nil) }
	if d := s.Check(ctx, r); d.Effect != authz.Deny || d.Failure != authz.FailureCanceled || d.Result() != "CANCELLED" {
		t.Errorf("got %+v; want it cancelled", d)
	}
	s.Check(t.Context(), request("GET", nil))
	rec.await(t, 1)
	if n := m.count(t, "understudy.checks", label("result", "CANCELLED"), label("failure", "CANCELLED")); n != 1 {
		t.Errorf("%d checks are counted as cancelled, want 1", n)
	}
	if n := m.count(t, "understudy.checks", label("result", "ERROR")); n != 0 {
		t.Errorf("%d checks are counted as errors, want none", n)
	}
	if n := m.count(t, "understudy.preview.comparisons"); n != 1 {
		t.Errorf("%d comparisons were made, want that of the one who waited", n)
	}
}

// TestNoRecordPairsANewEtagWithAnOldDecision swaps the live policy under load; the
// etag says what the policy decides.
func TestNoRecordPairsANewEtagWithAnOldDecision(t *testing.T) {
	state := func(i int) authz.PolicyState {
		if i%2 == 0 {
			return authz.PolicyState{
				Policy:      policy("allows", allowIf(onlyGET)),
				Experiments: []*adminpb.PolicyExperiment{experiment("e", "denies", allowIf(onlyPOST))},
			}
		}
		return authz.PolicyState{
			Policy:      policy("denies", allowIf(onlyPOST)),
			Experiments: []*adminpb.PolicyExperiment{experiment("e", "allows", allowIf(onlyGET))},
		}
	}
	feed := newFeed()
	feed.put(webName, state(0))
	m := newMeter()
	s, rec := start(t, feed, func(c *sidecar.Config) { c.Meters, c.Preview.Queue = m, 100_000 })
	testkit.Closed(t, "s is ready", s.Ready())
	const requests = 500
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for range requests {
				s.Check(context.Background(), request("GET", nil))
			}
		})
	}
	for i := range 40 {
		feed.awaitApplied(t, feed.put(webName, state(i+1)))
	}
	load.Wait()
	s.Check(t.Context(), request("GET", nil))
	// What waited for an experiment that was changed is dropped, and counted.
	const all = 4*requests + 1
	testkit.Await(t, "making all comparisons", func() bool {
		return m.count(t, "understudy.preview.comparisons")+m.count(t, "understudy.preview.dropped", label("reason", "changed")) == all
	})
	says := map[string]string{"allows": "ALLOW", "denies": "DENY"}
	for _, r := range rec.await(t, int(m.count(t, "understudy.preview.comparisons"))) {
		for _, side := range []string{"policy", "experiment"} {
			etag, result := r.attributes["understudy."+side+".etag"], r.attributes["understudy."+side+".result"]
			if says[etag] != result {
				t.Fatalf("the %s with the etag %q decided %s", side, etag, result)
			}
		}
		if r.attributes["understudy.policy.etag"] == r.attributes["understudy.experiment.etag"] {
			t.Fatal("a record pairs two versions that never were together")
		}
	}
}
