package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

const (
	// maxDifferences, maxSilentNodes, maxPoints, maxLabelValues, maxExamples and maxCauses are
	// the bounds that the API documents.
	maxDifferences = 200
	maxSilentNodes = 10
	maxPoints      = 60
	maxLabelValues = 10
	maxExamples    = 3
	maxCauses      = 8

	// maxKeptReason bounds, in bytes, what is left of the reason of an acceptance in a report
	// that has to be trimmed that far.
	maxKeptReason = 128
)

// Input is what a report is made of.
type Input struct {
	// Name is that of the report.
	Name string
	// PolicyEtag and ExperimentEtag are the present pair: those in the store.
	PolicyEtag, ExperimentEtag string
	// Evidence is all there is of the experiment's present content, merged, with the
	// publish_time of the latest and the longest publish_interval. Nil if there is none;
	// evidence of another content counts as none.
	Evidence *evidencepb.Evidence
	// Change is in what the present pair differs; nil if that is not known.
	Change *change.List
	// Expects are the differences that the author of the experiment expects.
	Expects []*adminpb.Expectation
	// Base is what the live policy has changed since the experiment was made.
	Base Base
	// Nodes are the live nodes that have the policy.
	Nodes []Node
}

// Node is a live node that has the policy.
type Node struct {
	// Name is the resource name.
	Name string
	// Reports says that what it last published of the experiment's present content is recent.
	Reports bool
}

// Build makes a report. It is not judged by any requirements; [SetResults] does so. Of an
// experiment that was never compared, it is a report of zeros.
func Build(in Input) *adminpb.Report {
	r := &adminpb.Report{Name: in.Name, PolicyEtag: in.PolicyEtag, ExperimentEtag: in.ExperimentEtag, RequirementsMet: true}
	setNodes(r, in.Nodes)
	setBase(r, in.Base)
	evidence := in.Evidence
	if evidence.GetExperimentEtag() != in.ExperimentEtag {
		evidence = nil
	}
	r.UpdateTime, r.PublishInterval = evidence.GetPublishTime(), evidence.GetPublishInterval()
	r.AllPairs, r.AllPairsEstimate, r.AllPairsEstimatedShares = countsOf(pairs(evidence)...)
	r.AllPairsBounds = boundsOf(r.AllPairs, r.AllPairsEstimate, r.AllPairsEstimatedShares, pairs(evidence)...)
	r.AllPairsActiveDuration = active(pairs(evidence)...)
	r.Points = points(evidence.GetPoints())
	present := pairOf(evidence.GetPairs(), in.PolicyEtag)
	r.ActiveDuration = active(present)
	setCounts(r, present)
	r.Drops = drops(present)
	setDifferences(r, present)
	setExpectations(r, in, evidence)
	setLabels(r, present.GetLabels())
	setItems(r, in.Change, present)
	if n := present.GetNoise(); n != nil {
		r.Noise = &adminpb.Report_Noise{SampledCount: n.GetSampled(), DifferedCount: n.GetDiffered()}
	}
	return r
}

// setNodes counts the nodes, and names some that do not report.
func setNodes(r *adminpb.Report, nodes []Node) {
	for _, n := range nodes {
		r.NodeCount++
		switch {
		case n.Reports:
			r.ReportingNodeCount++
		case len(r.SilentNodes) < maxSilentNodes:
			r.SilentNodes = append(r.SilentNodes, n.Name)
		}
	}
}

// pairOf returns the pair of a live policy; nil if there is none.
func pairOf(pairs []*evidencepb.Pair, policyEtag string) *evidencepb.Pair {
	for _, p := range pairs {
		if p.GetPolicyEtag() == policyEtag {
			return p
		}
	}
	return nil
}

// pairs returns all pairs of evidence, with the sum of the earlier ones.
func pairs(e *evidencepb.Evidence) []*evidencepb.Pair {
	if e == nil {
		return nil
	}
	out := slices.Clone(e.Pairs)
	if e.Earlier != nil {
		out = append(out, e.Earlier)
	}
	return out
}

// active is the time in which one of the pairs was compared: the union of their spans.
func active(of ...*evidencepb.Pair) *durationpb.Duration {
	var spans []*evidencepb.Span
	for _, p := range of {
		spans = append(spans, p.GetActive()...)
	}
	slices.SortFunc(spans, func(a, b *evidencepb.Span) int { return cmp.Compare(a.GetBegin(), b.GetBegin()) })
	var sum, end int64 = 0, math.MinInt64
	for _, s := range spans {
		if begin := max(s.GetBegin(), end); s.GetEnd() > begin {
			sum, end = sum+s.GetEnd()-begin, s.GetEnd()
		}
	}
	return durationpb.New(time.Duration(sum) * time.Millisecond)
}

// points are the minutes of the last hour, the earliest first.
func points(of []*evidencepb.Point) []*adminpb.Report_Point {
	sorted := slices.SortedFunc(slices.Values(of), func(a, b *evidencepb.Point) int { return cmp.Compare(a.GetStart(), b.GetStart()) })
	sorted = sorted[max(0, len(sorted)-maxPoints):]
	var out []*adminpb.Report_Point
	for _, p := range sorted {
		out = append(out, &adminpb.Report_Point{StartTime: &timestamppb.Timestamp{Seconds: p.GetStart()}, Counts: reportCounts(p.GetCounts())})
	}
	return out
}

// setLabels writes who it concerns, those of the gravest kinds first.
func setLabels(r *adminpb.Report, labels []*evidencepb.Label) {
	for _, l := range labels {
		s := &adminpb.Report_LabelSummary{Label: l.GetLabel(), Kind: adminpb.Report_Kind(l.GetKind()), OtherRequestCount: l.GetTotal()}
		values := slices.SortedFunc(slices.Values(l.GetValues()), func(a, b *evidencepb.Label_Value) int {
			return cmp.Or(cmp.Compare(b.GetCount(), a.GetCount()), cmp.Compare(a.GetValue(), b.GetValue()))
		})
		for _, v := range firstOf(values, maxLabelValues) {
			s.Values = append(s.Values, &adminpb.Report_LabelValue{Value: v.GetValue(), RequestCount: v.GetCount(), ErrorCount: v.GetError()})
			s.OtherRequestCount -= v.GetCount()
		}
		s.OtherRequestCount = max(0, s.OtherRequestCount)
		r.Labels = append(r.Labels, s)
	}
	slices.SortFunc(r.Labels, func(a, b *adminpb.Report_LabelSummary) int {
		return cmp.Or(cmp.Compare(gravity(a.Kind), gravity(b.Kind)), cmp.Compare(a.Label, b.Label))
	})
}

// Examined reports whether all requests of a report were examined for its items: then no request
// has shown those that are not seen.
func Examined(r *adminpb.Report) bool {
	return r.GetPendingRequestCount() == 0 && r.GetUnexaminedRequestCount() == 0
}

// firstOf returns at most n of a list.
func firstOf[T any](of []T, n int) []T { return of[:min(n, len(of))] }
