package table_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// TestOracle: OPA alone, with nothing of ours, decides each request by both sides at the time of the
// request, and comes to the counts of the table.
func TestOracle(t *testing.T) {
	for _, r := range readRows(t) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			live, candidate := prepare(t, r.live), prepare(t, r.candidate)
			for _, traffic := range traffics {
				got, want := count(t, live, candidate, r.requests(traffic)), *r.truths[traffic]
				want.seen, want.verdict = nil, ""
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(truth{})); diff != "" {
					t.Errorf("%s: -row +OPA:\n%s", traffic, diff)
				}
			}
		})
	}
}

// count counts how two sides decide requests.
func count(t *testing.T, live, candidate *rego.PreparedEvalQuery, requests []*request) (out truth) {
	t.Helper()
	for _, q := range requests {
		before, after := decide(t, live, q), decide(t, candidate, q)
		out.compared++
		switch {
		case (after == undefined || after == failed) && after != before:
			out.failed++
		case allows(before) && !allows(after):
			out.denied++
		case !allows(before) && allows(after):
			out.allowed++
		case before != after:
			out.changed++
		}
	}
	return out
}

// undefined and failed stand for the value of a rule that has none, and of one that ends with an error.
// Neither is JSON.
const (
	undefined = "undefined"
	failed    = "failed"
)

// decide returns the value of envoy.authz.allow as JSON.
func decide(t *testing.T, by *rego.PreparedEvalQuery, q *request) string {
	t.Helper()
	results, err := by.Eval(t.Context(), rego.EvalInput(q.input), rego.EvalTime(q.at))
	if err != nil {
		return failed
	}
	if len(results) == 0 {
		return undefined
	}
	encoded, err := json.Marshal(results[0].Expressions[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// allows reports whether a value allows: true, or an object whose member allowed is.
func allows(value string) bool {
	var object struct{ Allowed bool }
	_ = json.Unmarshal([]byte(value), &object) // fails for a boolean
	return value == "true" || object.Allowed
}

// prepare compiles one side.
func prepare(t *testing.T, p policy) *rego.PreparedEvalQuery {
	t.Helper()
	options := []func(*rego.Rego){rego.Query("data.envoy.authz.allow"), rego.Store(inmem.NewFromObject(p.data))}
	for name, text := range p.modules {
		options = append(options, rego.Module(name, text))
	}
	prepared, err := rego.New(options...).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &prepared
}
