package reportview

import (
	"fmt"
	"strings"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// who lists the values of labels that most requests of each kind have.
func (p *page) who(all []*adminpb.Report_LabelSummary) {
	if p.r.RequestCount > 0 {
		p.gap()
	}
	label := "Who"
	for i, l := range all {
		if i == p.d.labels {
			p.row("", fmt.Sprintf("and by %d more", len(all)-i))
			break
		}
		values, more := valuesOf(l, p.d.values)
		text := verdict.NameOf(l.Kind) + ", by " + terminal.Line(l.Label) + ": " + strings.Join(values, ", ") + more
		p.row(label, text)
		label = ""
	}
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

// takenBack lists what a commit would undo.
func (p *page) takenBack(texts []string) {
	p.gap()
	p.section("Undoes", lines(texts)...)
}

// expectations lists what the author expects.
func (p *page) expectations(texts []string) {
	p.gap()
	p.section("Expects", lines(texts)...)
}

// noise says how far the live policy differs from itself.
func (p *page) noise(text string) { p.section("Noise", text) }

// bounds says what the numbers exclude, where there is room for examples, too.
func (p *page) bounds(texts []string) {
	if p.d.examples {
		p.section("At 95%", texts...)
	}
}

// unknown says what the report has no evidence of.
func (p *page) unknown(texts []string) { p.section("Unknown", lines(texts)...) }

// notes says where the report comes from.
func (p *page) notes(of string, texts []string) { p.section(of, lines(texts)...) }

// requirements lists what a commit needs, what is not met first.
func (p *page) requirements(rows []*adminpb.Report_RequirementResult) {
	width := 0
	for _, q := range rows {
		width = max(width, terminal.Columns(terminal.Line(q.Requirement)))
	}
	p.gap()
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
		rest := terminal.Cut("  "+terminal.Pad(terminal.Line(q.Requirement), width)+"  "+haveNeed(p.r, q), p.o.columns()-labelColumns-len("NOT MET"))
		p.add(p.o.Palette.Bold(terminal.Pad(label, labelColumns)) + colour(terminal.Pad(state, len("NOT MET"))) + rest)
		label = ""
	}
}

// stateOf says in words whether a requirement is met.
func stateOf(q *adminpb.Report_RequirementResult) string {
	if q.Met {
		return "met"
	}
	return "NOT MET"
}

// haveNeed is what a requirement has and needs, and who asks for it.
func haveNeed(r *adminpb.Report, q *adminpb.Report_RequirementResult) string {
	text := terminal.Line(q.Have)
	if !q.Met {
		text += ", needs " + terminal.Line(q.Need)
	}
	switch {
	case report.IsForPeople(r, q):
		text += ": people decide"
	case report.IsHopeless(r, q):
		text += ": more traffic cannot meet it"
	}
	if q.Source == adminpb.Report_RequirementResult_LOCATION {
		text += " (of the location)"
	}
	return text
}
