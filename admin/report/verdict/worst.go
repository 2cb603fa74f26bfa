package verdict

import (
	"cmp"
	"slices"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz/diagnostics"
)

// minHit is how many requests of an endpoint have to be decided otherwise before the verdict names it.
//
// Fewer than ten requests of one endpoint are no pattern yet, and the list of groups has them.
const minHit = 10

// hit is how many of the requests of an endpoint are decided otherwise.
type hit struct {
	kind         adminpb.Report_Kind
	method, path string
	count, all   int64
}

// worstEndpoint says of which endpoint at least half of the requests would be newly denied or newly
// allowed: "90 of 90 requests of GET /orders/list would be newly denied". A share of all requests is
// thinned by anyone who asks for other things, and this is not. Of several it is one of the gravest
// kind, and of those the one with the most such requests. It is empty if there is none, and where it
// would repeat what the verdict says of all requests.
func worstEndpoint(r *adminpb.Report) string {
	found := hits(r)
	if len(found) == 0 {
		return ""
	}
	worst := slices.MinFunc(found, func(a, b hit) int {
		return cmp.Or(
			cmp.Compare(rankOf(a.kind), rankOf(b.kind)), cmp.Compare(b.count, a.count), cmp.Compare(a.path, b.path), cmp.Compare(a.method, b.method),
		)
	})
	if p := report.PartOf(r, worst.kind); p.Count == worst.count && p.Whole == worst.all && !p.Estimated {
		return ""
	}
	// Callers write methods and paths, and a verdict is also said where nobody escapes it.
	at := diagnostics.Clean(worst.method + " " + worst.path)
	return report.Number(worst.count) + " of " + Counted(worst.all, "request") + " of " + at + " " + Kinds[rankOf(worst.kind)].Clause
}

// hits are the endpoints of which at least half of the requests are decided otherwise, and nobody has
// accepted or expects it.
//
// Half is more than what scanning and retries make of an endpoint that works.
func hits(r *adminpb.Report) (found []hit) {
	sums := make(map[hit]*hit)
	for _, d := range r.Differences {
		if report.IsLeftOut(r, d) || d.Kind != adminpb.Report_NEWLY_DENIED && d.Kind != adminpb.Report_NEWLY_ALLOWED {
			continue
		}
		at := hit{kind: d.Kind, method: d.Method, path: d.Path}
		if sums[at] == nil {
			sums[at] = &hit{kind: d.Kind, method: d.Method, path: d.Path}
		}
		sums[at].count += d.RequestCount
		sums[at].all = max(sums[at].all, d.EndpointRequestCount)
	}
	for _, h := range sums {
		if h.count >= minHit && 2*h.count >= h.all {
			found = append(found, *h)
		}
	}
	return found
}
