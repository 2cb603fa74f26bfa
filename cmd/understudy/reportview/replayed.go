package reportview

import (
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// replayed says what came of requests from before the experiment was ACTIVE: below the
// numbers of the report, and apart from them.
func (p *page) replayed() {
	text := verdict.Replayed(p.r)
	if text == "" {
		return
	}
	p.gap()
	p.section("Replayed", text)
	if p.r.RequestCount > 0 && !p.o.Everything {
		return // what has happened since needs the room
	}
	groups := verdict.Groups(asGroups(p.r.Replayed))
	for _, d := range groups[:min(len(groups), p.d.groups)] {
		p.row("", "  "+replayedGroupOf(d))
	}
	if rest := restOf(groups[min(len(groups), p.d.groups):], p.r.Replayed.OtherDifferences); rest != "" {
		p.row("", "  "+rest)
	}
}

// replayedGroupOf is a group of requests in one line.
func replayedGroupOf(d *adminpb.Report_Difference) string {
	text := partOf(d) + " " + verdict.NameOf(d.Kind) + "  " + endpointOf(d) + "  " + answersOf(d)
	if reason := reasonOf(d); reason != "" {
		text += "  " + reason
	}
	return text
}

// replayed is the sentence and its groups as a list.
func (m *markdown) replayed() {
	text := verdict.Replayed(m.r)
	if text == "" {
		return
	}
	m.line("* replayed: %s", prose(text))
	groups := verdict.Groups(asGroups(m.r.Replayed))
	shown := groups[:min(len(groups), markdownGroups)]
	for _, d := range shown {
		m.line("  * %s %s %s %s %s", partOf(d), verdict.NameOf(d.Kind), code(d.Method+" "+d.Path), answersOf(d), whyOf(d))
	}
	if rest := restOf(groups[len(shown):], m.r.Replayed.OtherDifferences); rest != "" {
		m.line("  * %s", prose(rest))
	}
}

// asGroups is what was replayed as a report has it.
func asGroups(replayed *adminpb.Report_ReplayedReport) *adminpb.Report {
	return &adminpb.Report{Differences: replayed.GetDifferences()}
}
