package sidecar_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

func TestEachExperimentIsRecorded(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy: policy("live", allowIf(onlyGET)),
		Experiments: []*adminpb.PolicyExperiment{
			experiment("delete", "d", ""), experiment("post", "p", allowIf(onlyPOST)), experiment("same", "s", allowIf(onlyGET)),
		},
	})
	s, rec := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
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
		if !strings.HasPrefix(r.body, "PolicyPreviewLog {") || r.event != rehearsal.EventPreview {
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

// TestTheWholeRecord pins what a record has, and by that all that it has not.
func TestTheWholeRecord(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy: policy("W/live", allowIf(onlyGET)),
		Experiments: []*adminpb.PolicyExperiment{
			experiment("e", "W/e", `package envoy.authz
allow := {"allowed": false, "labels": {"user": "u1", "none": 1}, "reason": "not <that>", "http_status": 401, "headers": {"x-secret": input.token}, "body": input.token}`),
		},
	})
	s, rec := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true,
	}))
	r := request("GET", map[string]any{"token": "secret", "body": "secret", "query": "secret"})
	r.ID, r.Time, r.Host, r.Path, r.Principal = "d1", time.Unix(1_700_000_000, 5), "shop.example", "/cart", "spiffe://x/web"
	s.Check(ctx, r)
	want := record{
		body: `PolicyPreviewLog {"policy":"` + webName + `","policy_etag":"W/live","policy_result":"ALLOW",` +
			`"experiment":"` + webName + `/experiments/e","experiment_etag":"W/e","experiment_result":"DENY",` +
			`"difference":"NEWLY_DENIED","rule":"main","reason":"not \u003cthat\u003e",` +
			`"experiment_status":401,"experiment_rule":"main","experiment_reason":"not \u003cthat\u003e","labels":{"user":"u1"}}`,
		severity: "WARN", event: "understudy.policy.preview", time: time.Unix(1_700_000_000, 5),
		traceID: "01000000000000000000000000000000", spanID: "0200000000000000",
		attributes: map[string]string{
			"understudy.policy.name":        webName,
			"understudy.policy.etag":        "W/live",
			"understudy.policy.result":      "ALLOW",
			"understudy.experiment.name":    webName + "/experiments/e",
			"understudy.experiment.etag":    "W/e",
			"understudy.experiment.result":  "DENY",
			"understudy.experiment.status":  "401",
			"understudy.experiment.rule":    "main",
			"understudy.experiment.reason":  "not <that>",
			"understudy.label.user":         "u1",
			"understudy.preview.difference": "NEWLY_DENIED",
			"understudy.preview.differs":    "true",
			"understudy.preview.rule":       "main",
			"understudy.preview.reason":     "not <that>",
			"understudy.decision_id":        "d1",
			"understudy.location":           string(location),
			"understudy.node":               "n1",
			"understudy.principal":          "spiffe://x/web",
			"http.request.method":           "GET",
			"url.path":                      "/cart",
			"understudy.path_pattern":       "/cart",
			"server.address":                "shop.example",
		},
	}
	if diff := cmp.Diff(want, rec.await(t, 1)[0], cmp.AllowUnexported(record{})); diff != "" {
		t.Error(diff)
	}
}

// TestBothSidesAreExplained: what each side decided, by which rule and why, what changed in
// the response by name alone, and whose request it was, by the live policy's labels.
func TestBothSidesAreExplained(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy: policy("W/live", `package envoy.authz
allow := {"allowed": false, "reason": "the live one", "body": "secret-a", "headers": {"x-role": "secret-b", "x-same": "1"}, "labels": {"user": "ann"}}`),
		Experiments: []*adminpb.PolicyExperiment{experiment("e", "W/e", `package envoy.authz
allow := {"allowed": false, "reason": "the other", "http_status": 429, "headers": {"x-role": "secret-c", "x-same": "1"},
	"dynamic_metadata": {"tenant": "secret-d"}, "labels": {"user": "not me", "zone": "nor me"}}`)},
	})
	s, rec := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	for range 2 { // made, and cached
		s.Check(t.Context(), request("GET", nil))
	}
	for _, r := range rec.await(t, 2) {
		const changed = "body, metadata tenant, response header x-role, status"
		got := make(map[string]string)
		for key, value := range r.attributes {
			if strings.HasPrefix(key, "understudy.label.") || strings.HasPrefix(key, "understudy.p") || strings.HasPrefix(key, "understudy.e") {
				got[strings.TrimPrefix(key, "understudy.")] = value
			}
		}
		want := map[string]string{
			"policy.name": webName, "policy.etag": "W/live", "policy.result": "DENY", "policy.status": "403",
			"policy.rule": "main", "policy.reason": "the live one",
			"experiment.name": webName + "/experiments/e", "experiment.etag": "W/e", "experiment.result": "DENY", "experiment.status": "429",
			"experiment.rule": "main", "experiment.reason": "the other",
			"preview.difference": "RESPONSE_CHANGED", "preview.differs": "true", "preview.changed": changed,
			"preview.rule": "main", "preview.reason": "the other",
			"principal": r.attributes["understudy.principal"], "label.user": "ann", "path_pattern": "/x",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		const body = `"difference":"RESPONSE_CHANGED","rule":"main","reason":"the other",` +
			`"changed":["body","metadata tenant","response header x-role","status"],` +
			`"policy_status":403,"policy_rule":"main","policy_reason":"the live one",` +
			`"experiment_status":429,"experiment_rule":"main","experiment_reason":"the other","labels":{"user":"ann"}}`
		if !strings.HasSuffix(r.body, body) || strings.Contains(r.body, "secret") {
			t.Errorf("the body is %s", r.body)
		}
	}
}

// TestEachRequestHasItsLabels: decisions that differ in nothing else are not one for
// records, whether they are cached or not, though Envoy gets the same.
func TestEachRequestHasItsLabels(t *testing.T) {
	const module = `package envoy.authz
allow := {"allowed": true, "labels": {"user": input.user}}`
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("W/live", module), Experiments: []*adminpb.PolicyExperiment{experiment("e", "W/e", allowIf("true"))}})
	s, rec := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	for round := range 3 {
		for _, user := range []string{"ann", "bob"} {
			document := map[string]any{"user": user}
			r := request("GET", document)
			if r.ID = user; round > 0 {
				r.Parts = asked(document).parts // made, and then found in the cache
			}
			s.Check(t.Context(), r)
		}
	}
	for _, r := range rec.await(t, 6) {
		if got, want := r.attributes["understudy.label.user"], r.attributes["understudy.decision_id"]; got != want {
			t.Errorf("the label is %q, want %q", got, want)
		}
		if r.attributes["understudy.preview.difference"] != "UNCHANGED" {
			t.Errorf("the difference is %s, want UNCHANGED: labels are not compared", r.attributes["understudy.preview.difference"])
		}
	}
}

// TestIgnoredLabelsAreCounted, by policy and by experiment, and change no decision: a policy
// may have a field of that name already.
func TestIgnoredLabelsAreCounted(t *testing.T) {
	feed, m := newFeed(), newMeter()
	feed.put(webName, authz.PolicyState{
		Policy: policy("W/live", `package envoy.authz
allow := {"allowed": true, "labels": ["of", "its", "own"]}`),
		Experiments: []*adminpb.PolicyExperiment{
			experiment("good", "g", "package envoy.authz\nallow := {\"allowed\": true, \"labels\": {\"user\": \"ann\"}}"),
			experiment("bad", "b", "package envoy.authz\nallow := {\"allowed\": true, \"labels\": {\"user\": 1}}"),
		},
	})
	s, rec := start(t, feed, func(c *sidecar.Config) { c.Meters = m })
	testkit.Closed(t, "s is ready", s.Ready())
	for range 3 {
		if d := s.Check(t.Context(), request("GET", nil)); d.Result() != "ALLOW" {
			t.Errorf("the decision is %s: %s", d.Result(), d.Reason)
		}
	}
	for _, r := range rec.await(t, 6) {
		if r.attributes["understudy.preview.difference"] != "UNCHANGED" {
			t.Errorf("the difference is %s, want UNCHANGED", r.attributes["understudy.preview.difference"])
		}
		if want := map[string]string{"g": "ann"}[r.attributes["understudy.experiment.etag"]]; r.attributes["understudy.label.user"] != want {
			t.Errorf("the label is %q, want %q", r.attributes["understudy.label.user"], want)
		}
	}
	if got := m.count(t, "understudy.labels.ignored", label("policy", "web")); got != 3 {
		t.Errorf("%d live decisions are counted, want 3", got)
	}
	for experiment, want := range map[string]int64{"web/good": 0, "web/bad": 3} {
		if got := m.count(t, "understudy.preview.labels.ignored", label("experiment", experiment)); got != want {
			t.Errorf("%d decisions of %s are counted, want %d", got, experiment, want)
		}
	}
}

// TestWhatACallerTypedIsTamed sends what could forge a line of a log or a terminal's
// output.
func TestWhatACallerTypedIsTamed(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy:      policy("a", allowIf(onlyGET)),
		Experiments: []*adminpb.PolicyExperiment{experiment("e", "b", allowIf(onlyPOST))},
	})
	s, rec := start(t, feed, nil)
	testkit.Closed(t, "s is ready", s.Ready())
	r := request("GET", nil)
	r.Path = "/a\nPolicyPreviewLog {}\x1b[2J\u202e\u2028\xff"
	r.Host = strings.Repeat("ä", 10_000)
	r.Method = "GET\r\n"
	s.Check(t.Context(), r)
	got := rec.await(t, 1)[0].attributes
	const gone = "\uFFFD"
	if want := "/a" + gone + "PolicyPreviewLog {}" + gone + "[2J" + gone + gone + gone; got["url.path"] != want {
		t.Errorf("the path is %q, want %q", got["url.path"], want)
	}
	if want := "GET" + gone + gone; got["http.request.method"] != want {
		t.Errorf("the method is %q, want %q", got["http.request.method"], want)
	}
	if host := got["server.address"]; len(host) > 3000 || !utf8.ValidString(host) {
		t.Errorf("the host has %d bytes; want it cut", len(host))
	}
}
