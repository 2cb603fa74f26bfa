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
	// count are of all requests, and allowed are those that the live policy allows; 0 if that is not known.
	count, all, allowed int64
}

// isWorth reports whether the verdict names the endpoint: a tenth of what the live policy allows there would be
// newly denied, or half of all requests would be decided otherwise.
//
// Half is more than what scanning and retries make of an endpoint that works; but a scanner is denied before, too.
func (h *hit) isWorth() bool {
	tenth := h.kind == adminpb.Report_NEWLY_DENIED && h.allowed > 0 && 10*h.count >= h.allowed
	return h.count >= minHit && (tenth || 2*h.count >= h.all)
}

// whole is how many requests count is of, with words for which of the endpoint's.
func (h *hit) whole() (n int64, words string) {
	if h.kind == adminpb.Report_NEWLY_DENIED && h.allowed > 0 && h.allowed < h.all {
		return h.allowed, " that the live policy allows"
	}
	return h.all, ""
}

// worstEndpoint says of which endpoint a tenth of what the live policy allows would be newly denied, or half of the
// requests newly allowed: "90 of 90 requests of GET /orders/list would be newly denied". A share of all requests is
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
	whole, words := worst.whole()
	if p := report.PartOf(r, worst.kind); p.Count == worst.count && p.Whole == whole && !p.Estimated {
		return ""
	}
	// Callers write methods and paths, and a verdict is also said where nobody escapes it.
	at := diagnostics.Clean(worst.method + " " + worst.path)
	return report.Number(worst.count) + " of " + Counted(whole, "request") + " of " + at + words + " " + Kinds[rankOf(worst.kind)].Clause
}

// hits are the endpoints that the verdict may name: without the requests that somebody has accepted or expects.
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
		sums[at].all, sums[at].allowed = max(sums[at].all, d.EndpointRequestCount), max(sums[at].allowed, d.EndpointAllowedCount)
	}
	for _, h := range sums {
		if h.isWorth() {
			found = append(found, *h)
		}
	}
	return found
}
