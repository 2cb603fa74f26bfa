package evidence_test

import (
	"fmt"
	"testing"

	"understudy/authz"
	"understudy/authz/evidence"
)

// TestCallersByLabels: without a principal the labels name the caller, of requests that are decided alike too. The label
// caller does so alone.
func TestCallersByLabels(t *testing.T) {
	label := func(name, value string) authz.Label { return authz.Label{Name: name, Value: value} }
	for name, c := range map[string]struct {
		labels func(i int) []authz.Label
		want   int64
	}{
		"no labels": {func(int) []authz.Label { return nil }, 0},
		"labels":    {func(i int) []authz.Label { return []authz.Label{label("tenant", "a"), label("user", fmt.Sprint(i%5))} }, 5},
		"the caller": {func(i int) []authz.Label {
			return []authz.Label{label("request", fmt.Sprint(i)), label("caller", fmt.Sprint(i%3)), label("tenant", fmt.Sprint(i%4))}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			tally := newTally()
			for i := range 60 {
				r := request{method: "GET", path: "/orders", labels: c.labels(i), live: allowed, experiment: allowed}
				if i%2 == 0 {
					r.experiment = denied
				}
				count(tally, "live", r)
			}
			known := tally.Snapshot(begun).GetPairs()[0].GetAllowedCallers()
			requests := int64(0)
			if c.want > 0 {
				requests = 60
			}
			if got := evidence.Callers(known.GetSet()); got != c.want || known.GetRequests() != requests {
				t.Errorf("%d callers of %d requests, want %d of %d", got, known.GetRequests(), c.want, requests)
			}
		})
	}
}
