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
allow := {"allowed": false, "reason": "not <that>", "http_status": 401, "headers": {"x-secret": input.token}, "body": input.token}`),
		},
	})
	s, rec := start(t, feed, nil)
	<-s.Ready()
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true,
	}))
	r := request("GET", map[string]any{"token": "secret", "body": "secret", "query": "secret"})
	r.ID, r.Time, r.Host, r.Path, r.Principal = "d1", time.Unix(1_700_000_000, 5), "shop.example", "/cart", "spiffe://x/web"
	s.Check(ctx, r)
	want := record{
		body: `PolicyPreviewLog {"policy":"` + webName + `","policy_etag":"W/live","policy_result":"ALLOW",` +
			`"experiment":"` + webName + `/experiments/e","experiment_etag":"W/e","experiment_result":"DENY",` +
			`"difference":"NEWLY_DENIED","rule":"main","reason":"not \u003cthat\u003e"}`,
		severity: "WARN", event: "understudy.policy.preview", time: time.Unix(1_700_000_000, 5),
		traceID: "01000000000000000000000000000000", spanID: "0200000000000000",
		attributes: map[string]string{
			"understudy.policy.name":        webName,
			"understudy.policy.etag":        "W/live",
			"understudy.policy.result":      "ALLOW",
			"understudy.experiment.name":    webName + "/experiments/e",
			"understudy.experiment.etag":    "W/e",
			"understudy.experiment.result":  "DENY",
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
			"server.address":                "shop.example",
		},
	}
	if diff := cmp.Diff(want, rec.await(t, 1)[0], cmp.AllowUnexported(record{})); diff != "" {
		t.Error(diff)
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
	<-s.Ready()
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
