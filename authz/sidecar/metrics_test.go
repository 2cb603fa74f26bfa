package sidecar

import (
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// TestPoliciesThatAreNeverVerifiedAreNamed with the reason for that.
func TestPoliciesThatAreNeverVerifiedAreNamed(t *testing.T) {
	for want, policy := range map[string]*adminpb.Policy{
		"":                  allowing("1", `input.x == "a"`),
		"not_deterministic": allowing("1", `{ rand.intn("x", 2) == 1; input.x == "b" }`),
		"no_rules":          {Name: string(web)},
	} {
		_, _, reader := holding(t, policy)
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				if gauge, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == "understudy.verification.excluded" {
					for _, p := range gauge.DataPoints {
						reason, _ := p.Attributes.Value("reason")
						got += reason.String()
					}
				}
			}
		}
		if got != want {
			t.Errorf("the reasons are %q, want %q", got, want)
		}
	}
}

// TestChangesForgetNothing: a change of another policy, or of an etag, leaves what is
// cached of a live policy, also next to an experiment that is equal to it.
func TestChangesForgetNothing(t *testing.T) {
	s, _, _ := holding(t, allowing("1", "input.x"))
	same := allowing("1", "input.x")
	change := func(etag string) *entry {
		same.Etag = etag
		next := s.with(t.Context(), s.current.Load(), authz.Update{
			Policies: map[authz.PolicyName]authz.PolicyState{web: state(same, trial("e", same))},
		})
		s.resizeCaches(next)
		s.current.Store(next)
		return next.policies[web]
	}
	before := change("2")
	after := change("3")
	if after.live.Policy != before.live.Policy || after.experiments[0].Candidate != before.experiments[0].Candidate || !after.live.Policy.Caching() {
		t.Error("what is cached is forgotten")
	}
}
