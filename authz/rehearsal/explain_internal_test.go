package rehearsal

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/rego/explain"
)

// rehearsed is a shadow with a live policy and one experiment.
type rehearsed struct {
	shadow     *Shadow
	live       *Version
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
	r.live = &Version{Name: "policies/web", Etag: "1", Policy: cache.NewPolicy(compiled), Source: packed(t, live)}
	if err := r.live.Policy.SetSize(100); err != nil {
		t.Fatal(err)
	}
	c := s.NewCandidate("policies/web/experiments/next", candidate)
	<-c.Ready()
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r.experiment = NewExperiment(Version{Name: "policies/web/experiments/next", Etag: "2"}, c)
	return r
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

// comparing is the comparison of a request that is to be made.
func (r *rehearsed) comparing(t testing.TB, request *authz.Request) *comparing {
	d := r.live.Policy.Decide(t.Context(), request, authz.Conditions{})
	j := job{ctx: t.Context(), live: r.live, experiments: []*Experiment{r.experiment}, request: request, decision: d, bytes: 100}
	return &comparing{r.shadow, j, r.experiment}
}

// explained is what explain says of a comparison in which the experiment decides so.
func (r *rehearsed) explained(t testing.TB, c *comparing, d authz.Decision) []explain.Expression {
	t.Helper()
	compared := newComparison(c.job.request, r.live, &r.experiment.Version, c.job.decision, d)
	causes := make(chan []explain.Expression, 1)
	r.shadow.explain(c, compared, func(e []explain.Expression) { causes <- e })
	return <-causes
}

// denied is a denial by the Rego rule of policies of one module.
func denied(f authz.Failure) authz.Decision {
	return authz.Decision{Rule: "main", Failure: f}.WithRulePath("envoy/authz/allow")
}

// TestADifferenceIsExplained has both policies evaluated in the rehearsal process, for a
// request that both know.
func TestADifferenceIsExplained(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), allowing(`input.x == "a"`), allowing(`{ input.x == "a"; input.y == "b" }`))
	c := r.comparing(t, readAs(map[string]any{"x": "a", "y": "secret"}, time.Unix(1_700_000_000, 0)))

	want := []explain.Expression{{File: "a.rego", Line: 2, Text: `input.y == "b"`}}
	if got := r.explained(t, c, denied(authz.FailureUndefined)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := r.explained(t, c, denied("")); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := r.explained(t, c, authz.Decision{Verdict: authz.Allow}); got != nil {
		t.Errorf("got %v; want no causes of what is no difference", got)
	}
	for outcome, want := range map[string]int64{"explained": 2, "none": 1, "failed": 0, "shed": 0} {
		if n := counted(t, r.reader, "understudy.preview.explanations", outcome); n != want {
			t.Errorf("%d explanations are counted as %s, want %d", n, outcome, want)
		}
	}
	r.shadow.underWay.Wait()
	if n := r.shadow.explaining.Load(); n != 0 || r.shadow.bytes.Load() != 0 {
		t.Errorf("%d explanations are under way; want none, and no memory", n)
	}
}

// TestTheClockOfAnExplanationIsTheRequests has the rule depend on the time.
func TestTheClockOfAnExplanationIsTheRequests(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), allowing(`input.x == "a"`), allowing(`{ time.now_ns() > 1700000000000000000; input.y }`))
	c := r.comparing(t, readAs(map[string]any{"x": "a"}, time.Unix(1_600_000_000, 0)))
	got := r.explained(t, c, denied(authz.FailureUndefined))
	if want := []explain.Expression{{File: "a.rego", Line: 2, Text: "time.now_ns() > 1700000000000000000"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWithoutALivePolicyTheCandidateExplains has a default decision in its place.
func TestWithoutALivePolicyTheCandidateExplains(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), &adminpb.Policy{}, allowing(`input.x == "a"`))
	c := r.comparing(t, readAs(map[string]any{"x": "b"}, time.Unix(1_700_000_000, 0)))
	c.job.decision = authz.Decision{Verdict: authz.Allow, Default: true}
	got := r.explained(t, c, denied(authz.FailureUndefined))
	if want := []explain.Expression{{File: "a.rego", Line: 2, Text: `input.x == "a"`}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWhatCannotBeExplainedHasNoCauses: too many, no process, a panic, an evaluation that
// fails. Each is counted, and nothing waits.
func TestWhatCannotBeExplainedHasNoCauses(t *testing.T) {
	document := map[string]any{"x": "a"}
	for name, tt := range map[string]struct {
		spoil   func(*rehearsed, *comparing)
		outcome string
	}{
		"too many are under way": {func(r *rehearsed, _ *comparing) { r.shadow.explaining.Store(maxExplaining) }, "shed"},
		"no memory":              {func(r *rehearsed, c *comparing) { r.shadow.bytes.Store(int64(r.shadow.config.Limits.QueueBytes)) }, "shed"},
		"one ended the process":  {func(r *rehearsed, _ *comparing) { r.experiment.Candidate.unexamined.Store(true) }, "shed"},
		"no process":             {func(r *rehearsed, _ *comparing) { r.shadow.config.Process.Close() }, "failed"},
		"the candidate is gone":  {func(r *rehearsed, _ *comparing) { r.experiment.Candidate.Close() }, "failed"},
		"no live policies":       {func(r *rehearsed, _ *comparing) { r.shadow.policies.close() }, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rehearse(t, supervisortest.New(t), allowing(`input.x == "a"`), allowing(`input.x == "b"`))
			c := r.comparing(t, readAs(document, time.Unix(1_700_000_000, 0)))
			tt.spoil(r, c)
			if got := r.explained(t, c, denied("")); got != nil {
				t.Errorf("got %v, want no causes", got)
			}
			if n := counted(t, r.reader, "understudy.preview.explanations", tt.outcome); n != 1 {
				t.Errorf("%d explanations are counted as %s, want 1", n, tt.outcome)
			}
		})
	}
}

// TestAnExplanationHasNoValues searches what crossed and what is logged for the request.
func TestAnExplanationHasNoValues(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), allowing(`input.x`), allowing(`{ some p in input.ps; p == concat("", [input.x, "1"]) }`))
	c := r.comparing(t, readAs(map[string]any{"x": "secret", "ps": []any{"secret2", "secret3"}}, time.Unix(1_700_000_000, 0)))
	causes := r.explained(t, c, denied(authz.FailureUndefined))
	encoded, err := json.Marshal(causes)
	if err != nil || len(causes) != 1 {
		t.Fatalf("got %v, %v; want one cause", causes, err)
	}
	for _, text := range []string{string(encoded), r.log.String()} {
		if bytes.Contains([]byte(text), []byte("secret")) {
			t.Errorf("%s has a value of the request", text)
		}
	}
}

// TestACauseThatOnlyTheLivePolicyHasSaysSo: its line is not one of the experiment.
func TestACauseThatOnlyTheLivePolicyHasSaysSo(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), allowing(`input.x == "a"`), allowing(`input.x in {"a", "b"}`))
	c := r.comparing(t, readAs(map[string]any{"x": "b"}, time.Unix(1_700_000_000, 0)))
	c.job.decision = denied(authz.FailureUndefined)
	var got []string
	for _, cause := range causesOf(r.explained(t, c, authz.Decision{Verdict: authz.Allow})) {
		got = append(got, cause.GetText())
	}
	if want := []string{`input.x in {"a", "b"}`, `(live policy) input.x == "a"`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
