package reportview

import (
	"fmt"
	"strings"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// who lists the values of labels that most requests of each kind have.
func (p *page) who() {
	label, all := "Who", labelsOf(p.r)
	for i, l := range all {
		if i == p.d.labels {
			p.row("", fmt.Sprintf("and by %d more", len(all)-i))
			break
		}
		values, more := valuesOf(l, p.d.values)
		text := nameOfKind(l.Kind) + ", by " + terminal.Line(l.Label) + ": " + strings.Join(values, ", ") + more
		p.row(label, text)
		label = ""
	}
}

// labelsOf are the labels of kinds that differ, the gravest kind first.
func labelsOf(r *adminpb.Report) (labels []*adminpb.Report_LabelSummary) {
	for _, k := range kinds {
		for _, l := range r.Labels {
			if l.Kind == k.value && len(l.Values) > 0 {
				labels = append(labels, l)
			}
		}
	}
	return labels
}

// valuesOf are the first values of a label with their numbers, and what says how many more
// requests there are.
func valuesOf(l *adminpb.Report_LabelSummary, most int) (values []string, more string) {
	others := l.OtherRequestCount
	for i, v := range l.Values {
		if i >= most {
			others += v.RequestCount
			continue
		}
		text := terminal.Line(v.Value) + " " + report.Number(v.RequestCount)
		if v.ErrorCount > 0 {
			text += " to " + report.Number(v.RequestCount+v.ErrorCount)
		}
		values = append(values, text)
	}
	if others > 0 {
		more = ", others " + report.Number(others)
	}
	return values, more
}

// coverage lists what of the change no request has shown.
func (p *page) coverage() {
	r := p.r
	if len(r.ChangedData) > 0 {
		p.row("Data", "differs in "+terminal.Line(strings.Join(r.ChangedData, ", ")))
	}
	never, text := neverExercised(r), unseen(r)
	switch {
	case r.RequestCount == 0 || text == "" && len(r.ChangedRules) == 0:
		return
	case text == "":
		p.row("Seen", "each of "+counted(int64(len(r.ChangedRules)), "changed rule")+" was exercised")
		return
	}
	p.section("Unseen", text+nothingKnown(r))
	for i, c := range never {
		if i == p.d.rules {
			p.row("", fmt.Sprintf("and %d more", len(never)-i))
			break
		}
		p.row("", "  "+ruleOf(c))
	}
}

// nothingKnown is said of what was never exercised, once that is known.
func nothingKnown(r *adminpb.Report) string {
	if r.PendingRequestCount > 0 || r.UnexaminedRequestCount > 0 {
		return ""
	}
	return ": nothing is known of " + them(len(neverExercised(r)))
}

// them agrees with a number of things.
func them(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// ruleOf is where a changed rule is, its name, and the side if it is the live policy's.
func ruleOf(c *adminpb.Report_ChangedRule) string {
	text := placeOf(c.File, c.Line) + "  " + terminal.Line(c.Rule)
	if c.Side == adminpb.Report_ChangedRule_POLICY {
		text += " (of the live policy)"
	}
	return text
}

// noise says how far the live policy differs from itself.
func (p *page) noise() {
	if text := noiseOf(p.r); text != "" {
		p.section("Noise", text)
	}
}

// noiseOf is that in a sentence; empty if nothing was sampled.
func noiseOf(r *adminpb.Report) string {
	n := r.Noise
	switch {
	case n.GetSampledCount() == 0:
		return ""
	case n.DifferedCount == 0:
		return "none: the live policy decided " + counted(n.SampledCount, "request") + " twice, each time alike"
	default:
		return "the live policy differs from itself on " + report.Number(n.DifferedCount) + " of " +
			counted(n.SampledCount, "request") + " (" + share(n.DifferedCount, n.SampledCount) + ")"
	}
}

// unknown says what the report has no evidence of.
func (p *page) unknown() {
	for i, text := range unknownOf(p.r) {
		label := ""
		if i == 0 {
			label = "Unknown"
		}
		p.section(label, text)
	}
}

// unknownOf are sentences on what was not compared, who is silent, and what may be lost.
func unknownOf(r *adminpb.Report) (texts []string) {
	if r.DroppedCount > 0 {
		var why []string
		for _, d := range r.Drops {
			why = append(why, strings.ReplaceAll(terminal.Line(d.Reason), "_", " ")+" "+report.Number(d.RequestCount))
		}
		text := report.Number(r.DroppedCount) + " more were not compared (" + share(r.DroppedCount, r.DroppedCount+r.RequestCount) + ")"
		if len(why) > 0 {
			text += ": " + strings.Join(why, ", ")
		}
		texts = append(texts, text)
	}
	if silent := r.NodeCount - r.ReportingNodeCount; silent > 0 {
		text := counted(int64(silent), "sidecar") + " did not report"
		if len(r.SilentNodes) > 0 {
			text += ": " + nodesOf(r.SilentNodes, int(silent))
		}
		texts = append(texts, text)
	}
	if r.PublishInterval.AsDuration() > 0 {
		text := "if a sidecar dies, its last " + period(r.PublishInterval) + " are not counted"
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
		ids = append(ids, terminal.Line(n[strings.LastIndexByte(n, '/')+1:]))
	}
	text := strings.Join(ids, ", ")
	if more := all - len(ids); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// requirements lists what a commit needs, what is not met first.
func (p *page) requirements() {
	rows := requirementsOf(p.r)
	width := 0
	for _, q := range rows {
		width = max(width, terminal.Columns(terminal.Line(q.Requirement)))
	}
	if len(rows) > 0 {
		p.gap()
	}
	label := "Needs"
	for i, q := range rows {
		if i == p.d.requirements {
			p.row("", fmt.Sprintf("and %d more", len(rows)-i))
			return
		}
		state, colour := stateOf(q), p.o.Palette.Red
		if q.Met {
			colour = p.o.Palette.Green
		}
		rest := terminal.Cut("  "+terminal.Pad(terminal.Line(q.Requirement), width)+"  "+haveNeed(q), p.o.columns()-labelColumns-len("NOT MET"))
		p.add(p.o.Palette.Bold(terminal.Pad(label, labelColumns)) + colour(terminal.Pad(state, len("NOT MET"))) + rest)
		label = ""
	}
}

// requirementsOf are the requirements, what is not met first.
func requirementsOf(r *adminpb.Report) (rows []*adminpb.Report_RequirementResult) {
	for _, met := range []bool{false, true} {
		for _, q := range r.Requirements {
			if q.Met == met {
				rows = append(rows, q)
			}
		}
	}
	return rows
}

// stateOf says in words whether a requirement is met.
func stateOf(q *adminpb.Report_RequirementResult) string {
	if q.Met {
		return "met"
	}
	return "NOT MET"
}

// haveNeed is what a requirement has and needs, and who asks for it.
func haveNeed(q *adminpb.Report_RequirementResult) string {
	text := terminal.Line(q.Have)
	if !q.Met {
		text += ", needs " + terminal.Line(q.Need)
	}
	if q.Unreachable {
		text += ", out of reach"
	}
	if q.Source == adminpb.Report_RequirementResult_LOCATION {
		text += " (of the location)"
	}
	return text
}
