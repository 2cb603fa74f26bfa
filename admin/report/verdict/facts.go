package verdict

import (
	"fmt"
	"slices"
	"strings"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// Labels are the labels of kinds that differ, the gravest kind first.
//
// A label is what a policy itself says of a request (its result has a field for that), such as a tenant.
func Labels(r *adminpb.Report) (labels []*adminpb.Report_LabelSummary) {
	for _, k := range Changes {
		for _, l := range r.Labels {
			if l.Kind == k.Value && len(l.Values) > 0 {
				labels = append(labels, l)
			}
		}
	}
	return labels
}

// Noise says in a sentence what of the live policy is not due to the experiment: how far it differs
// from itself, and what it failed to decide. It is empty if there is nothing to say.
//
// Two decisions of the live policy on one request differ if it reads the clock, draws at random, or asks
// a service. A difference of the same kind between live and experiment may then have the same cause:
//
//	none: the live policy decided 50 requests twice, each time alike
//	the live policy differs from itself on 5 of 50 requests (10%)
func Noise(r *adminpb.Report) string {
	var parts []string
	n := r.Noise
	switch {
	case n.GetSampledCount() == 0:
	case n.DifferedCount == 0:
		parts = append(parts, "none: the live policy decided "+Counted(n.SampledCount, "request")+" twice, each time alike")
	default:
		parts = append(parts, "the live policy differs from itself on "+report.Number(n.DifferedCount)+" of "+
			Counted(n.SampledCount, "request")+" ("+Share(n.DifferedCount, n.SampledCount)+")")
	}
	if failed := r.LiveFailedCount; failed > 0 {
		all := r.RequestCount + failed
		parts = append(parts, "the live policy failed to decide "+report.Number(failed)+" of "+Counted(all, "request")+" ("+Share(failed, all)+")")
	}
	return strings.Join(parts, "; ")
}

// Split says of how many requests newly denied and newly allowed ones are shares, and how many
// callers and endpoints have those that one side allows. It is empty if nothing was compared.
//
// The two shares have denominators of their own, since a stranger can send any number of requests that
// both policies deny: what is newly denied was allowed, and is compared with what is allowed.
//
//	the live policy allows 276 and denies 19 of these: newly denied and newly allowed are shares of that; one or
//	both allow 2 callers at 8 endpoints
func Split(r *adminpb.Report) string {
	if r.PolicyAllows == nil && r.PolicyDenies == nil {
		return ""
	}
	text := "the live policy allows " + report.Number(r.PolicyAllows.GetRequestCount()) + " and denies " +
		report.Number(r.PolicyDenies.GetRequestCount()) + " of these: newly denied and newly allowed are shares of that"
	if report.Allowed(report.Counts(r)) > 0 {
		text += "; one or both allow " + from(r)
	}
	return text
}

// from says how many callers and endpoints requests have that one side allows.
func from(r *adminpb.Report) string {
	who := "unknown callers"
	if r.CallerCount > 0 {
		who = report.CountedCallers(r.CallerCount)
	}
	if r.EndpointCount > 0 {
		who += " at " + Counted(r.EndpointCount, "endpoint")
	}
	return who
}

// notCompared says in a clause that more than 1 % of the requests was not compared; empty if it was
// not more.
//
// Up to 1 % is below what a share can be read to, and no clause of the verdict.
//
//	310 of 1,950 requests (16%) were not compared
func notCompared(r *adminpb.Report) string {
	if !report.Incomplete(r) {
		return ""
	}
	n, all := report.NotCompared(report.Counts(r))
	return report.Number(n) + " of " + Counted(all, "request") + " (" + Share(n, all) + ")" + wereOf(n) + " not compared"
}

// NotKnown are sentences on what was not compared, in which hours of the week something was, who is silent, and what may be lost.
//
// Each is a reason for which the counts may be too small:
//
//	12 more were not compared (0.4%): queue full 12
//	hours of the week seen: 1 of 168, Thursday 11:00 to 12:00 UTC
//	2 sidecars did not report: node-3, node-7
//	a sidecar that crashes loses up to its last 2s
func NotKnown(r *adminpb.Report) (texts []string) {
	n, all := report.NotCompared(report.Counts(r))
	if n > 0 {
		text := report.Number(n) + " more" + wereOf(n) + " not compared (" + Share(n, all) + ")"
		if why := WhyDropped(r); why != "" {
			text += ": " + why
		}
		texts = append(texts, text)
	}
	switch {
	case report.Lossy(r):
		texts = append(texts, "more than 1% was lost, and not by chance: shares are not known")
	case r.Estimate != nil:
		texts = append(texts, "chance chose what was compared: shares are estimates for about "+Counted(r.Estimate.RequestCount, "request"))
	}
	if hours := Hours(r); hours != "" {
		texts = append(texts, hours)
	}
	if silent := r.NodeCount - r.ReportingNodeCount; silent > 0 {
		text := Counted(int64(silent), "sidecar") + " did not report"
		if len(r.SilentNodes) > 0 {
			text += ": " + nodesOf(r.SilentNodes, int(silent))
		}
		texts = append(texts, text)
	}
	if r.PublishInterval.AsDuration() > 0 {
		text := "a sidecar that crashes loses up to its last " + Period(r.PublishInterval)
		if n == 0 {
			text = "nothing was left out; " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// WhyDropped says why how many requests were not compared; empty if nobody knows.
//
// A reason has the words of the metric's label, such as "queue full".
func WhyDropped(r *adminpb.Report) string {
	var why []string
	for _, d := range r.Drops {
		reason := strings.ReplaceAll(d.Reason, "_", " ")
		if report.ByChance(d) {
			reason = "left out by chance"
		}
		why = append(why, reason+" "+report.Number(d.RequestCount))
	}
	if r.LiveFailedCount > 0 {
		why = append(why, "failed in the live policy "+report.Number(r.LiveFailedCount))
	}
	return strings.Join(why, ", ")
}

// nodesOf names silent nodes, of which there may be more than their names.
//
// Three names are enough to begin a search with: "node-1, node-2, node-3 and 5 more".
func nodesOf(names []string, all int) string {
	const shown = 3
	var ids []string
	for _, n := range names[:min(len(names), shown)] {
		ids = append(ids, n[strings.LastIndexByte(n, '/')+1:])
	}
	text := strings.Join(ids, ", ")
	if more := all - len(ids); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Requirements are those of a report, what is not met first.
//
// A reader looks for what is missing.
func Requirements(r *adminpb.Report) (rows []*adminpb.Report_RequirementResult) {
	for _, met := range []bool{false, true} {
		for _, q := range r.Requirements {
			if q.Met == met {
				rows = append(rows, q)
			}
		}
	}
	return rows
}

// StateOfRequirement says whether a requirement is met, and if not, whether more traffic can meet it.
//
// A count over its limit never falls, but it may be right: people say so by accepting it.
func StateOfRequirement(r *adminpb.Report, q *adminpb.Report_RequirementResult) string {
	switch {
	case q.Met:
		return "met"
	case report.IsForPeople(r, q):
		return "not met: people decide"
	case report.IsHopeless(r, q):
		return "can no longer be met"
	default:
		return "not met"
	}
}

// UnknownCause says of a group whose causes are not known of how many requests that differ like them they are: "cause
// not known; it is known for 3 of 157 such requests". It is empty if they are known.
func UnknownCause(r *adminpb.Report, d *adminpb.Report_Difference) string {
	if !d.GetCauseUnknown() {
		return ""
	}
	var known, all int64
	for _, other := range r.GetDifferences() {
		if isLike(other, d) {
			if all += other.GetRequestCount(); !other.GetCauseUnknown() {
				known += other.GetRequestCount()
			}
		}
	}
	if known == 0 {
		return "cause not known, or not yet"
	}
	return "cause not known; it is known for " + report.Number(known) + " of " + Counted(all, "such request")
}

// isLike reports whether two groups differ in their causes at most.
func isLike(a, b *adminpb.Report_Difference) bool {
	return a.GetKind() == b.GetKind() && a.GetMethod() == b.GetMethod() && a.GetPath() == b.GetPath() && a.GetRule() == b.GetRule() &&
		a.GetReason() == b.GetReason() && a.GetPolicyStatus() == b.GetPolicyStatus() &&
		a.GetExperimentStatus() == b.GetExperimentStatus() && a.GetExpectation() == b.GetExpectation() &&
		slices.Equal(a.GetChanges(), b.GetChanges())
}
