package report

import (
	"math"

	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// minKnown is the share of the requests of a part that have to have a caller that is known for a bound
// over callers.
const minKnown = 0.95

// boundCallers are the callers that a bound is about.
type boundCallers struct {
	kind adminpb.Report_Kind
	// whole are those of the requests that the kind is a part of, and differing those of the kind.
	whole, differing func(*evidencepb.Pair) *evidencepb.Callers
}

// effectChanges are the kinds that there are bounds of.
var effectChanges = []boundCallers{
	{adminpb.Report_NEWLY_DENIED, (*evidencepb.Pair).GetAllowedCallers, (*evidencepb.Pair).GetNewlyDeniedCallers},
	{adminpb.Report_NEWLY_ALLOWED, (*evidencepb.Pair).GetDeniedCallers, (*evidencepb.Pair).GetNewlyAllowedCallers},
}

// boundsOf returns what the comparisons of pairs exclude, the counts of which are given: of each kind
// over callers, if they are known, and over requests.
func boundsOf(
	counts, estimate *adminpb.Report_ReportCounts, shares []*adminpb.Report_EstimatedShare, pairs ...*evidencepb.Pair,
) (out []*adminpb.Report_Bound) {
	if lossy(counts, estimate) {
		return nil
	}
	for _, by := range effectChanges {
		p := partOf(counts, estimate, shares, by.kind)
		callers, known := by.over(p, pairs), by.known(p, pairs)
		requests := &adminpb.Report_Bound{Unit: adminpb.Report_Bound_REQUESTS, Count: int64(p.sample() + rounding), Estimated: p.Estimated}
		requests.DifferingCount = p.differingOf(requests.Count)
		for _, b := range []*adminpb.Report_Bound{callers, requests} {
			if b.GetCount() > 0 {
				k, n := float64(b.DifferingCount), float64(b.Count)
				b.Kind, b.UpperRatio, b.WatchedUpperRatio, b.KnownCallerRatio = by.kind, upperLimit(k, n, outside), watchedLimit(k, n), known
				out = append(out, b)
			}
		}
	}
	return out
}

// known is the share of the requests of a part that have a caller that is known.
func (by boundCallers) known(p Part, pairs []*evidencepb.Pair) float64 {
	if p.Whole == 0 {
		return 0
	}
	_, _, known := distinctOf(pairs, by.whole)
	return min(1, float64(known)/float64(p.Whole))
}

// over returns how many callers a bound is of, and how many of them differ; nil if too few are known. An
// estimate is taken so far off as makes the bound larger. Who was seen by a request that chance chose
// from many is less known than others: there are fewer of them by as much as there are fewer requests
// in an interval, and those who differ count as much as their requests weigh.
func (by boundCallers) over(p Part, pairs []*evidencepb.Pair) *adminpb.Report_Bound {
	n, off, known := distinctOf(pairs, by.whole)
	if p.Whole == 0 || float64(known) < minKnown*float64(p.Whole) {
		return nil
	}
	k, above, named := distinctOf(pairs, by.differing)
	b := &adminpb.Report_Bound{Unit: adminpb.Report_Bound_CALLERS, Estimated: off > 0 || p.Estimated}
	b.Count = int64(float64(min(n-off, known)) * p.sample() / float64(p.Whole))
	differing := min(k+above, named) + max(0, p.Count-named)
	b.DifferingCount = min(int64(math.Ceil(float64(differing)*p.lean())), b.Count)
	return b
}

// distinctOf returns how many distinct callers those of pairs are together, by how many there may be
// fewer or more, and how many requests they have.
func distinctOf(pairs []*evidencepb.Pair, of func(*evidencepb.Pair) *evidencepb.Callers) (n, off, requests int64) {
	var stored [][]byte
	for _, p := range pairs {
		stored = append(stored, of(p).GetSet())
		requests += of(p).GetRequests()
	}
	n, off = evidence.PairCallers(stored...)
	return n, off, requests
}

// sample is of how many requests of equal weight a bound on the share is.
func (p Part) sample() float64 {
	if p.Estimated {
		return p.Effective
	}
	return float64(p.Whole)
}

// differingOf returns how many of so many requests of equal weight differ.
func (p Part) differingOf(n int64) int64 {
	return min(n, int64(math.Ceil(p.Share()*float64(n)-rounding)))
}

// lean is by how much more the requests that differ weigh than all do; 1 if they do not.
func (p Part) lean() float64 {
	if p.Count == 0 || p.ShareWhole <= 0 {
		return 1
	}
	return max(1, p.ShareCount/float64(p.Count)*float64(p.Whole)/p.ShareWhole)
}

// BoundOf returns what the report excludes of a kind: over callers if they are known, else over
// requests; nil if that is not known.
func BoundOf(r *adminpb.Report, kind adminpb.Report_Kind) *adminpb.Report_Bound {
	if b := boundOf(r.GetBounds(), kind, adminpb.Report_Bound_CALLERS); b != nil {
		return b
	}
	return boundOf(r.GetBounds(), kind, adminpb.Report_Bound_REQUESTS)
}

// boundOf returns the bound of a kind over callers or over requests; nil if there is none.
func boundOf(bounds []*adminpb.Report_Bound, kind adminpb.Report_Kind, unit adminpb.Report_Bound_Unit) *adminpb.Report_Bound {
	for _, b := range bounds {
		if b.GetKind() == kind && b.GetUnit() == unit {
			return b
		}
	}
	return nil
}

// bound returns the share of a kind that a requirement is held against, at most, and writes it for people,
// or says why it is not known. One of callers is never taken from requests instead: of those there are
// more, so that it would be the easier to meet the less is known of callers. Of callers, each that would
// differ yet has a request that was not accepted: there are no more of them than of those.
func (m measured) bound(kind adminpb.Report_Kind, unit adminpb.Report_Bound_Unit) (share float64, have string, known bool) {
	if why := m.unknown(); why != "" {
		return 1, why, false
	}
	p, b := m.part(kind), boundOf(m.bounds, kind, unit)
	if b == nil {
		return 1, m.unbounded(kind), false
	}
	k, what := p.differingOf(b.Count), "requests "+p.Words
	of := "requests, if they are independent"
	if unit == adminpb.Report_Bound_CALLERS {
		k, what = min(b.DifferingCount, int64(math.Ceil(float64(p.Count)*p.lean()))), "callers"
		of = what
	}
	share = watchedLimit(float64(k), float64(b.Count))
	behind := Number(k) + " of " + Number(b.Count) + " " + what
	if b.Estimated {
		behind = "as precise as " + behind
	}
	behind += apart(m.report, kind)
	return share, "at most " + roughly(min(1, share), math.Ceil) + " of " + of + " (" + behind + ")", true
}

// unbounded says why there is no bound over callers, or none at all.
func (m measured) unbounded(kind adminpb.Report_Kind) string {
	switch b := boundOf(m.bounds, kind, adminpb.Report_Bound_REQUESTS); {
	case b == nil:
		return "no request compared " + m.part(kind).Words
	case b.GetKnownCallerRatio() == 0:
		return "not known: none of the requests has a caller; " + confidence + ofRequests + " is about requests"
	default:
		return "not known: only " + roughly(b.GetKnownCallerRatio(), func(x float64) float64 { return math.Floor(x + rounding) }) + " of the requests have a caller; " + confidence + ofRequests + " is about requests"
	}
}
