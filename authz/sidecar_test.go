package authz_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

const (
	onlyGET  = `input.method == "GET"`
	onlyPOST = `input.method == "POST"`
)

func TestSidecarDeniesUntilItHasPolicies(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.down = true
	s, _ := start(t, feed, func(c *authz.Config) { c.Default = authz.Allow })
	d := s.Check(t.Context(), request("GET", nil))
	if d.Verdict != authz.Deny || d.Failure != authz.FailureNotReady {
		t.Errorf("got %+v; want a denial, not ready", d)
	}
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	feed.setDown(false)
	<-s.Ready()
	if d := s.Check(t.Context(), request("GET", nil)); d.Verdict != authz.Allow {
		t.Errorf("got %+v; want it allowed", d)
	}
}

func TestSidecarFollowsChanges(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	<-s.Ready()
	for _, step := range []struct {
		name  string
		state authz.PolicyState
		get   authz.Verdict
		post  authz.Verdict
	}{
		{"another content", authz.PolicyState{Policy: policy("b", allowIf(onlyPOST))}, authz.Deny, authz.Allow},
		{"deleted", authz.PolicyState{}, authz.Deny, authz.Deny},
		{"back", authz.PolicyState{Policy: policy("c", allowIf(onlyGET))}, authz.Allow, authz.Deny},
		{"no rules", authz.PolicyState{Policy: policy("d", "")}, authz.Deny, authz.Deny},
	} {
		feed.awaitApplied(t, feed.put(webName, step.state))
		if got := s.Check(t.Context(), request("GET", nil)).Verdict; got != step.get {
			t.Errorf("%s: GET is %v, want %v", step.name, got, step.get)
		}
		if got := s.Check(t.Context(), request("POST", nil)).Verdict; got != step.post {
			t.Errorf("%s: POST is %v, want %v", step.name, got, step.post)
		}
	}
}

func TestSidecarKeepsItsPoliciesWhenTheStoreIsLost(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	<-s.Ready()
	feed.setDown(true)
	for s.Status().Lost == nil {
		if t.Context().Err() != nil {
			t.Fatal("the loss was not noticed")
		}
	}
	if d := s.Check(t.Context(), request("GET", nil)); d.Verdict != authz.Allow {
		t.Errorf("got %+v; want the last policy's answer", d)
	}
	if status := s.Status(); !status.Ready {
		t.Error("a sidecar that decides is ready")
	}
	sequence := feed.put(webName, authz.PolicyState{Policy: policy("b", allowIf(onlyPOST))})
	feed.setDown(false)
	feed.awaitApplied(t, sequence)
	if d := s.Check(t.Context(), request("POST", nil)); d.Verdict != authz.Allow {
		t.Errorf("got %+v; want the new policy's answer", d)
	}
}

func TestSidecarStartsFromItsFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "snapshot")
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	t.Run("write", func(t *testing.T) {
		s, _ := start(t, feed, func(c *authz.Config) { c.SnapshotFile = file })
		<-s.Ready()
	})
	feed.setDown(true)
	t.Run("read", func(t *testing.T) {
		s, _ := start(t, feed, func(c *authz.Config) { c.SnapshotFile = file })
		<-s.Ready()
		if d := s.Check(t.Context(), request("GET", nil)); d.Verdict != authz.Allow {
			t.Errorf("got %+v; want the saved policy's answer", d)
		}
	})
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)-1] ^= 1
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("corrupt", func(t *testing.T) {
		s, _ := start(t, feed, func(c *authz.Config) { c.SnapshotFile = file })
		for s.Status().Lost == nil {
			if t.Context().Err() != nil {
				t.Fatal("the store was not asked")
			}
		}
		if d := s.Check(t.Context(), request("GET", nil)); d.Failure != authz.FailureNotReady {
			t.Errorf("got %+v; want not ready", d)
		}
	})
}

func TestSidecarReportsWhatItCannotApply(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	<-s.Ready()
	broken := feed.put(webName, authz.PolicyState{Policy: policy("b", "package envoy.authz\nallow := nonsense(")})
	n := feed.awaitNode(t, func(n *adminpb.Node) bool { return n.Error != nil })
	info, ok := status.FromProto(n.Error).Details()[0].(*errdetails.ErrorInfo)
	if !ok || info.Reason != authz.ReasonNotApplied || info.Metadata["resource"] != webName || info.Metadata["sequence"] != "2" || broken != 2 {
		t.Errorf("the node's error is %v", n.Error)
	}
	if d := s.Check(t.Context(), request("GET", nil)); d.Verdict != authz.Allow {
		t.Errorf("got %+v; want the last good policy's answer", d)
	}
	feed.put(webName, authz.PolicyState{Policy: policy("c", allowIf(onlyPOST))})
	feed.awaitNode(t, func(n *adminpb.Node) bool { return n.Error == nil && n.AppliedSequence == 3 })
}

func TestSidecarLoadsAgainAfterATrim(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	<-s.Ready()
	feed.mu.Lock()
	feed.trim = true
	feed.mu.Unlock()
	feed.awaitApplied(t, feed.put(webName, authz.PolicyState{Policy: policy("b", allowIf(onlyPOST))}))
	if d := s.Check(t.Context(), request("POST", nil)); d.Verdict != authz.Allow {
		t.Errorf("got %+v; want the new policy's answer", d)
	}
}

func TestSidecarNoticesThatTheStoreWentBack(t *testing.T) {
	t.Parallel()
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	s, _ := start(t, feed, nil)
	<-s.Ready()
	feed.mu.Lock()
	feed.cursor.Nonce = "another"
	feed.policies[webName] = authz.PolicyState{Policy: policy("b", allowIf(onlyPOST))}
	feed.mu.Unlock()
	for s.Check(t.Context(), request("POST", nil)).Verdict != authz.Allow {
		if t.Context().Err() != nil {
			t.Fatal("the store's state was not loaded")
		}
	}
}

func TestRouteChoosesThePolicy(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
	other := policy("b", allowIf(onlyPOST))
	other.Name = string(location.Policy("other"))
	feed.put(location.Policy("other"), authz.PolicyState{Policy: other})
	s, _ := start(t, feed, nil)
	<-s.Ready()
	r := request("POST", nil)
	r.Policy = "other"
	if d := s.Check(t.Context(), r); d.Verdict != authz.Allow {
		t.Errorf("got %+v; want the route's policy", d)
	}
	r = request("GET", nil)
	r.Policy = "none"
	if d := s.Check(t.Context(), r); d.Verdict != authz.Deny || !d.Default {
		t.Errorf("got %+v; want the default decision", d)
	}
}

func TestEachExperimentIsRecorded(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy: policy("live", allowIf(onlyGET)),
		Experiments: []*adminpb.PolicyExperiment{
			experiment("delete", "d", ""), experiment("post", "p", allowIf(onlyPOST)), experiment("same", "s", allowIf(onlyGET)),
		},
	})
	s, rec := start(t, feed, nil)
	<-s.Ready()
	traceID := trace.TraceID{1, 2, 3}
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: trace.SpanID{4}, Remote: true,
	}))
	s.Check(ctx, request("GET", map[string]any{"token": "secret"}))
	for _, r := range rec.await(t, 3) {
		want := map[string][4]string{
			"delete": {"DENY", "NEWLY_DENIED", "WARN", "d"},
			"post":   {"DENY", "NEWLY_DENIED", "WARN", "p"},
			"same":   {"ALLOW", "UNCHANGED", "INFO", "s"},
		}[r.attributes["understudy.experiment.name"][len(webName+"/experiments/"):]]
		got := [4]string{
			r.attributes["understudy.experiment.result"], r.attributes["understudy.preview.difference"], r.severity,
			r.attributes["understudy.experiment.etag"],
		}
		if got != want {
			t.Errorf("%s: got %v, want %v", r.attributes["understudy.experiment.name"], got, want)
		}
		if !strings.HasPrefix(r.body, "PolicyPreviewLog {") || r.event != authz.EventPreview {
			t.Errorf("the record is %q of event %q", r.body, r.event)
		}
		if r.attributes["understudy.policy.etag"] != "live" || r.attributes["understudy.policy.result"] != "ALLOW" {
			t.Errorf("the live side is %v", r.attributes)
		}
		if r.traceID != traceID.String() {
			t.Errorf("the trace is %s, want %s", r.traceID, traceID)
		}
		if strings.Contains(r.body, "secret") {
			t.Error("a record has something secret in it")
		}
	}
}

// slow is a condition that takes far longer than any deadline, but heeds it.
const slow = `count([1 | some i in numbers.range(1, 3000); some j in numbers.range(1, 3000); i + j > 1]) > 0`

// TestALoopingExperimentDelaysNothing sends live requests while the evaluation of
// an experiment is provably under way: it has asked for the input, and its record
// has not come.
func TestALoopingExperimentDelaysNothing(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy:      policy("live", ""),
		Experiments: []*adminpb.PolicyExperiment{experiment("slow", "s", allowIf(slow))},
	})
	s, rec := start(t, feed, func(c *authz.Config) {
		c.Default = authz.Allow
		c.Preview = authz.PreviewConfig{Workers: 1, Queue: 1, Timeout: time.Hour}
	})
	<-s.Ready()
	begun := make(chan struct{})
	r := request("GET", nil)
	source := r.Source
	r.Source = func() (rego.Input, error) { close(begun); return source() }
	s.Check(t.Context(), r)
	<-begun
	for range 100 {
		if d := s.Check(t.Context(), request("GET", nil)); d.Verdict != authz.Allow {
			t.Fatalf("got %+v; want it allowed", d)
		}
	}
	select {
	case <-rec.arrived:
		t.Error("the experiment was done before the live requests: the test shows nothing")
	default:
	}
}

func TestAnExperimentRunsOutOfTime(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy:      policy("live", allowIf(onlyGET)),
		Experiments: []*adminpb.PolicyExperiment{experiment("slow", "s", allowIf(slow))},
	})
	s, rec := start(t, feed, func(c *authz.Config) { c.Preview = authz.PreviewConfig{Timeout: time.Millisecond} })
	<-s.Ready()
	s.Check(t.Context(), request("GET", nil))
	r := rec.await(t, 1)[0]
	if r.attributes["understudy.experiment.result"] != "ERROR" || r.severity != "ERROR" || r.attributes["understudy.preview.difference"] != "FAILED" {
		t.Errorf("the record is %v", r)
	}
}

func TestALiveDecisionRunsOutOfTime(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("live", allowIf(slow))})
	s, _ := start(t, feed, func(c *authz.Config) { c.DecisionTimeout = time.Millisecond })
	<-s.Ready()
	if d := s.Check(t.Context(), request("GET", nil)); d.Verdict != authz.Deny || d.Failure != authz.FailureDeadline {
		t.Errorf("got %+v; want a denial for time", d)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d := s.Check(ctx, request("GET", nil)); d.Verdict != authz.Deny {
		t.Errorf("got %+v; want a denial", d)
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
	s, rec := start(t, feed, func(c *authz.Config) { c.Preview.Queue = 100_000 })
	<-s.Ready()
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
	says := map[string]string{"allows": "ALLOW", "denies": "DENY"}
	for _, r := range rec.await(t, 4*requests) {
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
