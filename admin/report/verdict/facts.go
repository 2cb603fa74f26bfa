package verdict

import (
	"fmt"
	"google.golang.org/protobuf/types/known/durationpb"
	"strings"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// Labels are the labels of kinds that differ, the gravest kind first.
func Labels(r *adminpb.Report) (labels []*adminpb.Report_LabelSummary) {
	for _, k := range Kinds {
		for _, l := range r.Labels {
			if l.Kind == k.Value && len(l.Values) > 0 {
				labels = append(labels, l)
			}
		}
	}
	return labels
}

// NothingKnown is said of what was never exercised, once that is known.
func NothingKnown(r *adminpb.Report) string {
	if r.PendingRequestCount > 0 || r.UnexaminedRequestCount > 0 {
		return ""
	}
	return ": nothing is known of " + them(len(NeverExercised(r)))
}

// them agrees with a number of things.
func them(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// Noise says in a sentence how far the live policy differs from itself; empty if nothing was sampled.
func Noise(r *adminpb.Report) string {
	n := r.Noise
	switch {
	case n.GetSampledCount() == 0:
		return ""
	case n.DifferedCount == 0:
		return "none: the live policy decided " + Counted(n.SampledCount, "request") + " twice, each time alike"
	default:
		return "the live policy differs from itself on " + report.Number(n.DifferedCount) + " of " +
			Counted(n.SampledCount, "request") + " (" + Share(n.DifferedCount, n.SampledCount) + ")"
	}
}

// NotKnown are sentences on what was not compared, who is silent, and what may be lost.
func NotKnown(r *adminpb.Report) (texts []string) {
	if r.DroppedCount > 0 {
		var why []string
		for _, d := range r.Drops {
			why = append(why, strings.ReplaceAll(d.Reason, "_", " ")+" "+report.Number(d.RequestCount))
		}
		text := report.Number(r.DroppedCount) + " more were not compared (" + Share(r.DroppedCount, r.DroppedCount+r.RequestCount) + ")"
		if len(why) > 0 {
			text += ": " + strings.Join(why, ", ")
		}
		texts = append(texts, text)
	}
	if silent := r.NodeCount - r.ReportingNodeCount; silent > 0 {
		text := Counted(int64(silent), "sidecar") + " did not report"
		if len(r.SilentNodes) > 0 {
			text += ": " + nodesOf(r.SilentNodes, int(silent))
		}
		texts = append(texts, text)
	}
	if r.PublishInterval.AsDuration() > 0 {
		text := "if a sidecar dies, its last " + Period(r.PublishInterval) + " are not counted"
		if r.DroppedCount == 0 {
			text = "nothing left out; " + text
		}
		texts = append(texts, text)
	}
	return texts
}

// nodesOf names silent nodes, of which there may be more than their names.
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

// AsReport is counts as a report has them.
func AsReport(c *adminpb.Report_ReportCounts) *adminpb.Report {
	return &adminpb.Report{
		RequestCount: c.RequestCount, UnchangedCount: c.UnchangedCount, NewlyDeniedCount: c.NewlyDeniedCount,
		NewlyAllowedCount: c.NewlyAllowedCount, ResponseChangedCount: c.ResponseChangedCount,
		FailedCount: c.FailedCount, LiveFailedCount: c.LiveFailedCount, DroppedCount: c.DroppedCount,
	}
}

// Replayed is what was replayed in a sentence; empty if nothing was.
func Replayed(r *adminpb.Report) string {
	if r.Replayed.GetCounts() == nil {
		return ""
	}
	counts := AsReport(r.Replayed.Counts)
	if counts.RequestCount == 0 && counts.DroppedCount == 0 {
		return ""
	}
	text := Counted(counts.RequestCount, "earlier request")
	if from, to := r.Replayed.FirstTime, r.Replayed.LastTime; from != nil && to != nil {
		text += " of " + Period(durationpb.New(to.AsTime().Sub(from.AsTime())))
	}
	text += ", from memory, not counted above or for requirements"
	var parts []string
	for _, k := range Kinds {
		if n := k.Count(counts); n > 0 {
			parts = append(parts, report.Number(n)+" "+k.Name)
		}
	}
	switch {
	case len(parts) > 0:
		text += ": " + strings.Join(parts, ", ")
	case counts.RequestCount > 0:
		text += ": all unchanged"
	}
	if counts.DroppedCount > 0 {
		text += "; " + report.Number(counts.DroppedCount) + " more could not be compared"
	}
	return text
}
