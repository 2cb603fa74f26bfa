package reportview

import (
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// replayed is the sentence and its groups, below the numbers of the report.
//
// They stand apart, because nobody may take them for what live traffic has shown since.
func (p *page) replayed(text string, groups []*adminpb.Report_Difference) {
	p.gap()
	p.section("Replayed", text)
	if p.r.RequestCount > 0 && !p.o.Everything {
		return // what has happened since needs the room
	}
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
func (m *markdown) replayed(text string, groups []*adminpb.Report_Difference) {
	m.line("* replayed: %s", prose(text))
	shown := groups[:min(len(groups), markdownGroups)]
	for _, d := range shown {
		m.line("  * %s %s %s %s %s", partOf(d), verdict.NameOf(d.Kind), code(d.Method+" "+d.Path), answersOf(d), whyOf(m.r, d))
	}
	if rest := restOf(groups[len(shown):], m.r.Replayed.OtherDifferences); rest != "" {
		m.line("  * %s", prose(rest))
	}
}
