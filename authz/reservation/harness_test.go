package reservation_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/decisionlog"
	"understudy/authz/diagnostics/logtest"
	"understudy/authz/rehearsal"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/reservation"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

const (
	location = authz.Location("projects/p1/locations/l1")
	leases   = "projects/p1/locations/l1/policies/leases"
	token    = "0123456789abcdef"
)

// fixture returns a file of testdata.
func fixture(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// policy returns a policy whose rule leases/allow is the module's; without a module it
// has no rules.
func policy(etag, module string) *adminpb.Policy {
	p := &adminpb.Policy{Name: leases, Etag: etag}
	if module == "" {
		return p
	}
	p.Modules = map[string]string{"leases.rego": "package leases\n" + module}
	p.Rules = []*adminpb.PolicyRule{{
		RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: "leases/allow"}},
	}}
	return p
}

func experiment(id, etag, module string) *adminpb.PolicyExperiment {
	return &adminpb.PolicyExperiment{Name: leases + "/experiments/" + id, Etag: etag, Policy: policy("", module)}
}

// policies is a Feed that never changes.
type policies map[authz.PolicyName]authz.PolicyState

func (p policies) Load(context.Context, authz.Scope) (authz.Update, error) {
	return authz.Update{Cursor: authz.Cursor{Sequence: 1, Nonce: "n"}, Policies: p}, nil
}

func (p policies) Next(ctx context.Context, _ authz.Scope, _ authz.Cursor) (authz.Update, error) {
	<-ctx.Done()
	return authz.Update{}, ctx.Err()
}

func (p policies) Heartbeat(context.Context, *adminpb.Node) (authz.Head, error) {
	return authz.Head{Cursor: authz.Cursor{Sequence: 1, Nonce: "n"}}, nil
}

func (p policies) Leave(context.Context, string) error { return nil }

func (p policies) Chunk(context.Context, authz.Content, int) ([]byte, error) {
	return nil, authz.ErrNoChunk
}

// live returns a feed with one policy, of this module, and its experiments.
func live(module string, experiments ...*adminpb.PolicyExperiment) policies {
	return policies{leases: {Policy: policy("live", module), Experiments: experiments}}
}

// record is what the tests read of a log event.
type record struct {
	event, body string
	attributes  map[string]string
	traceID     string
}

// recording is an exporter whose records a test receives. What is beyond its room, as in
// fuzzing, is lost.
type recording chan record

func (r recording) Export(_ context.Context, records []sdklog.Record) error {
	for _, one := range records {
		out := record{one.EventName(), one.Body().AsString(), make(map[string]string), one.TraceID().String()}
		one.WalkAttributes(func(kv attribute.KeyValue) bool {
			out.attributes[string(kv.Key)] = kv.Value.String()
			return true
		})
		select {
		case r <- out:
		default:
		}
	}
	return nil
}

func (r recording) ForceFlush(context.Context) error { return nil }
func (r recording) Shutdown(context.Context) error   { return nil }

func (r recording) await(t *testing.T) record {
	t.Helper()
	return testkit.Receive(t, "a record", r)
}

// deciding runs a real sidecar until the test ends. It denies where there is no policy, as
// it does for Envoy.
func deciding(t testing.TB, feed authz.Feed, changes ...func(*sidecar.Config)) (s *sidecar.Sidecar, previews, decisions recording) {
	t.Helper()
	previews, decisions = make(recording, 1000), make(recording, 1000)
	provider := func(r recording) *sdklog.LoggerProvider {
		return sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(r)))
	}
	config := sidecar.Config{
		Feed: feed, Scope: authz.Scope{Location: location}, Policy: "web", Node: "n1", Default: authz.Deny,
		Experiments: sidecar.Experiments{
			Recorder: rehearsal.NewRecorder(provider(previews), rehearsal.PreviewLog{}), Rehearsal: supervisortest.New(t),
			Preview: rehearsal.Limits{Timeout: time.Hour},
		},
		DecisionLog: decisionlog.Config{Provider: provider(decisions), Timeout: time.Hour},
	}
	for _, change := range changes {
		change(&config)
	}
	s, err := sidecar.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := testkit.Receive(t, "the sidecar to end", done); err != nil {
			t.Error(err)
		}
	})
	testkit.Closed(t, "s is ready", s.Ready())
	return s, previews, decisions
}

// deciderFunc is a Decider that a test writes.
type deciderFunc func(context.Context, *authz.Request) authz.Decision

func (f deciderFunc) Check(ctx context.Context, r *authz.Request) authz.Decision { return f(ctx, r) }

func yes(context.Context, *authz.Request) authz.Decision { return authz.Decision{Effect: authz.Allow} }

// port is a handler behind a real port.
type port struct {
	*reservation.Handler
	url string
	log *logtest.Buffer
}

// serve opens a port until the test ends. Callers need the token unless the
// configuration is changed.
func serve(t testing.TB, d reservation.Decider, change func(*reservation.Config)) *port {
	t.Helper()
	p := &port{log: &logtest.Buffer{}}
	config := reservation.Config{
		Policy: "leases", Tokens: []string{token}, Logger: slog.New(slog.NewTextHandler(p.log, nil)),
	}
	if change != nil {
		change(&config)
	}
	var err error
	if p.Handler, err = reservation.New(d, config); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(p.Handler)
	server.Config.ReadHeaderTimeout = testkit.Patience
	server.Start()
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// reply is an answer that was read to its end.
type reply struct {
	Status     string
	StatusCode int
	Header     http.Header
	Body       string
}

func readReply(response *http.Response) (reply, error) {
	content, err := io.ReadAll(response.Body)
	return reply{response.Status, response.StatusCode, response.Header, string(content)}, err
}

// blazar asks as the filter in Blazar does.
type blazar struct {
	// base is external_service_base_endpoint, token external_service_token.
	base, token string
}

// generic is what Blazar shows its users if it gets no message.
const generic = "External service enforcement filter denied the request."

// ask makes a call. The message is what Blazar's user reads; empty if the call passes.
func (b blazar) ask(name, body string) (message string, err error) {
	response, err := b.post(name, body)
	if err != nil {
		return "", err
	}
	switch response.StatusCode {
	case http.StatusNoContent:
		return "", nil
	case http.StatusForbidden:
		var body map[string]any
		if err := json.Unmarshal([]byte(response.Body), &body); err != nil {
			return generic, nil
		}
		if message, ok := body["message"].(string); ok {
			return message, nil
		}
	}
	return generic, nil
}

// post sends a call over a connection of its own, whole before it reads anything, and
// waits for as long as it takes.
func (b blazar) post(name, body string) (reply, error) {
	base, err := url.Parse(b.base)
	if err != nil {
		return reply{}, err
	}
	// Python's urljoin replaces what is after the last slash, as RFC 3986 has it.
	target := base.ResolveReference(&url.URL{Path: name})
	conn, err := net.Dial("tcp", target.Host)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = conn.Close() }()
	header := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: python-requests/2.32.3\r\nAccept-Encoding: gzip, deflate\r\n"+
		"Accept: */*\r\nConnection: keep-alive\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", target.Path, target.Host, len(body))
	if b.token != "" {
		header += "X-Auth-Token: " + b.token + "\r\n"
	}
	if _, err := io.WriteString(conn, header+"\r\n"); err != nil {
		return reply{}, err
	}
	if _, err := io.WriteString(conn, body); err != nil {
		return reply{}, err
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = response.Body.Close() }()
	return readReply(response)
}

// call makes a request as a test wants it. Fields that are empty are those of a good
// call.
type call struct {
	method, path, token, mediaType, body string
	headers                              map[string]string
}

// none stands for a header that is not sent.
const none = "-"

func (c call) send(t testing.TB, p *port) reply {
	t.Helper()
	or := func(value, good string) string {
		if value == "" {
			return good
		}
		return value
	}
	request, err := http.NewRequest(or(c.method, "POST"), p.url+or(c.path, "/v1/check-create"), strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"X-Auth-Token": or(c.token, token), "Content-Type": or(c.mediaType, "application/json")} {
		if value != none {
			request.Header.Set(name, value)
		}
	}
	for name, value := range c.headers {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answered, err := readReply(response)
	if err != nil {
		t.Fatal(err)
	}
	return answered
}

// messageIn returns the message of a refusal, which has to be all that it says.
func messageIn(t testing.TB, response reply) string {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(response.Body), &fields); err != nil {
		t.Fatalf("%d %q: %v", response.StatusCode, response.Body, err)
	}
	message, ok := fields["message"].(string)
	if !ok || message == "" || len(fields) != 1 || response.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d says %q, of the type %q; want an object with a message and nothing else",
			response.StatusCode, response.Body, response.Header.Get("Content-Type"))
	}
	return message
}

func (p policies) Publish(context.Context, string, []authz.PublishedEvidence) (authz.Publication, error) {
	return authz.Publication{Nodes: 1}, nil
}
