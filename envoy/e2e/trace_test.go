//go:build realenvoy

package e2e_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"understudy/cmd/testkit"
)

// collector gets what Envoy and Understudy export.
type collector struct {
	collogspb.UnimplementedLogsServiceServer
	address string

	mu      sync.Mutex
	spans   []*tracepb.Span
	records []*logspb.LogRecord
	more    chan struct{} // closed and made anew with each export
}

// traceService is the collector's other service; both have a method Export.
type traceService struct {
	coltracepb.UnimplementedTraceServiceServer
	*collector
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{more: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.address = l.Addr().String()
	server := grpc.NewServer()
	collogspb.RegisterLogsServiceServer(server, c)
	coltracepb.RegisterTraceServiceServer(server, traceService{collector: c})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return c
}

func (c *collector) Export(_ context.Context, r *collogspb.ExportLogsServiceRequest) (*collogspb.ExportLogsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			c.records = append(c.records, slices.DeleteFunc(scope.GetLogRecords(), ofTheAPI)...)
		}
	}
	c.signal()
	return &collogspb.ExportLogsServiceResponse{}, nil
}

func (s traceService) Export(_ context.Context, r *coltracepb.ExportTraceServiceRequest) (*coltracepb.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range r.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			s.spans = append(s.spans, scope.GetSpans()...)
		}
	}
	s.signal()
	return &coltracepb.ExportTraceServiceResponse{}, nil
}

func (c *collector) signal() {
	close(c.more)
	c.more = make(chan struct{})
}

// await waits until what has arrived is enough.
func (c *collector) await(t *testing.T, what string, enough func() bool) {
	t.Helper()
	late := time.After(testkit.Patience)
	for {
		c.mu.Lock()
		done, more := enough(), c.more
		c.mu.Unlock()
		if done {
			return
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("waited %s for: %s; there are %d spans and %d records", testkit.Patience, what, len(c.spans), len(c.records))
		}
	}
}

// called returns the spans of a name, by their IDs.
func (c *collector) called(name string) map[string]*tracepb.Span {
	out := make(map[string]*tracepb.Span)
	for _, s := range c.spans {
		if s.GetName() == name {
			out[hex.EncodeToString(s.GetSpanId())] = s
		}
	}
	return out
}

// tracing makes an Envoy trace all that is sampled.
func tracing(t *testing.T, c *config, to *collector) {
	t.Helper()
	host, port := split(t, to.address)
	c.add(t, "clusters", node{
		"name": "collector", "type": "STATIC", "connect_timeout": "60s",
		"typed_extension_protocol_options": node{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": node{
			"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": node{"http2_protocol_options": node{}},
		}},
		"load_assignment": node{"cluster_name": "collector", "endpoints": []any{node{"lb_endpoints": []any{node{
			"endpoint": node{"address": node{"socket_address": node{"address": host, "port_value": port}}},
		}}}}},
	})
	manager(t, c.listener(t, "ingress"))["tracing"] = node{
		"random_sampling": node{"value": 100},
		"provider": node{"name": "envoy.tracers.opentelemetry", "typed_config": node{
			"@type":        "type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig",
			"service_name": "ingress", "grpc_service": node{"envoy_grpc": node{"cluster_name": "collector"}, "timeout": "60s"},
		}},
	}
	// Spans would be exported by fives, or every five seconds.
	c.tree["layered_runtime"] = node{"layers": []any{node{"name": "static", "static_layer": node{"tracing.opentelemetry.min_flush_spans": 1}}}}
}

// TestTraces: with Envoy's tracer every record, decision and span of Understudy's is in
// Envoy's trace, below Envoy's span of the check; a trace that is not sampled loses its
// spans and nothing else.
func TestTraces(t *testing.T) {
	t.Parallel()
	to := newCollector(t)
	s := prepareSidecar(t, "--decision-log", "otel")
	s.variables = []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + to.address, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_METRICS_EXPORTER=none",
		"OTEL_BLRP_SCHEDULE_DELAY=20", "OTEL_BSP_SCHEDULE_DELAY=20",
	}
	s.begin(t)
	s.ready(t)
	s.apply(t, "web", "testdata/web.rego")
	s.rehearse(t, "web", "testdata/nobody.rego")
	c := shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz)
	tracing(t, c, to)
	e := newEnvoy(t, c)
	const each, unsampled = 4, "0af7651916cd43dd8448eb211c80319c"
	logged := make(map[string]map[string]any) // decision ID :: the line of the access log
	for i := range each {
		sampled := fmt.Sprintf("traceparent: 00-%032x-%016x-01", i+1, i+1)
		for _, header := range [][]string{nil, {sampled}, {"traceparent: 00-" + unsampled + "-00f067aa0ba902b7-00"}} {
			from := e.out.count()
			ask(t, e.at["ingress"], "GET", "/public/traced", nil, header...)
			line := e.line(t, from, `"/public/traced"`)
			logged[line["decision_id"].(string)] = line
		}
	}
	to.await(t, "a record and a decision of each request, and three spans of each that is sampled", func() bool {
		return len(to.records) >= 2*3*each && len(to.called("authz check")) >= 2*each &&
			len(to.called("async envoy.service.auth.v3.Authorization.Check egress")) >= 2*each && len(to.called("ingress")) >= 2*each
	})
	to.mu.Lock()
	defer to.mu.Unlock()
	to.check(t, logged, unsampled, each)
}

// check looks at everything that has arrived.
func (c *collector) check(t *testing.T, logged map[string]map[string]any, unsampled string, each int) {
	t.Helper()
	checks, calls, ingress := c.called("authz check"), c.called("async envoy.service.auth.v3.Authorization.Check egress"), c.called("ingress")
	if len(checks) != 2*each || len(calls) != 2*each || len(ingress) != 2*each {
		t.Errorf("there are %d spans of checks, %d of calls and %d of requests; want %d of each", len(checks), len(calls), len(ingress), 2*each)
	}
	for _, check := range checks {
		call := calls[hex.EncodeToString(check.GetParentSpanId())]
		if call == nil || string(call.GetTraceId()) != string(check.GetTraceId()) || ingress[hex.EncodeToString(call.GetParentSpanId())] == nil {
			t.Errorf("a check is not below Envoy's span of the call: %v", check)
		}
	}
	outside := 0
	for _, r := range c.records {
		trace := hex.EncodeToString(r.GetTraceId())
		line := logged[decisionOf(t, r)]
		if line["trace"] != trace {
			t.Errorf("%s is in the trace %s; the access log has %v", r.GetEventName(), trace, line)
		}
		if id := attributeOf(r, "understudy.request_id"); id == "" || line["request_id"] != id {
			t.Errorf("%s has the request ID %q; the access log has %v", r.GetEventName(), id, line)
		}
		if trace == unsampled {
			outside++
			continue
		}
		if checks[hex.EncodeToString(r.GetSpanId())] == nil {
			t.Errorf("%s is in no span of a check", r.GetEventName())
		}
	}
	if outside != 2*each {
		t.Errorf("there are %d records of requests that are not sampled; want %d", outside, 2*each)
	}
}

// ofTheAPI reports whether a record is about a call of the admin API, and no request.
func ofTheAPI(r *logspb.LogRecord) bool { return r.GetEventName() == "understudy.admin.audit" }

// decisionOf returns the decision ID of a preview record or of a decision.
func decisionOf(t *testing.T, r *logspb.LogRecord) string {
	t.Helper()
	if id := attributeOf(r, "understudy.decision_id"); id != "" {
		return id
	}
	var event struct {
		ID string `json:"decision_id"`
	}
	if err := json.Unmarshal([]byte(r.GetBody().GetStringValue()), &event); err != nil {
		t.Fatal(err)
	}
	return event.ID
}

// attributeOf returns a text attribute of a record; empty if it has none.
func attributeOf(r *logspb.LogRecord, key string) string {
	for _, a := range r.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}
