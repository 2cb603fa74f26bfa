package examine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

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

// leafOf is the leaf of a request by an experiment that has learned all of its document.
func leafOf(r *authz.Request) authz.Leaf {
	input, err := r.Source(nil)
	if err != nil {
		panic(err)
	}
	b, err := rego.AppendInput(nil, input)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(b)
	return authz.Leaf{binary.BigEndian.Uint64(sum[:]), 1}
}

// examined is an examiner with a live policy and one experiment.
type examined struct {
	*Examiner
	process   *supervisor.Supervisor
	live      *question.Live
	candidate *Candidate
	pair      *Pair
	sampled   Sampled
	reader    *sdkmetric.ManualReader
	log       *bytes.Buffer
}

// examining compiles both policies.
func examining(t testing.TB, process *supervisor.Supervisor, live, candidate *adminpb.Policy) *examined {
	t.Helper()
	reader, out := sdkmetric.NewManualReader(), &bytes.Buffer{}
	x, err := New(Config{
		Live: question.NewLivePolicies(process, 0), Questions: question.Maker{Timeout: time.Hour, Bodies: authz.NewBodyMemory(0)},
		Output: diagnostics.Output{
			Logger: slog.New(slog.NewTextHandler(out, nil)), Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := authz.Compile(t.Context(), live)
	if err != nil {
		t.Fatal(err)
	}
	e := &examined{Examiner: x, process: process, pair: &Pair{}, reader: reader, log: out}
	e.live = &question.Live{Name: "policies/web", Etag: "1", Policy: cache.NewPolicy(compiled), Source: packed(t, live)}
	if err := e.live.Policy.SetSize(100); err != nil {
		t.Fatal(err)
	}
	e.candidate = &Candidate{
		Source: candidate, Exempted: authz.NewExemptions(candidate), Remote: process.NewCandidate(candidate, supervisor.Options{Name: "next", Keeps: true}),
	}
	t.Cleanup(e.candidate.Remote.Close)
	if err := e.candidate.Remote.Compiled(); err != nil {
		t.Fatal(err)
	}
	return e
}

// subject is a request that the live policy has decided, and of whose document the experiment has learned all.
func (e *examined) subject(t testing.TB, request *authz.Request) *Subject {
	d := e.live.Policy.Decide(t.Context(), request, authz.Conditions{})
	return &Subject{
		Request: request, Bytes: 100, Live: e.live, Decision: d, Leaf: leafOf(request), Candidate: e.candidate, Experiment: "policies/web/experiments/next",
	}
}

// send has requests covered, one after the other.
func (e *examined) send(t testing.TB, documents ...map[string]any) {
	t.Helper()
	for _, document := range documents {
		e.Cover(*e.subject(t, readAs(document, time.Unix(1_700_000_000, 0))), e.pair, Group{})
		e.Wait()
	}
}
