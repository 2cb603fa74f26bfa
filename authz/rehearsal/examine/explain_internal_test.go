package examine

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/cmd/testkit"
	"understudy/rego/explain"
)

// explained is what Explain says of a request that the experiment decides so.
func (e *examined) explained(t testing.TB, s *Subject, d authz.Decision) []explain.Expression {
	t.Helper()
	causes := make(chan []explain.Expression, 1)
	e.Explain(s, s.Request.Compare(s.Decision, d), d, func(_ evidence.ExplainResult, e []explain.Expression) { causes <- e })
	return testkit.Receive(t, "the causes", causes)
}

// denied is a denial by the Rego rule of policies of one module.
func denied(f authz.Failure) authz.Decision {
	return authz.Decision{Rule: "main", Failure: f}.WithRulePath("envoy/authz/allow")
}

// TestADifferenceIsExplained has both policies evaluated in the rehearsal process, for a
// request that both know.
func TestADifferenceIsExplained(t *testing.T) {
	r := examining(t, supervisortest.New(t), rehearsaltest.Allowing(`input.x == "a"`), rehearsaltest.Allowing(`{ input.x == "a"; input.y == "b" }`))
	c := r.subject(t, rehearsaltest.Request(map[string]any{"x": "a", "y": "secret"}, time.Unix(1_700_000_000, 0)))

	want := []explain.Expression{{File: "a.rego", Line: 2, Text: `input.y == "b"`}}
	if got := r.explained(t, c, denied(authz.FailureUndefined)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := r.explained(t, c, denied("")); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := r.explained(t, c, authz.Decision{Effect: authz.Allow}); got != nil {
		t.Errorf("got %v; want no causes of what is no difference", got)
	}
	for outcome, want := range map[string]int64{"explained": 2, "none": 1, "failed": 0, "shed": 0} {
		if n := r.reader.Count(t, "understudy.preview.explanations", attribute.String("outcome", outcome)); n != want {
			t.Errorf("%d explanations are counted as %s, want %d", n, outcome, want)
		}
	}
	r.Wait()
	if n := r.explaining.Load(); n != 0 {
		t.Errorf("%d explanations are under way, want none", n)
	}
}

// TestTheClockOfAnExplanationIsTheRequests has the rule depend on the time.
func TestTheClockOfAnExplanationIsTheRequests(t *testing.T) {
	r := examining(t, supervisortest.New(t), rehearsaltest.Allowing(`input.x == "a"`), rehearsaltest.Allowing(`{ time.now_ns() > 1700000000000000000; input.y }`))
	c := r.subject(t, rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_600_000_000, 0)))
	got := r.explained(t, c, denied(authz.FailureUndefined))
	if want := []explain.Expression{{File: "a.rego", Line: 2, Text: "time.now_ns() > 1700000000000000000"}, {File: "a.rego", Line: 2, Text: `allow if input.x == "a"`, Live: true}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWithoutALivePolicyTheCandidateExplains has a default decision in its place.
func TestWithoutALivePolicyTheCandidateExplains(t *testing.T) {
	r := examining(t, supervisortest.New(t), &adminpb.Policy{}, rehearsaltest.Allowing(`input.x == "a"`))
	c := r.subject(t, rehearsaltest.Request(map[string]any{"x": "b"}, time.Unix(1_700_000_000, 0)))
	c.Decision = authz.Decision{Effect: authz.Allow, Default: true}
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
		spoil   func(*examined, *Subject)
		outcome string
	}{
		"too many are under way": {func(r *examined, _ *Subject) { r.explaining.Store(maxExplaining) }, "shed"},
		"no memory":              {func(_ *examined, s *Subject) { s.Bytes = 1 << 30 }, "shed"},
		"one ended the process":  {func(r *examined, _ *Subject) { r.candidate.spent.Store(true) }, "shed"},
		"no process":             {func(r *examined, _ *Subject) { r.process.Close() }, "failed"},
		"the candidate is gone":  {func(r *examined, _ *Subject) { r.candidate.Remote.Close() }, "failed"},
		"no live policies":       {func(r *examined, _ *Subject) { r.config.Live.Close() }, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := examining(t, supervisortest.New(t), rehearsaltest.Allowing(`input.x == "a"`), rehearsaltest.Allowing(`input.x == "b"`))
			c := r.subject(t, rehearsaltest.Request(document, time.Unix(1_700_000_000, 0)))
			tt.spoil(r, c)
			if got := r.explained(t, c, denied("")); got != nil {
				t.Errorf("got %v, want no causes", got)
			}
			if n := r.reader.Count(t, "understudy.preview.explanations", attribute.String("outcome", tt.outcome)); n != 1 {
				t.Errorf("%d explanations are counted as %s, want 1", n, tt.outcome)
			}
		})
	}
}

// TestAnExplanationHasNoValues searches what crossed and what is logged for the request.
func TestAnExplanationHasNoValues(t *testing.T) {
	r := examining(t, supervisortest.New(t), rehearsaltest.Allowing(`input.x`), rehearsaltest.Allowing(`{ some p in input.ps; p == concat("", [input.x, "1"]) }`))
	c := r.subject(t, rehearsaltest.Request(map[string]any{"x": "secret", "ps": []any{"secret2", "secret3"}}, time.Unix(1_700_000_000, 0)))
	causes := r.explained(t, c, denied(authz.FailureUndefined))
	encoded, err := json.Marshal(causes)
	if err != nil || len(causes) != 2 {
		t.Fatalf("got %v, %v; want the condition, and the rule that it has replaced", causes, err)
	}
	for _, text := range []string{string(encoded), r.log.String()} {
		if bytes.Contains([]byte(text), []byte("secret")) {
			t.Errorf("%s has a value of the request", text)
		}
	}
}

// TestACauseThatOnlyTheLivePolicyHasSaysSo: its line is not one of the experiment.
func TestACauseThatOnlyTheLivePolicyHasSaysSo(t *testing.T) {
	r := examining(t, supervisortest.New(t), rehearsaltest.Allowing(`input.x == "a"`), rehearsaltest.Allowing(`input.x in {"a", "b"}`))
	c := r.subject(t, rehearsaltest.Request(map[string]any{"x": "b"}, time.Unix(1_700_000_000, 0)))
	c.Decision = denied(authz.FailureUndefined)
	var got []string
	for _, cause := range r.explained(t, c, authz.Decision{Effect: authz.Allow}) {
		got = append(got, cause.Shown())
	}
	if want := []string{`input.x in {"a", "b"}`, `(live policy) input.x == "a"`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
