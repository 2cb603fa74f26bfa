package sidecar_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"understudy/authz"
	"understudy/authz/diagnostics/logtest"
	"understudy/authz/extservice"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// TestCallsAreObservable is Z-20: a span of each call, in the trace of the request and
// passed on to the service; the metrics are proven with the response cases.
func TestCallsAreObservable(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	service := newService(t, answers(500))
	s, _ := deciding(t, rules("", serviceRule(service.URL, false)), func(c *sidecar.Config) {
		c.External.Tracer = provider.Tracer("test")
	})
	id := trace.TraceID{1}
	r := envoys("GET")
	r.Span = func() trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	}
	s.Check(t.Context(), r)
	got := spans.GetSpans()
	if len(got) != 1 || got[0].SpanContext.TraceID() != id || got[0].Status.Description != "status" {
		t.Fatalf("the spans are %+v", got)
	}
	attributes := attribute.NewSet(got[0].Attributes...)
	for key, want := range map[attribute.Key]string{
		"server.address": "127.0.0.1", "url.path": "/v1/check", "http.response.status_code": "500", "understudy.external.outcome": "status",
	} {
		if value, _ := attributes.Value(key); value.String() != want {
			t.Errorf("%s is %q, want %q", key, value.String(), want)
		}
	}
	if parent := service.calls()[0].header.Get("Traceparent"); !strings.Contains(parent, got[0].SpanContext.SpanID().String()) {
		t.Errorf("the service gets the span %q", parent)
	}
}

// TestHostsOfMetricsAreBounded calls more hosts than metrics distinguish.
func TestHostsOfMetricsAreBounded(t *testing.T) {
	t.Parallel()
	const hosts = 110
	m, feed := newMeter(), newFeed()
	for i := range hosts {
		id := fmt.Sprintf("p%d", i)
		feed.put(location.Policy(authz.PolicyID(id)), authz.PolicyState{
			Policy: rules("", serviceRule("http://"+id+".invalid", false)),
		})
	}
	s, _ := start(t, feed, func(c *sidecar.Config) {
		c.Meters = m
		noNames(&c.External)
	})
	testkit.Closed(t, "s is ready", s.Ready())
	for i := range hosts {
		r := envoys("GET")
		r.Policy = authz.PolicyID(fmt.Sprintf("p%d", i))
		s.Check(t.Context(), r)
	}
	if got := m.count(t, "understudy.external.calls", label("host", "other")); got != 10 {
		t.Errorf("%d calls of other hosts, want 10", got)
	}
	if got := m.count(t, "understudy.external.calls", label("host", "p0.invalid")); got != 1 {
		t.Errorf("%d calls of the first host, want 1", got)
	}
}

// TestAServiceThatFailsIsLoggedOnce logs the changes, and nothing that the service or
// the request says.
func TestAServiceThatFailsIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	service := newService(t, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(500)
		} else {
			w.WriteHeader(403)
		}
		_, _ = io.WriteString(w, `{"message": "s3cr3t"}`)
	})
	out := &logtest.Buffer{}
	s, _ := deciding(t, rules("", serviceRule(service.URL, false)), func(c *sidecar.Config) {
		c.Logger = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.External.Tokens = map[string]extservice.TokenSource{"http://127.0.0.1": func() (string, error) { return "s3cr3t", nil }}
	})
	for _, state := range []bool{true, true, false, false, true} {
		down.Store(state)
		r := lease(creation, time.Hour)
		r.Reservation.Lease["name"] = "s3cr3t"
		s.Check(t.Context(), r)
	}
	if got := strings.Count(out.String(), "gives no decisions"); got != 2 {
		t.Errorf("the failure is logged %d times, want 2", got)
	}
	if got := strings.Count(out.String(), "decides again"); got != 1 {
		t.Errorf("the return is logged %d times, want 1", got)
	}
	if strings.Contains(out.String(), "s3cr3t") {
		t.Error("the log has something secret in it")
	}
}

// TestWrongConfigurations are refused at once.
func TestWrongConfigurations(t *testing.T) {
	for name, c := range map[string]extservice.Config{
		"a negative time":   {Timeout: -1},
		"a negative number": {Concurrency: -1},
		"no host":           {Tokens: map[string]extservice.TokenSource{"": func() (string, error) { return "", nil }}},
		"no source":         {Tokens: map[string]extservice.TokenSource{"a": nil}},
	} {
		_, err := sidecar.New(sidecar.Config{Feed: newFeed(), Scope: authz.Scope{Location: location}, Node: "n1", External: c})
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestADecisionBesideTheRulesHasNoPath reads the event of a request that no rule was
// asked about, and of one that a built-in filter decided.
func TestADecisionBesideTheRulesHasNoPath(t *testing.T) {
	t.Parallel()
	live := rules(someRules, regoRule("m/yes"), lengthRule(time.Minute))
	live.ExemptedProjects = []string{"q"}
	events := newRecording()
	s, _ := deciding(t, live, logTo(events))
	exempt := lease(creation, time.Hour)
	exempt.Reservation.Project = "q"
	for i, r := range []*authz.Request{exempt, lease(creation, time.Hour)} {
		s.Check(t.Context(), r)
		body := events.await(t, 1)[i].body
		if want := fmt.Sprintf(`"result":%v`, i == 0); strings.Contains(body, `"path":"m/`) || !strings.Contains(body, want) {
			t.Errorf("the event is %s; want %s and no path", body, want)
		}
	}
}
