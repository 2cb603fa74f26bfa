package report

import (
	"cmp"
	"slices"

	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// reportCounts turns counts as they are kept into those of a report.
func reportCounts(c *evidencepb.Counts) *adminpb.Report_ReportCounts {
	allows := &adminpb.Report_ResultCounts{
		UnchangedCount: c.GetBothAllow(), ResponseChangedCount: c.GetAllowedChanged(),
		ResultChangedCount: c.GetNewlyDenied(), FailedCount: c.GetAllowedFailed(),
	}
	denies := &adminpb.Report_ResultCounts{
		UnchangedCount: c.GetBothDeny(), ResponseChangedCount: c.GetDeniedChanged(),
		ResultChangedCount: c.GetNewlyAllowed(), FailedCount: c.GetDeniedFailed(),
	}
	for _, v := range []*adminpb.Report_ResultCounts{allows, denies} {
		v.RequestCount = v.UnchangedCount + v.ResponseChangedCount + v.ResultChangedCount + v.FailedCount
	}
	out := &adminpb.Report_ReportCounts{
		RequestCount:     allows.RequestCount + denies.RequestCount,
		UnchangedCount:   allows.UnchangedCount + denies.UnchangedCount,
		NewlyDeniedCount: allows.ResultChangedCount, NewlyAllowedCount: denies.ResultChangedCount,
		ResponseChangedCount: allows.ResponseChangedCount + denies.ResponseChangedCount,
		FailedCount:          allows.FailedCount + denies.FailedCount,
		LiveFailedCount:      c.GetLiveFailed(), DroppedCount: c.GetDropped(),
	}
	if allows.RequestCount > 0 {
		out.PolicyAllows = allows
	}
	if denies.RequestCount > 0 {
		out.PolicyDenies = denies
	}
	return out
}

// countsOf sums up pairs: what was counted, and what that stands for and how sure it is, which are nil
// if every request compared stands for itself.
func countsOf(pairs ...*evidencepb.Pair) (counts, estimate *adminpb.Report_ReportCounts, shares []*adminpb.Report_EstimatedShare) {
	counted, weights, squares := &evidencepb.Counts{}, &evidencepb.Counts{}, &evidencepb.Counts{}
	var lost int64
	weighted := false
	for _, p := range pairs {
		addCounts(counted, p.GetCounts())
		addCounts(weights, weightsOf(p))
		addCounts(squares, squaresOf(p))
		lost += lostOf(p)
		weighted = weighted || p.GetWeights() != nil
	}
	counts = reportCounts(counted)
	counts.LostCount, counts.CallerCount, counts.EndpointCount = lost, callers(counts, pairs), endpoints(pairs)
	if weighted {
		estimate = reportCounts(weights)
		estimate.LostCount = estimate.DroppedCount
		shares = estimatedShares(counts, estimate, reportCounts(squares))
	}
	return counts, estimate, shares
}

// weightsOf returns what the counts of a pair stand for. What chance left out is none of it.
func weightsOf(p *evidencepb.Pair) *evidencepb.Counts {
	of := p.GetWeights()
	if of == nil {
		of = p.GetCounts()
	}
	weights := &evidencepb.Counts{}
	addCounts(weights, of)
	weights.Dropped = max(lostOf(p), p.GetWeights().GetDropped()-p.GetDrops()[evidence.Sampled]) // what is lost stands for itself at least
	return weights
}

// squaresOf returns the sums of the squares of the weights of a pair.
func squaresOf(p *evidencepb.Pair) *evidencepb.Counts {
	if p.GetWeights() == nil {
		return p.GetCounts()
	}
	return p.GetSquares()
}

// lostOf returns how many requests of a pair were not compared, and not by chance.
func lostOf(p *evidencepb.Pair) int64 {
	return max(0, p.GetCounts().GetDropped()-p.GetDrops()[evidence.Sampled])
}

// ByChance reports whether chance left requests out: what was compared stands for them.
func ByChance(d *adminpb.Report_Drop) bool { return d.GetReason() == evidence.Sampled }

// addCounts adds to counts.
func addCounts(to, from *evidencepb.Counts) {
	to.BothAllow += from.GetBothAllow()
	to.AllowedChanged += from.GetAllowedChanged()
	to.NewlyDenied += from.GetNewlyDenied()
	to.AllowedFailed += from.GetAllowedFailed()
	to.BothDeny += from.GetBothDeny()
	to.DeniedChanged += from.GetDeniedChanged()
	to.NewlyAllowed += from.GetNewlyAllowed()
	to.DeniedFailed += from.GetDeniedFailed()
	to.LiveFailed += from.GetLiveFailed()
	to.Dropped += from.GetDropped()
}

// callers returns how many distinct callers the requests of pairs have that one side allows. A
// sketch may be off by a fifth and more; each caller has asked at least once.
func callers(counts *adminpb.Report_ReportCounts, pairs []*evidencepb.Pair) int64 {
	var stored [][]byte
	for _, p := range pairs {
		stored = append(stored, p.GetAllowedCallers().GetSet(), p.GetNewlyAllowedCallers().GetSet())
	}
	n, _ := evidence.PairCallers(stored...)
	return min(n, Allowed(counts))
}

// endpoints returns how many distinct methods and patterns such requests have.
func endpoints(pairs []*evidencepb.Pair) int64 {
	distinct := make(map[endpoint]bool)
	for _, p := range pairs {
		for _, e := range p.GetEndpoints() {
			if e.GetAllowed() > 0 {
				distinct[endpoint{e.GetMethod(), e.GetPattern()}] = true
			}
		}
	}
	return int64(len(distinct))
}

// setCounts writes the counts of the present pair.
func setCounts(r *adminpb.Report, p *evidencepb.Pair) {
	r.StartTime = p.GetFirstTime()
	var c *adminpb.Report_ReportCounts
	c, r.Estimate, r.EstimatedShares = countsOf(p)
	r.Bounds, r.WeekHours = boundsOf(c, r.Estimate, r.EstimatedShares, p), evidence.Hours(p.GetHours())
	r.RequestCount, r.UnchangedCount, r.NewlyDeniedCount = c.RequestCount, c.UnchangedCount, c.NewlyDeniedCount
	r.NewlyAllowedCount, r.ResponseChangedCount = c.NewlyAllowedCount, c.ResponseChangedCount
	r.FailedCount, r.LiveFailedCount, r.DroppedCount = c.FailedCount, c.LiveFailedCount, c.DroppedCount
	r.PolicyAllows, r.PolicyDenies, r.LostCount = c.PolicyAllows, c.PolicyDenies, c.LostCount
	r.CallerCount, r.EndpointCount = c.CallerCount, c.EndpointCount
}

// Counts returns the counts of a report's present pair in the form that those of all pairs
// have.
func Counts(r *adminpb.Report) *adminpb.Report_ReportCounts {
	return &adminpb.Report_ReportCounts{
		RequestCount: r.GetRequestCount(), UnchangedCount: r.GetUnchangedCount(),
		NewlyDeniedCount: r.GetNewlyDeniedCount(), NewlyAllowedCount: r.GetNewlyAllowedCount(),
		ResponseChangedCount: r.GetResponseChangedCount(), FailedCount: r.GetFailedCount(),
		LiveFailedCount: r.GetLiveFailedCount(), DroppedCount: r.GetDroppedCount(),
		PolicyAllows: r.GetPolicyAllows(), PolicyDenies: r.GetPolicyDenies(), LostCount: r.GetLostCount(),
		CallerCount: r.GetCallerCount(), EndpointCount: r.GetEndpointCount(),
	}
}

// WithCounts returns a report that has counts alone: the reverse of [Counts].
func WithCounts(c *adminpb.Report_ReportCounts) *adminpb.Report {
	return &adminpb.Report{
		RequestCount: c.GetRequestCount(), UnchangedCount: c.GetUnchangedCount(),
		NewlyDeniedCount: c.GetNewlyDeniedCount(), NewlyAllowedCount: c.GetNewlyAllowedCount(),
		ResponseChangedCount: c.GetResponseChangedCount(), FailedCount: c.GetFailedCount(),
		LiveFailedCount: c.GetLiveFailedCount(), DroppedCount: c.GetDroppedCount(),
		PolicyAllows: c.GetPolicyAllows(), PolicyDenies: c.GetPolicyDenies(), LostCount: c.GetLostCount(),
		CallerCount: c.GetCallerCount(), EndpointCount: c.GetEndpointCount(),
	}
}

// drops are why requests of a pair were not compared, the most frequent reason first.
func drops(p *evidencepb.Pair) (out []*adminpb.Report_Drop) {
	for reason, n := range p.GetDrops() {
		out = append(out, &adminpb.Report_Drop{Reason: reason, RequestCount: n})
	}
	slices.SortFunc(out, func(a, b *adminpb.Report_Drop) int {
		return cmp.Or(cmp.Compare(b.RequestCount, a.RequestCount), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}
