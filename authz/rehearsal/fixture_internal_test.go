package rehearsal

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/question"
	"understudy/authz/rehearsal/supervisor"
	"understudy/rego"
)

// readAs is a request of which policies read one document, by shortcut as well as
// whole.
func readAs(document map[string]any, now time.Time) *authz.Request {
	return &authz.Request{
		ID: "id", Operation: authz.OperationCheck, Time: now, Parts: partsOf(document),
		Source: func(*authz.Reading) (rego.Input, error) { return rego.NewInput(document) },
	}
}

// partsOf makes the parts of a request of a document.
func partsOf(document map[string]any) func(*authz.Reading) (rego.Request, error) {
	return func(*authz.Reading) (rego.Request, error) {
		input, err := rego.NewInput(document)
		return rego.RequestOf(input), err
	}
}

// allowing returns a policy of one module.
func allowing(condition string) *adminpb.Policy {
	return &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": "package envoy.authz\nallow if " + condition},
	}
}

// packed is a policy as a live version has it.
func packed(t testing.TB, p *adminpb.Policy) *authz.Packed {
	t.Helper()
	out, err := authz.Pack(p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// counted returns the value of a counter or gauge over the series that have a label of
// this value; of all if that is empty.
func counted(t *testing.T, reader *sdkmetric.ManualReader, name, value string) (n int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			points := []metricdata.DataPoint[int64]{}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				points = data.DataPoints
			case metricdata.Gauge[int64]:
				points = data.DataPoints
			}
			for _, p := range points {
				for _, label := range p.Attributes.ToSlice() {
					if value != "" && label.Value.String() == value {
						n += p.Value
					}
				}
				if value == "" {
					n += p.Value
				}
			}
		}
	}
	return n
}

// sent is a request as a sender may make it.
type sent struct {
	method, path string
	headers      map[string]string
	body, raw    string
}

// wire returns the request as Envoy sends it.
func (s sent) wire(t testing.TB) string {
	t.Helper()
	wire, err := proto.Marshal(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "10.0.0.1"}}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: s.method, Path: s.path, Headers: s.headers, Body: s.body, RawBody: []byte(s.raw),
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(wire)
}

// rehearsed is a shadow with a live policy and one experiment.
type rehearsed struct {
	shadow     *Shadow
	live       *question.Live
	experiment *Experiment
	reader     *sdkmetric.ManualReader
	log        *bytes.Buffer
}

// rehearse compiles both policies.
func rehearse(t testing.TB, process *supervisor.Supervisor, live, candidate *adminpb.Policy) *rehearsed {
	t.Helper()
	reader, out := sdkmetric.NewManualReader(), &bytes.Buffer{}
	logger := slog.New(slog.NewTextHandler(out, nil))
	s, err := New(Config{
		Limits: Limits{Timeout: time.Hour}, Bodies: authz.NewBodyMemory(0), Process: process,
		Output: diagnostics.Output{
			Logger: logger, Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := authz.Compile(t.Context(), live)
	if err != nil {
		t.Fatal(err)
	}
	r := &rehearsed{shadow: s, reader: reader, log: out}
	r.live = &question.Live{Name: "policies/web", Etag: "1", Policy: cache.NewPolicy(compiled), Source: packed(t, live)}
	if err := r.live.Policy.SetSize(100); err != nil {
		t.Fatal(err)
	}
	c := s.NewCandidate("policies/web/experiments/next", candidate)
	<-c.Ready()
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r.experiment = NewExperiment("policies/web/experiments/next", "2", c)
	return r
}

// comparing is the comparison of a request that is to be made.
func (r *rehearsed) comparing(t testing.TB, request *authz.Request) *comparing {
	d := r.live.Policy.Decide(t.Context(), request, authz.Conditions{})
	j := job{ctx: t.Context(), live: r.live, experiments: []*Experiment{r.experiment}, request: request, decision: d, bytes: 100}
	return &comparing{r.shadow, j, r.experiment}
}

// module returns a policy of one module.
func module(text string) *adminpb.Policy {
	p := allowing("true")
	p.Modules["a.rego"] = "package envoy.authz\n\n" + text
	return p
}

var (
	coveredLive = module(`default allow := false

allow if {
	input.method == "GET"
	input.x == "a"
}
`)
	coveredCandidate = module(`default allow := false

allow if {
	input.method == "GET"
	input.x == "b"
}

allow if {
	input.method == "DELETE"
	input.x == "root"
}
`)
)
