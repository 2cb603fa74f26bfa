package reportview

import (
	"fmt"
	"strings"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// groups is the table of what differs, with why below each.
//
// A group is the requests that differ in the same way, at one endpoint, for the same reason.
func (p *page) groups(all []*adminpb.Report_Difference) {
	p.add("")
	shown := all[:min(len(all), p.d.groups)]
	if !p.table(shown) {
		p.stack(shown)
	}
	if rest := restOf(all[len(shown):], p.r.OtherDifferences); rest != "" {
		p.add(p.fit(rest, 0))
	}
}

// leastPath is the fewest columns that a path is shown in.
const leastPath = 20

// groupHeads are the columns of the table; the path is as wide as there is room.
var groupHeads = [...]string{"REQUESTS", "KIND", "PATH", "CALLERS", "ANSWER"}

// table shows groups as rows, if the terminal is wide enough.
//
// For example:
//
//	REQUESTS  KIND          PATH               CALLERS  ANSWER
//	19 of 19  newly denied  GET /internal/*          1  allowed → 403
//
// The path gets what the other columns leave. If that is too little to read a path in, it returns false, and
// the groups are stacked.
func (p *page) table(groups []*adminpb.Report_Difference) bool {
	var rows [][len(groupHeads)]string
	var widths [len(groupHeads)]int
	for i, head := range groupHeads {
		widths[i] = len(head)
	}
	for _, d := range groups {
		row := [...]string{partOf(d), verdict.NameOf(d.Kind), endpointOf(d), callersOf(d), answersOf(d)}
		for i, cell := range row {
			widths[i] = max(widths[i], terminal.Columns(cell))
		}
		rows = append(rows, row)
	}
	widest := widths[2]
	others := widths[0] + widths[1] + widths[3] + widths[4] + 2*(len(groupHeads)-1)
	if widths[2] = min(widths[2], p.o.columns()-others); widths[2] < leastPath && widths[2] < widest {
		return false
	}
	format := func(row [len(groupHeads)]string) (before, kind, after string) {
		return terminal.PadLeft(row[0], widths[0]) + "  ", terminal.Pad(row[1], widths[1]),
			"  " + terminal.Pad(terminal.Cut(row[2], widths[2]), widths[2]) + "  " + terminal.PadLeft(row[3], widths[3]) + "  " + row[4]
	}
	before, kind, after := format(groupHeads)
	p.add(p.o.Palette.Bold(before + kind + after))
	for i, d := range groups {
		before, kind, after := format(rows[i])
		p.add(before + p.kind(d.Kind, kind) + after)
		if i < p.d.explained {
			p.about(d, widths[0]+2)
		}
	}
	return true
}

// stack shows groups on lines of their own.
func (p *page) stack(groups []*adminpb.Report_Difference) {
	for i, d := range groups {
		text := partOf(d) + " " + verdict.NameOf(d.Kind)
		if d.CallerCount > 0 {
			text += ", " + report.CountedCallers(d.CallerCount)
		}
		p.add(p.kind(d.Kind, p.fit(text, 0)), p.fit("  "+endpointOf(d), 0), p.fit("  "+answersOf(d), 0))
		if i < p.d.explained {
			p.about(d, 2)
		}
	}
}

// kind colours the name of a kind, or the number of its requests.
//
// What locks out or fails is red: somebody will call. The rest is yellow: somebody has to look.
func (p *page) kind(k adminpb.Report_Kind, text string) string {
	switch k {
	case adminpb.Report_NEWLY_DENIED, adminpb.Report_FAILED:
		return p.o.Palette.Red(text)
	default:
		return p.o.Palette.Yellow(text)
	}
}

// about says below a group what changed and why, from a column on.
//
// The causes come first, the decisive one before the others, then what the policy says of itself.
func (p *page) about(d *adminpb.Report_Difference, from int) {
	line := func(text string) {
		if text != "" {
			p.add(strings.Repeat(" ", from) + p.fit(text, from))
		}
	}
	for i, e := range d.Causes {
		if i == p.d.causes {
			break
		}
		line(causeOf(e))
	}
	line(verdict.UnknownCause(p.r, d))
	if changed := strings.Join(d.Changes, ", "); len(d.Changes) > 0 && answersOf(d) != terminal.Line(changed) {
		line("changes " + terminal.Line(changed))
	}
	line(reasonOf(d))
	if d.Noise {
		line("may be noise: the live policy, asked twice, differs like this")
	}
	line(groupOf(p.r, d))
	if p.d.examples && len(d.Examples) > 0 {
		text := exampleOf(d.Examples[0], max(8, p.o.columns()-from))
		p.add(strings.Repeat(" ", from) + p.o.Palette.Dim(text))
	}
}

// causeOf is an expression that decided: where it is, and its text.
//
// For example: "shop.rego:38  claims.plan == "free"". A place of data has no file: "data.limits.refund: 100 → 1000".
func causeOf(e *adminpb.Report_Expression) string {
	if e.File == "" {
		return strings.Join(strings.Fields(terminal.Line(e.Text)), " ")
	}
	return placeOf(e.File, e.Line) + "  " + strings.Join(strings.Fields(terminal.Line(e.Text)), " ")
}

// exampleOf is a request of a group with what finds it in the log: the ID of its decision,
// which stays whole if there is room for it.
//
// The ID is what one searches a decision log for, and half of one finds nothing.
func exampleOf(e *adminpb.Report_Example, columns int) string {
	text := "e.g. " + terminal.Line(e.Path)
	if e.Principal != "" {
		text += " by " + terminal.Line(e.Principal[strings.LastIndexByte(e.Principal, '/')+1:])
	}
	id := ""
	if e.DecisionId != "" {
		id = " (" + terminal.Line(e.DecisionId) + ")"
	}
	if room := columns - terminal.Columns(id); room >= leastPath {
		return terminal.Cut(text, room) + id
	}
	return terminal.Cut(text, columns)
}

// restOf says what of the groups is not shown: by kind, how many requests.
//
// What is not shown is never silent: "and 3 more: 40 newly denied, 2 failed".
func restOf(hidden []*adminpb.Report_Difference, others []*adminpb.Report_KindCount) string {
	requests := make(map[adminpb.Report_Kind]int64)
	for _, d := range hidden {
		requests[d.Kind] += d.RequestCount
	}
	for _, o := range others {
		requests[o.Kind] += o.RequestCount
	}
	var parts []string
	for _, k := range verdict.Kinds {
		if n := requests[k.Value]; n > 0 {
			parts = append(parts, report.Number(n)+" "+k.Name)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	text := "and requests of other groups: "
	if len(hidden) > 0 {
		text = fmt.Sprintf("and %d more: ", len(hidden))
		if len(others) > 0 {
			text = fmt.Sprintf("and %d more groups and others: ", len(hidden))
		}
	}
	return text + strings.Join(parts, ", ")
}
