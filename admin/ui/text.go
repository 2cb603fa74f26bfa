package ui

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"understudy/admin/report"
	"understudy/admin/ui/linediff"
	adminpb "understudy/admin/v1"
	"understudy/authz/background"
)

const (
	// linesShown bounds the lines of all modules that a page compares, and lineShown the bytes
	// of a line.
	linesShown = 4000
	lineShown  = 2000
	// wholeModule is up to how many lines a module is shown whole; of a longer one only what
	// is within context lines of a change.
	wholeModule  = 120
	contextLines = 5
)

// compared are two policies side by side. They are compared when they are shown.
type compared struct {
	// LeftName and RightName are the headings of the sides.
	LeftName, RightName string
	left, right         *adminpb.Policy
	report              *adminpb.Report
	version             string
}

// comparedText compares the live policy with that of an experiment.
func comparedText(live, experiment *adminpb.Policy, r *adminpb.Report) compared {
	marks := ""
	for _, c := range r.GetChangedRules() {
		marks += fmt.Sprint(c.Side, c.File, c.Line, c.EvaluatedTrue, c.EvaluatedFalse, "\x00")
	}
	return compared{
		LeftName: "Live policy", RightName: "Experiment", left: live, right: experiment, report: r,
		version: versionOf("text", live.GetEtag(), r.GetExperimentEtag(), marks, fmt.Sprint(report.Examined(r), r.GetRequestCount() > 0)),
	}
}

// module is a file of both policies.
type module struct {
	Name string
	// Word says what becomes of it.
	Word string
	Rows []row
	// Marked says that some line of it has a mark.
	Marked bool
}

// row is a line of both sides, or, with Skipped, so many that both have.
type row struct {
	Left, Right side
	// Op is the class of the row.
	Op      string
	Skipped int
}

// side is a line of one side: what it begins and ends with as the other one does, and what is
// between.
type side struct {
	Number                int
	Before, Middle, After string
	// Sign is what is before the line of a diff.
	Sign string
	// Mark is the class of what is known of the line, Tag a word for it on the first line of a
	// rule.
	Mark, Tag string
}

// text is the whole comparison.
type text struct {
	Modules []module
	// Alike are the names of modules that both have, Content what else differs.
	Alike   []string
	Content []difference
	// Cut is how many lines are not shown.
	Cut int
	// Marked says that it is known of some line whether requests exercised it.
	Marked bool
}

// Compare works it out, off the request path of checks if it is much.
func (c compared) Compare() (out text) {
	background.Run(proto.Size(c.left)+proto.Size(c.right), func() { out = c.compare() })
	return out
}

func (c compared) compare() text {
	out := text{Content: contentDifferences(c.left, c.right)}
	names := slices.Sorted(maps.Keys(c.left.GetModules()))
	for name := range c.right.GetModules() {
		if _, both := c.left.GetModules()[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	left := linesShown
	for _, name := range names {
		l, inLeft := c.left.GetModules()[name]
		r, inRight := c.right.GetModules()[name]
		if inLeft && inRight && l == r {
			out.Alike = append(out.Alike, name)
			continue
		}
		m := module{Name: name, Word: "changed"}
		if !inLeft {
			m.Word = "added"
		} else if !inRight {
			m.Word = "removed"
		}
		c.fill(&m, linediff.Lines(l), linediff.Lines(r))
		if len(m.Rows) > left {
			out.Cut += len(m.Rows) - left
			m.Rows = m.Rows[:left]
		}
		left -= len(m.Rows)
		out.Marked = out.Marked || m.Marked
		out.Modules = append(out.Modules, m)
	}
	return out
}

// fill makes the rows of a module.
func (c compared) fill(m *module, left, right []string) {
	leftMarks := marksOf(left, c.rules(m.Name, adminpb.Report_ChangedRule_POLICY), c.report)
	rightMarks := marksOf(right, c.rules(m.Name, adminpb.Report_ChangedRule_EXPERIMENT), c.report)
	m.Marked = len(leftMarks)+len(rightMarks) > 0
	for _, d := range linediff.Diff(left, right) {
		row := row{Op: [...]string{"same", "changed", "deleted", "inserted"}[d.Op]}
		row.Left = sideOf(d.Left, d.LeftText, d, leftMarks)
		row.Right = sideOf(d.Right, d.RightText, d, rightMarks)
		if d.Op != linediff.Same {
			if d.Left > 0 {
				row.Left.Sign = "−"
			}
			if d.Right > 0 {
				row.Right.Sign = "+"
			}
		}
		m.Rows = append(m.Rows, row)
	}
	if len(m.Rows) > wholeModule {
		m.Rows = folded(m.Rows)
	}
}

// rules are the changed rules of a module on one side.
func (c compared) rules(file string, side adminpb.Report_ChangedRule_Side) (rules []*adminpb.Report_ChangedRule) {
	for _, r := range c.report.GetChangedRules() {
		if r.Side == side && r.File == file {
			rules = append(rules, r)
		}
	}
	return rules
}

// sideOf is one side of a row.
func sideOf(number int, line string, d linediff.Row, marks map[int]mark) side {
	if number == 0 {
		return side{}
	}
	s := side{Number: number, Mark: marks[number].class, Tag: marks[number].tag}
	if len(line) > lineShown {
		s.Before = excerpt(line, d)
		return s
	}
	s.Before = line
	if d.Op != linediff.Changed || len(d.LeftText)+len(d.RightText) > 2*lineShown {
		return s
	}
	before, after := linediff.Middle(d.LeftText, d.RightText)
	if 3*(before+after) < len(line) {
		return s // they have too little in common to be one line that was changed
	}
	s.Before, s.Middle, s.After = line[:before], line[before:len(line)-after], line[len(line)-after:]
	return s
}

// excerpt is what is shown of a line that is too long: where the two lines differ.
func excerpt(line string, d linediff.Row) string {
	from := 0
	if d.Op == linediff.Changed {
		before, _ := linediff.Middle(d.LeftText, d.RightText)
		from = max(0, min(before-lineShown/4, len(line)-lineShown))
	}
	shown := strings.ToValidUTF8(line[from:from+lineShown], "")
	if from > 0 {
		shown = fmt.Sprintf("… %d bytes … ", from) + shown
	}
	if rest := len(line) - from - lineShown; rest > 0 {
		shown += fmt.Sprintf(" … %d more bytes", rest)
	}
	return shown
}

// folded leaves lines out that are far from any change and have no mark.
func folded(rows []row) (out []row) {
	near := make([]bool, len(rows))
	for i, r := range rows {
		if r.Op == "same" && r.Left.Tag == "" && r.Right.Tag == "" {
			continue
		}
		for j := max(0, i-contextLines); j <= min(len(rows)-1, i+contextLines); j++ {
			near[j] = true
		}
	}
	for i, r := range rows {
		switch {
		case near[i]:
			out = append(out, r)
		case len(out) > 0 && out[len(out)-1].Skipped > 0:
			out[len(out)-1].Skipped++
		default:
			out = append(out, row{Op: "skipped", Skipped: 1})
		}
	}
	return out
}

// mark says whether requests exercised a line.
type mark struct{ class, tag string }

// marksOf :: number of a line → what is known of the rule that it is in. Of rules that do not
// differ nothing is measured.
func marksOf(lines []string, rules []*adminpb.Report_ChangedRule, r *adminpb.Report) map[int]mark {
	marks := make(map[int]mark)
	for _, rule := range rules {
		m := markOf(rule, r)
		if m.class == "" {
			continue
		}
		for n := int(rule.Line); n <= endOfRule(lines, int(rule.Line)); n++ {
			// Two rules may begin on one line; what was never exercised is what counts.
			if marks[n].class != "never" {
				marks[n] = mark{class: m.class}
			}
		}
		if first := int(rule.Line); marks[first].class == m.class {
			marks[first] = m
		}
	}
	return marks
}

// markOf is that of a rule.
func markOf(rule *adminpb.Report_ChangedRule, r *adminpb.Report) mark {
	switch {
	case r.GetRequestCount() == 0:
		return mark{}
	case rule.EvaluatedTrue && rule.EvaluatedFalse:
		return mark{"seen", "exercised"}
	case rule.EvaluatedTrue:
		return mark{"seen", "exercised, always true"}
	case rule.EvaluatedFalse:
		return mark{"seen", "exercised, never true"}
	case !report.Examined(r):
		return mark{"never", "not exercised yet"}
	default:
		return mark{"never", "never exercised"}
	}
}

// endOfRule is the last line of the rule that begins on a line: what is indented below it,
// and what closes a bracket at the margin. A report says where a rule begins, alone.
func endOfRule(lines []string, first int) int {
	last := first
	for n := first + 1; n <= len(lines); n++ {
		line := lines[n-1]
		if strings.TrimSpace(line) == "" {
			continue
		}
		if !strings.ContainsAny(line[:1], " \t})]") {
			break
		}
		last = n
	}
	return min(last, len(lines))
}
