package sidecar_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
)

// experiments returns the experiments that a counter has series of, with the sum of each.
func (m meter) experiments(t *testing.T, name string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, found := range scope.Metrics {
			if data, ok := found.Data.(metricdata.Sum[int64]); ok && found.Name == name {
				for _, p := range data.DataPoints {
					experiment, _ := p.Attributes.Value("experiment")
					policy, _ := p.Attributes.Value("policy")
					out[policy.AsString()+" "+experiment.AsString()] += p.Value
				}
			}
		}
	}
	return out
}

// TestSeriesFollowTheExperiments: they begin with a zero when the experiment does, go on when
// its content changes, and end when it is stopped or deleted. A last export at the end of the
// process has those that were there.
func TestSeriesFollowTheExperiments(t *testing.T) {
	m := newMeter()
	feed := newFeed()
	s, stop := startWith(t, feed, newRecording(), func(c *sidecar.Config) { c.Meters = m })
	t.Cleanup(stop)
	apply := func(experiments ...*adminpb.PolicyExperiment) {
		t.Helper()
		feed.awaitApplied(t, feed.put(webName, authz.PolicyState{Policy: policy("live", allowIf(onlyGET)), Experiments: experiments}))
	}
	shows := func(what string, want map[string]int64) {
		t.Helper()
		testkit.Await(t, what, func() bool {
			for _, name := range []string{"understudy.preview.comparisons", "understudy.preview.dropped"} {
				got := m.experiments(t, name)
				for experiment, n := range want {
					if sum, ok := got[experiment]; !ok || name == "understudy.preview.comparisons" && sum != n {
						return false
					}
				}
				if len(got) != len(want) {
					return false
				}
			}
			return true
		})
	}
	apply()
	shows("no series without experiments", nil)
	apply(experiment("a", "1", allowIf(onlyGET)), experiment("b", "1", allowIf(onlyPOST)))
	shows("a zero of both", map[string]int64{"web web/a": 0, "web web/b": 0})
	s.Check(t.Context(), request("GET", nil))
	shows("a comparison of both", map[string]int64{"web web/a": 1, "web web/b": 1})
	apply(experiment("a", "2", allowIf(onlyPOST)))
	shows("that a goes on and b has ended", map[string]int64{"web web/a": 1})
	s.Check(t.Context(), request("GET", nil))
	shows("a comparison more", map[string]int64{"web web/a": 2})
	stop()
	shows("the same at the end", map[string]int64{"web web/a": 2})
}
