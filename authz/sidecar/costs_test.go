package sidecar_test

import (
	"context"
	"maps"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// costs returns the decisions that are counted by policy and path, of which each series has
// one of time too.
func (m meter) costs(t *testing.T) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	decisions, timed := map[string]int64{}, map[string]float64{}
	for _, scope := range all.ScopeMetrics {
		for _, found := range scope.Metrics {
			switch data := found.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if found.Name == "understudy.decisions" {
						policy, _ := p.Attributes.Value("policy")
						path, _ := p.Attributes.Value("way")
						decisions[policy.AsString()+" "+path.AsString()] = p.Value
					}
				}
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					if found.Name == "understudy.decision.time" {
						policy, _ := p.Attributes.Value("policy")
						path, _ := p.Attributes.Value("way")
						timed[policy.AsString()+" "+path.AsString()] = p.Value
					}
				}
			}
		}
	}
	for series := range decisions {
		if timed[series] <= 0 {
			t.Errorf("%s took %v s, want some time", series, timed[series])
		}
	}
	if len(timed) != len(decisions) {
		t.Errorf("%d series have times and %d decisions, want as many", len(timed), len(decisions))
	}
	return decisions
}

// TestCostsAreByTheWayOfADecision: each live decision is counted once, by its policy and by
// how it was made, for all versions of the policy together; the series end with it.
func TestCostsAreByTheWayOfADecision(t *testing.T) {
	t.Parallel()
	r := newCaching(t, policy("a", allowIf(`input.x == "a"`)))
	want := map[string]int64{}
	check := func(when string, policy *adminpb.Policy, ask func(), series string, n int64) {
		t.Helper()
		if policy != nil {
			r.feed.awaitApplied(t, r.feed.put(webName, authz.PolicyState{Policy: policy}))
		}
		for range n {
			ask()
		}
		if series != "" {
			want[series] += n
		}
		if got := r.costs(t); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", when, got, want)
		}
	}
	x := func() { r.ask(t, map[string]any{"x": "a"}, time.Unix(1, 0)) }
	check("before the first", nil, x, "", 0)
	check("a first request", nil, x, "web miss", 1)
	check("the same request", nil, x, "web hit", 3)
	check("a request that is read whole", nil, func() { r.Check(t.Context(), request("GET", nil)) }, "web not_cached", 1)
	check("a policy of which no decision is cached", policy("b", allowIf(`rand.intn(input.x, 2) < 3`)), x, "web miss", 2)
	check("two values of a rule", policy("c", "package envoy.authz\nallow := input.x\nallow := 1"), x, "web failed", 2)
	check("no rules", policy("d", ""), x, "web default", 1)
	other := func() {
		ask := request("GET", nil)
		ask.Policy = "other"
		r.Check(t.Context(), ask)
	}
	check("a policy that is not there", nil, other, " default", 2)
	want = map[string]int64{" default": 2}
	r.feed.awaitApplied(t, r.feed.put(webName, authz.PolicyState{}))
	check("deleted", nil, x, " default", 1)
	check("created again, one that does not compile", policy("e", nonsense), x, "web not_ready", 1)
}
