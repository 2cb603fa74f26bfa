package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// kinds are the kinds of differences, the gravest first: a caller who is turned away, one
// who gets in, no decision at all, another answer, and what is no fault of the experiment.
var kinds = []adminpb.Report_Kind{
	adminpb.Report_NEWLY_DENIED, adminpb.Report_NEWLY_ALLOWED, adminpb.Report_FAILED, adminpb.Report_RESPONSE_CHANGED,
	adminpb.Report_LIVE_FAILED,
}

// gravity is the place of a kind among kinds. One that is not known comes last.
func gravity(k adminpb.Report_Kind) int {
	if i := slices.Index(kinds, k); i >= 0 {
		return i
	}
	return len(kinds)
}

// endpoint is a method and a path pattern.
type endpoint struct{ method, pattern string }

// setDifferences writes the groups of a pair, the gravest kinds and in them those of most callers
// first, and counts by kind what there is no room for.
func setDifferences(r *adminpb.Report, p *evidencepb.Pair) {
	totals, allowed := endpointTotals(p), endpointsAllowed(p)
	var failures []*evidencepb.Group
	for _, g := range p.GetGroups() {
		if g.GetKind() == int32(adminpb.Report_LIVE_FAILED) {
			failures = append(failures, g)
			continue
		}
		d := difference(g)
		at := endpoint{d.Method, d.Path}
		d.EndpointRequestCount, d.EndpointAllowedCount = totals[at], allowed[at]
		d.Noise = p.GetNoise().GetKinds()[g.GetKind()] > 0
		r.Differences = append(r.Differences, d)
	}
	slices.SortStableFunc(r.Differences, func(a, b *adminpb.Report_Difference) int {
		return cmp.Or(cmp.Compare(gravity(a.Kind), gravity(b.Kind)), cmp.Compare(b.CallerCount, a.CallerCount), cmp.Compare(b.RequestCount, a.RequestCount),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Method, b.Method), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Reason, b.Reason),
			slices.Compare(a.Changes, b.Changes), cmp.Compare(a.GroupId, b.GroupId))
	})
	other := make(map[adminpb.Report_Kind]int64)
	for kind, n := range p.GetOther() {
		other[adminpb.Report_Kind(kind)] += n
	}
	if len(failures) > 0 {
		d := liveFailures(failures)
		d.RequestCount += other[d.Kind]
		delete(other, d.Kind)
		r.Differences = append(r.Differences, d)
	}
	addOthers(r, other, maxDifferences)
}

// addOthers cuts the differences of a report and adds those that go, and the counts given, to
// the others.
func addOthers(r *adminpb.Report, other map[adminpb.Report_Kind]int64, keep int) {
	for _, d := range r.Differences[min(keep, len(r.Differences)):] {
		other[d.Kind] += d.RequestCount
	}
	r.Differences = firstOf(r.Differences, keep)
	for _, k := range r.OtherDifferences {
		other[k.Kind] += k.RequestCount
	}
	r.OtherDifferences = kindCounts(other)
}

// kindCounts are counts by kind, the gravest first, without those of 0.
func kindCounts(of map[adminpb.Report_Kind]int64) (out []*adminpb.Report_KindCount) {
	for _, kind := range slices.SortedFunc(maps.Keys(of), func(a, b adminpb.Report_Kind) int {
		return cmp.Or(cmp.Compare(gravity(a), gravity(b)), cmp.Compare(a, b))
	}) {
		if of[kind] > 0 {
			out = append(out, &adminpb.Report_KindCount{Kind: kind, RequestCount: of[kind]})
		}
	}
	return out
}

// endpointTotals are the denominators: all requests compared by method and pattern. Where
// none was kept, as when two nodes fold a path differently, it is the sum of the groups: a
// group is never more than what it is a part of.
func endpointTotals(p *evidencepb.Pair) map[endpoint]int64 {
	totals, groups := make(map[endpoint]int64), make(map[endpoint]int64)
	for _, e := range p.GetEndpoints() {
		totals[endpoint{e.GetMethod(), e.GetPattern()}] += e.GetCount()
	}
	for _, g := range p.GetGroups() {
		groups[endpoint{g.GetMethod(), g.GetPattern()}] += g.GetCount()
	}
	for at, n := range groups {
		totals[at] = max(totals[at], n)
	}
	return totals
}

// endpointsAllowed are the requests compared that the live policy allows, by method and pattern.
func endpointsAllowed(p *evidencepb.Pair) map[endpoint]int64 {
	allowed := make(map[endpoint]int64)
	for _, e := range p.GetEndpoints() {
		allowed[endpoint{e.GetMethod(), e.GetPattern()}] += e.GetAllowed()
	}
	for _, g := range p.GetGroups() {
		if at := (endpoint{g.GetMethod(), g.GetPattern()}); g.GetKind() == int32(adminpb.Report_NEWLY_ALLOWED) {
			allowed[at] = max(0, allowed[at]-g.GetCount())
		}
	}
	return allowed
}

// difference turns a group into a difference, but for what depends on other groups.
func difference(g *evidencepb.Group) *adminpb.Report_Difference {
	d := identity(g)
	d.RequestCount, d.FirstTime, d.LastTime = g.GetCount(), g.GetFirstTime(), g.GetLastTime()
	// A sketch may be off by a fifth and more; each caller has asked at least once.
	d.CallerCount = min(evidence.Callers(g.GetCallers()), g.GetCount())
	if d.Kind != adminpb.Report_LIVE_FAILED { // that counts against no requirement
		d.GroupId = GroupID(g)
	}
	for _, e := range firstOf(g.GetExamples(), maxExamples) {
		d.Examples = append(d.Examples, example(e))
	}
	if d.CallerCount == 1 && len(d.Examples) > 0 {
		d.Principal = d.Examples[0].Principal
	}
	for _, c := range firstOf(g.GetCauses(), maxCauses) {
		d.Causes = append(d.Causes, &adminpb.Report_Expression{File: c.GetFile(), Line: c.GetLine(), Text: c.GetText()})
	}
	return d
}

// example turns one example into that of a report. Whatever a sidecar of another version
// published, no query gets into a report.
func example(e *evidencepb.Example) *adminpb.Report_Example {
	path, _, _ := strings.Cut(e.GetPath(), "?")
	return &adminpb.Report_Example{
		Method: e.GetMethod(), Path: path, Principal: e.GetPrincipal(), Labels: maps.Clone(e.GetLabels()),
		PolicyStatus: e.GetPolicyStatus(), ExperimentStatus: e.GetExperimentStatus(), DecisionId: e.GetDecisionId(),
		DecideTime: e.GetDecideTime(),
	}
}

// Trim returns a copy of a report that has at most so many bytes as a message, if its counts,
// results and shortened acceptances alone are not larger. What goes first is what a later reader misses least: the
// minutes, examples, labels, then the least grave differences, which are counted as other.
func Trim(r *adminpb.Report, size int) *adminpb.Report {
	r = proto.CloneOf(r)
	steps := []func(){
		func() { r.Points = nil },
		func() { keepExamples(r, 1) },
		func() { keepExamples(r, 0) },
		func() { r.Labels = nil },
	}
	for keep := len(r.GetDifferences()) / 2; keep > 0; keep /= 2 {
		steps = append(steps, func() { addOthers(r, make(map[adminpb.Report_Kind]int64), keep) })
	}
	steps = append(steps,
		func() { addOthers(r, make(map[adminpb.Report_Kind]int64), 0) },
		func() { shortenReasons(r) },
		func() {
			r.Items, r.Drops, r.SilentNodes, r.WeekHours, r.AllPairsBounds = nil, nil, nil, nil, nil
		},
	)
	for _, step := range steps {
		if proto.Size(r) <= size {
			break
		}
		step()
	}
	return r
}

// shortenReasons leaves of acceptances who accepted which group or item, of expectations what is expected of
// all callers alike, and of both the beginning of why.
func shortenReasons(r *adminpb.Report) {
	for _, s := range r.GetExpectations() {
		s.Expectation.Labels, s.Expectation.Reason = nil, aip.Cut(s.Expectation.GetReason(), maxKeptReason)
	}
	for _, a := range r.GetAcceptances() {
		a.Difference, a.Item, a.Reason = nil, nil, aip.Cut(a.Reason, maxKeptReason)
	}
}

// keepExamples keeps so many examples of each difference.
func keepExamples(r *adminpb.Report, n int) {
	for _, d := range r.GetDifferences() {
		d.Examples = firstOf(d.Examples, n)
	}
}
