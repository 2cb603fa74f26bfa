package evidence_test

import (
	"fmt"
	"testing"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

func BenchmarkCount(b *testing.B) {
	tally := newTally()
	one := request{method: "GET", path: "/api/v1/users/17/items", principal: "spiffe://cluster/ns/shop/sa/web"}
	for name, r := range map[string]request{
		"unchanged": {live: allowed, experiment: allowed},
		"differing": {live: allowed, experiment: denied, labels: []authz.Label{{Name: "user", Value: "eve"}}},
	} {
		r.method, r.path, r.principal = one.method, one.path, one.principal
		c := comparison(tally, r)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Pattern = tally.Patterns().Of(evidence.Method(c.Request.Method), c.Request.Path)
				tally.Count("live", c)
			}
		})
	}
}

// records are of so many nodes with 60 groups each.
func records(nodes int) []*evidencepb.Evidence {
	var out []*evidencepb.Evidence
	for n := range nodes {
		tally := newTally()
		for i := range 600 {
			count(tally, "live", request{
				method: "GET", path: fmt.Sprintf("/place%c/part%c", 'a'+i%10, 'a'+i/10%6), principal: fmt.Sprint(n, i), live: allowed, experiment: denied,
			})
		}
		out = append(out, tally.Snapshot(begun))
	}
	return out
}

func BenchmarkSnapshot(b *testing.B) {
	tally := newTally()
	for i := range 600 {
		count(tally, "live", request{method: "GET", path: fmt.Sprintf("/place%c/part%c", 'a'+i%10, 'a'+i/10%6), principal: fmt.Sprint(i), live: allowed, experiment: denied})
	}
	b.ReportAllocs()
	for b.Loop() {
		tally.Snapshot(begun)
	}
}

func BenchmarkMerge(b *testing.B) {
	all := records(1000)
	b.ReportAllocs()
	for b.Loop() {
		merge(&evidencepb.Evidence{}, all...)
	}
}

// BenchmarkCountCallers counts differences of ever other callers: there are more than a list has.
func BenchmarkCountCallers(b *testing.B) {
	tally := newTally()
	var all []evidence.Comparison
	for i := range 1000 {
		all = append(all, comparison(tally, request{
			method: "GET", path: "/api/v1/users", principal: fmt.Sprint("spiffe://cluster/ns/shop/sa/", i), live: allowed, experiment: denied,
		}))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tally.Count("live", all[i%len(all)])
	}
}
