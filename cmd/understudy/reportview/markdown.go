package reportview

import (
	"fmt"
	"io"
	"strings"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// markdownGroups is the most rows of the table of groups: a comment has at most 65,536
// characters on GitHub, and 200 rows with their causes can be more.
const markdownGroups = 50

// Markdown writes a report as GitHub's and GitLab's Markdown, for the description of a
// change or a comment on it.
//
// Paths, reasons and principals are written by anyone who sends a request. A comment in a pull request is
// read by people with the right to merge, so such text can neither link, nor mention, nor end a table.
func Markdown(w io.Writer, r *adminpb.Report, o Options) error {
	m := &markdown{r: r, o: o}
	writeSections(m, r, o)
	_, err := io.WriteString(w, m.out.String())
	return err
}

// markdown is a document that is being written.
type markdown struct {
	r   *adminpb.Report
	o   Options
	out strings.Builder
}

// line appends a line.
func (m *markdown) line(format string, values ...any) {
	fmt.Fprintf(&m.out, format, values...)
	m.out.WriteByte('\n')
}

// prose is a sentence within which nothing is read as Markdown or HTML: it may quote what
// others wrote.
func prose(text string) string { return entities.Replace(terminal.Line(text)) }

// code is text of others, shown as it is. It is HTML, which needs no rule for what the
// text has of Markdown: backticks and bars are entities.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "<code>" + entities.Replace(terminal.Line(text)) + "</code>"
}

// entities writes what HTML or Markdown reads as its own in another way.
var entities = strings.NewReplacer(
	"&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;", "|", "&#124;", "`", "&#96;", "*", "&#42;", "_", "&#95;",
	"[", "&#91;", "]", "&#93;", "@", "&#64;", `\`, "&#92;", "~", "&#126;", "#", "&#35;", "!", "&#33;", "://", "&#58;//", "www.", "www&#46;",
)

// verdict is the heading.
func (m *markdown) verdict(v verdict.Verdict) {
	m.line("### %s: %s", code(m.o.nameOf(m.r)), prose(v.String()))
	m.line("")
}

// scope says between what, where and as of when.
//
// Etags are whole here: a comment stays, and one compares it later.
func (m *markdown) scope() {
	r, o := m.r, m.o
	for _, s := range o.Sides {
		m.line("* %s: %s", s.Name, prose(s.From))
	}
	if len(o.Sides) > 0 {
		m.line("")
	}
	var parts []string
	if r.ExperimentEtag != "" && len(o.Sides) == 0 {
		parts = append(parts, "experiment "+code(r.ExperimentEtag)+" next to the live policy "+code(r.PolicyEtag))
	}
	if r.ActiveDuration != nil {
		parts = append(parts, "for "+verdict.Period(r.ActiveDuration))
	}
	if r.NodeCount > 0 {
		parts = append(parts, fmt.Sprintf("on %d of %s", r.ReportingNodeCount, verdict.Counted(int64(r.NodeCount), "sidecar")))
	}
	if r.UpdateTime != nil {
		parts = append(parts, "as of "+r.UpdateTime.AsTime().UTC().Format("2006-01-02 15:04:05 UTC"))
	}
	if len(parts) > 0 {
		m.line("%s", strings.Join(parts, ", "))
		m.line("")
	}
}

// counts is the table of kinds.
//
// Each share says what it is a share of, since a table in a comment is quoted without the sentence below.
func (m *markdown) counts() {
	m.line("| | requests | share |")
	m.line("|---|---:|---:|")
	m.line("| compared | %s | |", report.Number(m.r.RequestCount))
	m.line("| unchanged | %s | %s |", report.Number(m.r.UnchangedCount), prose(verdict.Unchanged(m.r)))
	for _, k := range verdict.Changes {
		n := k.Count(m.r)
		mark := ""
		if n > 0 {
			mark = "**"
		}
		m.line("| %[1]s%[2]s%[1]s | %[1]s%[3]s%[1]s | %[4]s |", mark, k.Name, report.Number(n), prose(verdict.ShareInWords(m.r, k)))
	}
	if n, all := report.NotCompared(report.Counts(m.r)); n > 0 {
		m.line("| **not compared** | **%s** | %s of %s |", report.Number(n), prose(verdict.Share(n, all)), verdict.Counted(all, "request"))
	}
	m.line("")
	if text := verdict.Split(m.r); text != "" {
		m.line("%s", prose(sentence(text)))
		m.line("")
	}
}

// requirements is the table of what a commit needs.
//
// The sign and the word say the same, for readers without pictures or colours.
func (m *markdown) requirements(rows []*adminpb.Report_RequirementResult) {
	m.line("| requirement | | has | needs | of |")
	m.line("|---|---|---:|---:|---|")
	for _, q := range rows {
		sign := "✅ "
		if !q.Met {
			sign = "❌ "
		}
		from := "call"
		if q.Source == adminpb.Report_RequirementResult_LOCATION {
			from = "location"
		}
		m.line("| %s | %s | %s | %s | %s |", code(q.Requirement), sign+verdict.StateOfRequirement(m.r, q), prose(q.Have), prose(q.Need), from)
	}
	m.line("")
}

// groups is the table of what differs, and why.
//
// All of a group is in one row, since a comment is scrolled and not paged.
func (m *markdown) groups(all []*adminpb.Report_Difference) {
	m.line("| requests | kind | path | callers | answer | why |")
	m.line("|---:|---|---|---:|---|---|")
	shown := all[:min(len(all), markdownGroups)]
	for _, d := range shown {
		m.line("| %s | %s | %s | %s | %s | %s |", partOf(d), verdict.NameOf(d.Kind), code(d.Method+" "+d.Path), callersOf(d), answersOf(d), withGroup(whyOf(m.r, d), groupOf(m.r, d)))
	}
	m.line("")
	if rest := restOf(all[len(shown):], m.r.OtherDifferences); rest != "" {
		m.line("%s", prose(rest))
		m.line("")
	}
}

// whyOf is the cell with causes, changes and reason of a group.
func whyOf(r *adminpb.Report, d *adminpb.Report_Difference) string {
	var parts []string
	for _, e := range d.Causes {
		parts = append(parts, code(causeOf(e)))
	}
	if text := verdict.UnknownCause(r, d); text != "" {
		parts = append(parts, prose(text))
	}
	if len(d.Changes) > 0 && d.Kind == adminpb.Report_RESPONSE_CHANGED {
		parts = append(parts, "changes "+code(strings.Join(d.Changes, ", ")))
	}
	if reason := reasonOf(d); reason != "" {
		parts = append(parts, prose(reason))
	}
	if d.Noise {
		parts = append(parts, "may be noise: the live policy, asked twice, differs like this")
	}
	return strings.Join(parts, "<br>")
}

// withGroup is a cell of whyOf with what names the group, which may be empty.
func withGroup(why, group string) string {
	if why == "" || group == "" {
		return why + prose(group)
	}
	return why + "<br>" + prose(group)
}

// who and all sections after it are a list.
func (m *markdown) who(labels []*adminpb.Report_LabelSummary) {
	for _, l := range labels {
		var values []string
		for _, v := range l.Values {
			values = append(values, code(v.Value)+" "+report.Number(v.RequestCount))
		}
		m.line("* %s, by %s: %s", verdict.NameOf(l.Kind), code(l.Label), strings.Join(values, ", "))
	}
}

// takenBack lists what a commit would undo.
func (m *markdown) takenBack(texts []string) {
	m.line("A commit undoes these changes of the live policy, which the experiment was not made from:")
	m.line("")
	m.entries("", texts)
	m.line("")
}

// expectations lists what the author expects.
func (m *markdown) expectations(texts []string) {
	m.line("The author expects:")
	m.line("")
	m.entries("", texts)
	m.line("")
}

func (m *markdown) noise(text string) {
	m.line("* noise: %s", prose(strings.TrimPrefix(text, "none: ")))
}

func (m *markdown) bounds(texts []string) { m.entries("at 95%, ", texts) }

func (m *markdown) unknown(texts []string) { m.entries("not known: ", texts) }

func (m *markdown) notes(of string, texts []string) { m.entries(prose(of)+": ", texts) }

// entries are those of the list that begin alike.
func (m *markdown) entries(begin string, texts []string) {
	for _, text := range texts {
		m.line("* %s%s", begin, prose(text))
	}
}
