package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	collogspb "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logspb "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"

	"understudy/admin/audit"
	"understudy/admin/storetest"
	"understudy/cmd/testkit"
)

// collector is an OTLP receiver, over gRPC and over HTTP.
type collector struct {
	collogspb.UnimplementedLogsServiceServer
	// audited gets the events of the audit log, and records all others.
	records, audited chan *logspb.LogRecord
}

func newCollector() *collector {
	return &collector{records: make(chan *logspb.LogRecord, 1000), audited: make(chan *logspb.LogRecord, 1000)}
}

func (c *collector) Export(
	_ context.Context, r *collogspb.ExportLogsServiceRequest,
) (*collogspb.ExportLogsServiceResponse, error) {
	for _, resource := range r.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			for _, record := range scope.LogRecords {
				if record.GetEventName() == audit.Event {
					c.audited <- record
					continue
				}
				c.records <- record
			}
		}
	}
	return &collogspb.ExportLogsServiceResponse{}, nil
}

// ServeHTTP is OTLP over HTTP with protobuf.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	request := &collogspb.ExportLogsServiceRequest{}
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err == nil && r.URL.Path == "/v1/logs" {
		_, err = c.Export(r.Context(), request)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
}

// listenGRPC serves the collector over gRPC and returns its URL.
func (c *collector) listenGRPC(t *testing.T) string {
	t.Helper()
	return c.listenAt(t, "127.0.0.1:0")
}

// listenAt is listenGRPC at an address.
func (c *collector) listenAt(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	rpc := grpc.NewServer()
	collogspb.RegisterLogsServiceServer(rpc, c)
	go func() { _ = rpc.Serve(l) }()
	t.Cleanup(rpc.Stop)
	return "http://" + l.Addr().String()
}

func (c *collector) listenHTTP(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: c, ReadHeaderTimeout: testkit.Patience}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return "http://" + l.Addr().String()
}

// running is a server that a test started.
type running struct {
	bound map[string]string
	authz authv3.AuthorizationClient
	conn  *grpc.ClientConn
	// stop makes the server shut down; the test waits for it at its end.
	stop context.CancelFunc
	// end stops the server and returns when it has ended. A test calls it before it ends what the
	// server sends to at its end, such as a collector: else the server tries for its whole
	// shutdown timeout.
	end func()
}

// startServer runs serve until the test ends.
func startServer(t testing.TB, change func(*config)) *running {
	t.Helper()
	return startServerWithLog(t, io.Discard, change)
}

// startServerWithLog also gives the server's log to a test.
func startServerWithLog(t testing.TB, log io.Writer, change func(*config)) *running {
	t.Helper()
	c := demoConfig(t.TempDir())
	c.Location = "projects/p1/locations/l1"
	// A busy machine reaches no time limit that a test does not ask about.
	c.decisionTimeout, c.preview.timeout, c.shutdownTimeout = testkit.Patience, testkit.Patience, testkit.Patience
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	bound, done := make(chan map[string]string, 1), make(chan error, 1)
	go func() {
		done <- serve(ctx, c, nil, log, func(b map[string]string) { bound <- b })
	}()
	r := &running{stop: cancel}
	r.end = sync.OnceFunc(func() {
		cancel()
		if err := testkit.Receive(t, "the server to end", done); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.end)
	select {
	case r.bound = <-bound:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(r.bound["authz"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.conn, r.authz = conn, authv3.NewAuthorizationClient(conn)
	return r
}

// call makes a REST call and returns status and body.
func (r *running) call(t testing.TB, server, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.bound[server]+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, request)
}

// answerOf makes a call and returns status and body.
func answerOf(t testing.TB, request *http.Request) (int, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// change posts a change, and waits until its operation is done.
func (r *running) change(t testing.TB, path, body string) {
	t.Helper()
	code, answer := r.call(t, "admin", "POST", path, body)
	var operation struct {
		Name string
		Done bool
	}
	testkit.Await(t, path, func() bool {
		if err := json.Unmarshal([]byte(answer), &operation); err != nil || code != http.StatusOK || operation.Name == "" {
			t.Fatalf("%s answered %d: %s", path, code, answer)
		}
		if !operation.Done {
			code, answer = r.call(t, "admin", "POST", "/v1/"+operation.Name+":wait", `{"timeout":"60s"}`)
		}
		return operation.Done
	}, func() any { return answer })
}

const (
	policies = "/v1/projects/p1/locations/l1/policies"
	onlyGET  = `"rules":[{"rego":{}}],"modules":{"a.rego":"package envoy.authz\ndefault allow := false\nallow if input.attributes.request.http.method == \"GET\""}`
	onlyPOST = `"rules":[{"rego":{}}],"modules":{"a.rego":"package envoy.authz\ndefault allow := false\nallow if input.attributes.request.http.method == \"POST\""}`
)

// preview creates a policy with an ACTIVE experiment.
func (r *running) preview(t *testing.T) {
	t.Helper()
	for _, step := range [][2]string{
		{policies + "?policyId=shop", "{" + onlyGET + "}"},
		{policies + "/shop/experiments?policyExperimentId=e1", `{"policy":{"name":"projects/p1/locations/l1/policies/shop",` + onlyPOST + "}}"},
		{policies + "/shop/experiments/e1:startPreview", "{}"},
	} {
		r.change(t, step[0], step[1])
	}
}

func (r *running) check(t *testing.T, method string) int32 {
	t.Helper()
	request := question{method: method, path: "/x?q=secret", service: "web", token: "secret"}.request()
	response, err := r.authz.Check(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return response.GetStatus().GetCode()
}

// TestRecordsAreExported sends a request and receives its record as a collector
// would, over both forms of OTLP, set up by the standard variables.
func TestRecordsAreExported(t *testing.T) {
	for protocol, listen := range map[string]func(*collector, *testing.T) string{
		"grpc": (*collector).listenGRPC, "http/protobuf": (*collector).listenHTTP,
	} {
		t.Run(protocol, func(t *testing.T) {
			c := newCollector()
			t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
			t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", listen(c, t)+map[string]string{"http/protobuf": "/v1/logs"}[protocol])
			t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "20")
			r := startServer(t, nil)
			r.preview(t)
			if code := r.check(t, "GET"); code != 0 {
				t.Fatalf("GET is answered with %d", code)
			}
			checkRecord(t, testkit.Receive(t, "a preview record", c.records))
		})
	}
}

// TestDroppedRecordsAreCounted holds the collector up until the queue before it has
// overflowed.
func TestDroppedRecordsAreCounted(t *testing.T) {
	stuck := &stuckCollector{release: make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rpc := grpc.NewServer()
	collogspb.RegisterLogsServiceServer(rpc, stuck)
	go func() { _ = rpc.Serve(l) }()
	t.Cleanup(rpc.Stop)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	t.Setenv("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://"+l.Addr().String())
	t.Setenv("OTEL_BLRP_SCHEDULE_DELAY", "1")
	t.Setenv("OTEL_BLRP_MAX_QUEUE_SIZE", "1")
	t.Setenv("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "1")
	r := startServer(t, nil)
	r.preview(t)
	const requests = 50
	for range requests {
		r.check(t, "GET")
	}
	counted := func(pattern string) float64 {
		_, metrics := r.call(t, "health", "GET", "/metrics", "")
		n := 0.0
		for _, m := range regexp.MustCompile(`(?m)^`+pattern+` (\S+)$`).FindAllStringSubmatch(metrics, -1) {
			v, _ := strconv.ParseFloat(m[1], 64)
			n += v
		}
		return n
	}
	testkit.Await(t, "all requests are compared", func() bool {
		return counted(`understudy_preview_comparisons_total\{difference="NEWLY_DENIED".*`) >= requests
	})
	close(stuck.release)
	testkit.Await(t, "a dropped record is counted", func() bool {
		return counted(`understudy_export_dropped_total\{queue="preview",reason="queue_full".*`) > 0
	})
}

// stuckCollector does not answer until it is released.
type stuckCollector struct {
	collogspb.UnimplementedLogsServiceServer
	release chan struct{}
}

func (c *stuckCollector) Export(
	ctx context.Context, _ *collogspb.ExportLogsServiceRequest,
) (*collogspb.ExportLogsServiceResponse, error) {
	select {
	case <-c.release:
	case <-ctx.Done():
	}
	return &collogspb.ExportLogsServiceResponse{}, nil
}

func checkRecord(t *testing.T, record *logspb.LogRecord) {
	t.Helper()
	body := record.GetBody().GetStringValue()
	text, found := strings.CutPrefix(body, "PolicyPreviewLog ")
	if !found {
		t.Fatalf("the body is %q", body)
	}
	var facts struct {
		Policy     string `json:"policy_result"`
		Experiment string `json:"experiment_result"`
		Difference string `json:"difference"`
		Etag       string `json:"policy_etag"`
		OtherEtag  string `json:"experiment_etag"`
		Status     int    `json:"experiment_status"`
	}
	if err := json.Unmarshal([]byte(text), &facts); err != nil {
		t.Fatal(err)
	}
	if facts.Policy != "ALLOW" || facts.Experiment != "DENY" || facts.Difference != "NEWLY_DENIED" || facts.Status != 403 {
		t.Errorf("the facts are %+v", facts)
	}
	if !strings.HasPrefix(facts.Etag, `W/"`) || !strings.HasPrefix(facts.OtherEtag, `W/"`) {
		t.Errorf("the etags are %q and %q", facts.Etag, facts.OtherEtag)
	}
	if record.GetSeverityNumber() != logspb.SeverityNumber_SEVERITY_NUMBER_WARN || record.GetEventName() != "understudy.policy.preview" {
		t.Errorf("severity %v, event %q", record.GetSeverityNumber(), record.GetEventName())
	}
	if got := record.GetTraceId(); len(got) != 16 || got[0] != 0xab {
		t.Errorf("the trace is %x; want that of the request's traceparent", got)
	}
	if strings.Contains(record.String(), "secret") {
		t.Error("the record has a query or a token in it")
	}
}

func TestReadyzAndMetrics(t *testing.T) {
	t.Parallel()
	r := startServer(t, nil)
	r.preview(t)
	r.check(t, "GET")
	code, body := r.call(t, "health", "GET", "/readyz", "")
	var ready readiness
	if err := json.Unmarshal([]byte(body), &ready); err != nil || code != 200 {
		t.Fatalf("%d %s: %v", code, body, err)
	}
	if !ready.Ready || ready.Bound["authz"] != r.bound["authz"] || ready.Sequence < 3 || ready.Policies != 1 {
		t.Errorf("readiness is %+v", ready)
	}
	_, metrics := r.call(t, "health", "GET", "/metrics", "")
	for _, want := range []string{
		`understudy_checks_total{`, `policy="shop"`, `result="ALLOW"`,
		`understudy_check_duration_seconds_bucket{policy="shop",le="1e-05"}`, `understudy_check_duration_seconds_bucket{policy="shop",le="10"}`,
		`understudy_snapshot_sequence`, `understudy_snapshot_age_seconds`, `go_goroutines`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	if code, _ := r.call(t, "health", "GET", "/healthz", ""); code != 200 {
		t.Errorf("/healthz is %d", code)
	}
}

func TestHealthAndReflectionOnBothPorts(t *testing.T) {
	t.Parallel()
	r := startServer(t, nil)
	r.preview(t)
	admin, err := grpc.NewClient(r.bound["admin"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	for name, conn := range map[string]*grpc.ClientConn{"authz": r.conn, "admin": admin} {
		health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil || health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%s: health is %v, %v", name, health, err)
		}
		stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
		}); err != nil {
			t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil || len(answer.GetListServicesResponse().GetService()) < 2 {
			t.Errorf("%s: reflection answers %v, %v", name, answer, err)
		}
	}
}

// TestTheStoreIsLost decides by the last policies while Redis is away, and starts
// from the saved ones.
func TestTheStoreIsLost(t *testing.T) {
	t.Parallel()
	url, stop := lostRedis(t)
	file := filepath.Join(t.TempDir(), "snapshot")
	withRedis := func(c *config) { c.Store, c.SnapshotFile = url, file }
	r := startServer(t, withRedis)
	r.preview(t)
	stop()
	if code, body := r.call(t, "admin", "GET", policies+"/shop", ""); code != 503 || !strings.Contains(body, "STORE_UNAVAILABLE") ||
		strings.Contains(strings.ToLower(body), "redis") {
		t.Errorf("the admin API answers %d %s", code, body)
	}
	for method, want := range map[string]int32{"GET": 0, "POST": 7} {
		if got := r.check(t, method); got != want {
			t.Errorf("%s is answered with %d, want %d", method, got, want)
		}
	}
	if code, _ := r.call(t, "health", "GET", "/readyz", ""); code != 200 {
		t.Errorf("a sidecar that decides is ready; got %d", code)
	}
	again := startServer(t, func(c *config) { withRedis(c); c.node = "again" })
	for method, want := range map[string]int32{"GET": 0, "POST": 7} {
		if got := again.checkWhenReady(t, method); got != want {
			t.Errorf("after a restart %s is answered with %d, want %d", method, got, want)
		}
	}
}

// checkWhenReady waits for the server's policies before it asks.
func (r *running) checkWhenReady(t *testing.T, method string) int32 {
	t.Helper()
	r.awaitReady(t)
	return r.check(t, method)
}

// lostRedis returns a private Redis and what stops it.
func lostRedis(t *testing.T) (string, func()) {
	t.Helper()
	url := storetest.Redis(t)
	return url, func() {
		path := strings.TrimPrefix(strings.SplitN(url, "?", 2)[0], "unix://")
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "SHUTDOWN NOSAVE\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, io.EOF) && !strings.Contains(err.Error(), "reset") {
			t.Fatal(err)
		}
	}
}
