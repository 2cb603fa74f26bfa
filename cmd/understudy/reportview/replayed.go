package reportview

import (
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// replayed says what came of requests from before the experiment was ACTIVE: below the
// numbers of the report, and apart from them.
func (p *page) replayed() {
	text := replayedOf(p.r)
	if text == "" {
		return
	}
	p.gap()
	p.section("Replayed", text)
	if p.r.RequestCount > 0 && !p.o.Everything {
		return // what has happened since needs the room
	}
	groups := groupsOf(asGroups(p.r.Replayed))
	for _, d := range groups[:min(len(groups), p.d.groups)] {
		p.row("", "  "+replayedGroupOf(d))
	}
	if rest := restOf(groups[min(len(groups), p.d.groups):], p.r.Replayed.OtherDifferences); rest != "" {
		p.row("", "  "+rest)
	}
}

// asGroups is what was replayed as a report has it.
func asGroups(replayed *adminpb.Report_ReplayedReport) *adminpb.Report {
	return &adminpb.Report{Differences: replayed.GetDifferences()}
}

// replayedOf is what was replayed in a sentence; empty if nothing was.
func replayedOf(r *adminpb.Report) string {
	if r.Replayed.GetCounts() == nil {
		return ""
	}
	counts := asReport(r.Replayed.Counts)
	if counts.RequestCount == 0 && counts.DroppedCount == 0 {
		return ""
	}
	text := counted(counts.RequestCount, "earlier request")
	if from, to := r.Replayed.FirstTime, r.Replayed.LastTime; from != nil && to != nil {
		text += " of " + period(durationpb.New(to.AsTime().Sub(from.AsTime())))
	}
	text += ", from memory, not counted above or for requirements"
	var parts []string
	for _, k := range kinds {
		if n := k.count(counts); n > 0 {
			parts = append(parts, report.Number(n)+" "+k.name)
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

// replayedGroupOf is a group of requests in one line.
func replayedGroupOf(d *adminpb.Report_Difference) string {
	text := partOf(d) + " " + nameOfKind(d.Kind) + "  " + endpointOf(d) + "  " + answersOf(d)
	if reason := reasonOf(d); reason != "" {
		text += "  " + reason
	}
	return text
}

// replayed is the sentence and its groups as a list.
func (m *markdown) replayed() {
	text := replayedOf(m.r)
	if text == "" {
		return
	}
	m.line("* replayed: %s", prose(text))
	groups := groupsOf(asGroups(m.r.Replayed))
	shown := groups[:min(len(groups), markdownGroups)]
	for _, d := range shown {
		m.line("  * %s %s %s %s %s", partOf(d), nameOfKind(d.Kind), code(d.Method+" "+d.Path), answersOf(d), whyOf(d))
	}
	if rest := restOf(groups[len(shown):], m.r.Replayed.OtherDifferences); rest != "" {
		m.line("  * %s", prose(rest))
	}
}
