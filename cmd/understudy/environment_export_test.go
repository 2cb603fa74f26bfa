package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"understudy/admin/audit"
	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/testkit"
)

// rawCollector keeps what it gets over HTTP as it is.
type rawCollector struct {
	// refuse makes it refuse all calls, with an answer that quotes their credentials.
	refuse bool

	mu sync.Mutex
	// bodies :: signal, as it stands in the path → what was sent.
	bodies map[string]string
}

// ServeHTTP implements http.Handler.
func (c *rawCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, signal := range []string{"logs", "metrics", "traces"} {
		if strings.HasPrefix(r.URL.Path, "/"+signal) {
			c.bodies[signal] += string(body)
		}
	}
	if c.refuse {
		http.Error(w, "no access to "+r.URL.Path+" with "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}
}

// sent returns what was sent of a signal.
func (c *rawCollector) sent(signal string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bodies[signal]
}

// serveFromEnvironment starts a server by its variables, and returns it with its log and what is
// called to end it.
func serveFromEnvironment(t *testing.T) (r *running, log *logtest.Buffer, end func()) {
	t.Helper()
	r = &running{bound: map[string]string{}}
	for _, port := range []string{"authz", "admin", "health"} {
		r.bound[port] = testkit.FreeAddress()
		t.Setenv("UNDERSTUDY_"+strings.ToUpper(port)+"_ADDR", r.bound[port])
	}
	// A shutdown that takes longer ends the process, and so the test binary.
	t.Setenv("UNDERSTUDY_SHUTDOWN_TIMEOUT", time.Minute.String())
	ctx, cancel := context.WithCancel(t.Context())
	log = &logtest.Buffer{}
	done := make(chan struct{})
	go func() {
		run(ctx, []string{"serve"}, strings.NewReader(""), log, log)
		close(done)
	}()
	end = sync.OnceFunc(func() { cancel(); testkit.Closed(t, "the server to end", done) })
	t.Cleanup(end)
	testkit.Await(t, "the server listens", func() bool { return strings.Contains(log.String(), "understudy is listening") }, func() any { return log.String() })
	// The port takes no connection before the policies are loaded.
	conn, err := grpc.NewClient(r.bound["authz"], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.authz = authv3.NewAuthorizationClient(conn)
	return r, log, end
}

// TestSecretVariableIsNotExported sets all well-formed values with a secret, and all malformed ones
// that are ignored, and searches what the server prints, shows and exports: its log, the audit log
// and other records, metrics, traces and the page of metrics.
func TestSecretVariableIsNotExported(t *testing.T) {
	collector := &rawCollector{bodies: map[string]string{}}
	listener := httptest.NewServer(collector)
	t.Cleanup(listener.Close)
	setUsualEnvironment(t)
	for _, row := range environmentRows() {
		if row.ignored != "" || row.secret != "" && row.name != "UNDERSTUDY_STORE" {
			t.Setenv(row.name, row.ignored+strings.ReplaceAll(row.secret, "ADDRESS", listener.Listener.Addr().String()))
		}
	}
	r, log, end := serveFromEnvironment(t)
	r.change(t, "/v1/projects/default/locations/local/policies?policyId=shop", "{"+onlyGET+"}")
	r.check(t, "GET")
	_, page := r.metricsPage(t, "")
	end()

	for _, row := range environmentRows() {
		if row.ignored != "" && !strings.Contains(log.String(), row.name) {
			t.Errorf("the log has no warning of %s, which is ignored", row.name)
		}
	}
	if !strings.Contains(collector.sent("logs"), audit.Event) {
		t.Error("the collector got no event of the audit log")
	}
	for what, text := range map[string]string{
		"log": log.String(), "page": page, "logs": collector.sent("logs"), "metrics": collector.sent("metrics"), "traces": collector.sent("traces"),
	} {
		if text == "" || strings.Contains(text, canary) {
			t.Errorf("%s: empty, or with the secret:\n%s", what, text)
		}
	}
}

// TestSecretVariableIsNotInErrors: no collector can be used, and the answers of one quote its
// credentials.
func TestSecretVariableIsNotInErrors(t *testing.T) {
	collector := &rawCollector{refuse: true, bodies: map[string]string{}}
	listener := httptest.NewServer(collector)
	t.Cleanup(listener.Close)
	setUsualEnvironment(t)
	for _, row := range environmentRows() {
		if row.secret != "" && row.name != "UNDERSTUDY_STORE" && !strings.HasSuffix(row.name, "_ENDPOINT") {
			t.Setenv(row.name, row.secret)
		}
	}
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT":    "http://user:" + canary + "@" + listener.Listener.Addr().String() + "/logs/" + canary,
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://user:" + canary + "@127.0.0.1:1/" + canary,
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":  "http://user:" + canary + "@127.0.0.1:1/" + canary,
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL":  "grpc",
		"OTEL_METRIC_EXPORT_INTERVAL":         "20",
		"OTEL_BLRP_SCHEDULE_DELAY":            "20",
		"UNDERSTUDY_LOG_LEVEL":                "debug",
		"UNDERSTUDY_SHUTDOWN_TIMEOUT":         "1s",
	} {
		t.Setenv(name, value)
	}
	r, log, end := serveFromEnvironment(t)
	r.check(t, "GET")
	r.change(t, "/v1/projects/default/locations/local/policies?policyId=shop", "{"+onlyGET+"}")
	for _, line := range []string{
		"telemetry failed", "the collector refuses records", "_HEADERS)", "_ENDPOINT)", "gRPC",
	} {
		testkit.Await(t, line, func() bool { return strings.Contains(log.String(), line) }, func() any { return log.String() })
	}
	_, page := r.metricsPage(t, "")
	end()
	for what, text := range map[string]string{"log": log.String(), "page": page, "logs": collector.sent("logs")} {
		if text == "" || strings.Contains(text, canary) {
			t.Errorf("%s: empty, or with the secret:\n%s", what, text)
		}
	}
}

// TestPasswordOfTheStoreIsNotInErrors: a Redis refuses connections.
func TestPasswordOfTheStoreIsNotInErrors(t *testing.T) {
	setUsualEnvironment(t)
	t.Setenv("UNDERSTUDY_LOG_LEVEL", "debug")
	for _, row := range serveRows {
		if row.secret != "" {
			t.Setenv(row.name, row.secret)
		}
	}
	r, log, end := serveFromEnvironment(t)
	_, answer := r.call(t, "admin", "POST", "/v1/projects/default/locations/local/policies?policyId=shop", "{"+onlyGET+"}")
	_, page := r.metricsPage(t, "")
	_, ready := r.call(t, "health", "GET", "/readyz", "")
	end()
	for what, text := range map[string]string{"log": log.String(), "answer": answer, "page": page, "readiness": ready} {
		if text == "" || strings.Contains(text, canary) {
			t.Errorf("%s: empty, or with the password:\n%s", what, text)
		}
	}
	if !strings.Contains(log.String(), "connection refused") {
		t.Errorf("the log has no error of the store:\n%s", log)
	}
}
