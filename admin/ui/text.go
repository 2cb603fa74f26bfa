package ui

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"understudy/admin/policydiff"
	"understudy/admin/policydiff/linediff"
	adminpb "understudy/admin/v1"
	"understudy/authz/background"
)

const (
	// linesShown bounds the lines of all modules that a page compares, and lineShown the bytes
	// of a line.
	linesShown = 4000
	lineShown  = 2000
	// contextLines is how many lines that both have are shown around a change. Others are
	// folded: of all modules, so many that a page has a few of them to open.
	contextLines = 3
	foldedShown  = 600
)

// compared are two policies side by side. They are compared when they are shown.
type compared struct {
	// Title is the heading; LeftName and RightName are those of the sides.
	Title, LeftName, RightName string
	left, right                *adminpb.Policy
	report                     *adminpb.Report
	version                    string
}

// comparedText compares the live policy with that of an experiment.
func comparedText(live, experiment *adminpb.Policy, r *adminpb.Report) compared {
	marks := ""
	for _, item := range r.GetItems() {
		marks += fmt.Sprint(item.ItemId, markOf(item), "\x00")
	}
	return compared{
		Title: "What would change", LeftName: "Live policy", RightName: "Experiment", left: live, right: experiment, report: r,
		version: versionOf("text", live.GetEtag(), r.GetExperimentEtag(), marks, fmt.Sprint(r.GetRequestCount() > 0)),
	}
}

// module is a file of both policies.
type module struct {
	Name string
	// Word says what becomes of it.
	Word     string
	Segments []segment
	// Marked says that some line of it has a mark.
	Marked bool
}

// segment is a part of a module: a change with what is around it, or lines that both have.
type segment struct {
	// ID is that of what opens, and Lines how many are folded; empty and 0 if none are.
	ID    string
	Lines int
	// Rows are empty if they are folded and a page has no room for them.
	Rows []row
}

// row is a line of both sides.
type row struct {
	Left, Right side
	// Op is the class of the row.
	Op string
}

// side is a line of one side: what it begins and ends with as the other one does, and what is
// between.
type side struct {
	Number                int
	Before, Middle, After string
	// Sign is what is before the line of a diff.
	Sign string
	// Mark is the class of what is known of the line, Tag a word for it on the first line of an item.
	Mark, Tag string
}

// text is the whole comparison.
type text struct {
	Modules []module
	// Alike are the names of modules that both have, Content what else differs, and MoreContent
	// how much of that is not shown.
	Alike       []string
	Content     []policydiff.Value
	MoreContent int
	// Cut is how many lines are not shown.
	Cut int
	// Marked says that it is known of some line whether requests have shown what it does.
	Marked bool
}

// Compare works it out, off the request path of checks if it is much.
func (c compared) Compare() (out text) {
	background.Run(proto.Size(c.left)+proto.Size(c.right), func() { out = c.compare() })
	return out
}

func (c compared) compare() text {
	diff := policydiff.Of(c.left, c.right)
	out := text{Alike: diff.Alike}
	out.Content, out.MoreContent = shownValues(diff.Values)
	shown, folded := linesShown, foldedShown
	for i, differs := range diff.Modules {
		m := module{Name: differs.Name, Word: string(differs.Change)}
		rows := c.rows(&m, linediff.Lines(differs.Left), linediff.Lines(differs.Right))
		for _, s := range segmentsOf(rows) {
			room := &shown
			if s.Lines > 0 {
				room, s.ID = &folded, fmt.Sprintf("fold-%d-%d", i, s.Rows[0].Left.Number)
			}
			if len(s.Rows) > *room {
				if s.Lines == 0 {
					out.Cut += len(s.Rows) - *room
				}
				s.Rows = s.Rows[:*room]
			}
			if s.Lines > len(s.Rows) {
				s.Rows = nil // what opens is there as a whole
			}
			*room -= len(s.Rows)
			m.Segments = append(m.Segments, s)
		}
		out.Marked = out.Marked || m.Marked
		out.Modules = append(out.Modules, m)
	}
	return out
}

// rows are those of a module.
func (c compared) rows(m *module, left, right []string) (rows []row) {
	leftMarks := marksOf(left, c.items(m.Name, adminpb.Report_Item_POLICY))
	rightMarks := marksOf(right, c.items(m.Name, adminpb.Report_Item_EXPERIMENT, adminpb.Report_Item_BOTH))
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
		rows = append(rows, row)
	}
	return rows
}

// items are those that are in a module of one side. None is marked before anything was compared.
func (c compared) items(file string, of ...adminpb.Report_Item_Side) (items []*adminpb.Report_Item) {
	if c.report.GetRequestCount() == 0 {
		return nil
	}
	for _, item := range c.report.Items {
		if item.File == file && slices.Contains(of, item.Side) {
			items = append(items, item)
		}
	}
	return items
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
	before, after := d.Middle()
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
		before, _ := d.Middle()
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

// segmentsOf folds lines that are far from any change and do not begin a marked item. A line
// alone is shown: to fold it takes as much room.
func segmentsOf(rows []row) (out []segment) {
	near := nearChanges(rows)
	for begin := 0; begin < len(rows); {
		end := begin
		for end < len(rows) && near[end] == near[begin] {
			end++
		}
		s := segment{Rows: rows[begin:end]}
		if !near[begin] {
			s.Lines = end - begin
		}
		out, begin = append(out, s), end
	}
	return out
}

// nearChanges says of each line whether it is near a change or the beginning of a marked item, or
// alone between two that are.
func nearChanges(rows []row) []bool {
	near := make([]bool, len(rows))
	for i, r := range rows {
		if r.Op == "same" && r.Left.Tag == "" && r.Right.Tag == "" {
			continue
		}
		for j := max(0, i-contextLines); j <= min(len(rows)-1, i+contextLines); j++ {
			near[j] = true
		}
	}
	for i := range rows {
		if i > 0 && i < len(rows)-1 && !near[i] && near[i-1] && near[i+1] {
			near[i] = true
		}
	}
	return near
}

// mark says whether requests have shown what a line does.
type mark struct{ class, tag string }

// unseen is the class of a mark on what they have not shown.
const unseen = "never"

// marksOf :: number of a line → what is known of the item that it is in. Of what does not differ nothing
// is measured. A rule has the lines that it has, anything else the one where it begins.
func marksOf(lines []string, items []*adminpb.Report_Item) map[int]mark {
	marks := make(map[int]mark)
	for _, item := range items {
		m, first := markOf(item), int(item.Line)
		last := first
		if item.Kind == adminpb.Report_Item_RULE {
			last = endOfRule(lines, first)
		}
		for n := first; n <= last; n++ {
			switch of := marks[n].class; { // two items may be on one line; what is unseen is what counts
			case n == first && (of != unseen || m.class == unseen):
				marks[n] = m
			case of != unseen && of != m.class:
				marks[n] = mark{class: m.class}
			}
		}
	}
	return marks
}

// markOf is that of an item.
func markOf(item *adminpb.Report_Item) mark {
	word := itemStates[item.State][0]
	if item.State == adminpb.Report_Item_SEEN {
		return mark{"seen", word}
	}
	return mark{unseen, word}
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
