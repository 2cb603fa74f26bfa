package reportview

import (
	"io"
	"math"
	"strings"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// detail is how much of a report a page shows. Numbers are the most entries of a list.
type detail struct {
	groups, causes, items, labels, values, requirements int
	// seen is how many of the items are shown that requests have shown.
	seen int
	// explained is how many groups are shown with why; of the others there is a row.
	explained int
	// examples shows a request of each group, and items on as many lines as they need, and gaps empty lines between the parts.
	examples, gaps bool
}

// details are what is tried, one after the other, until a page is low enough.
var details = []detail{
	{groups: 10, explained: 10, causes: 3, items: 5, labels: 6, values: 6, requirements: 20, examples: true, gaps: true},
	{groups: 10, explained: 10, causes: 1, items: 3, labels: 4, values: 4, requirements: 20, examples: true, gaps: true},
	{groups: 10, explained: 10, causes: 1, items: 3, labels: 4, values: 4, requirements: 20, examples: true},
	{groups: 10, explained: 10, causes: 1, items: 3, labels: 4, values: 4, requirements: 20},
	{groups: 10, explained: 3, causes: 1, items: 2, labels: 2, values: 3, requirements: 8},
	{groups: 10, explained: 1, causes: 1, items: 1, labels: 1, values: 2, requirements: 4},
	{groups: 5, explained: 1, causes: 1, items: 1, labels: 1, values: 2, requirements: 4},
	{groups: 3, explained: 1, causes: 1, items: 1, labels: 1, values: 1, requirements: 3},
	{groups: 1, explained: 1, items: 1, labels: 1, values: 1, requirements: 2},
}

// everything is a page that leaves nothing out.
var everything = detail{
	groups: math.MaxInt, explained: math.MaxInt, causes: math.MaxInt, items: math.MaxInt, labels: math.MaxInt, values: math.MaxInt,
	requirements: math.MaxInt, seen: math.MaxInt, examples: true, gaps: true,
}

// Text writes a report for people, within the width of their terminal, and within its
// height but for the line of the prompt.
func Text(w io.Writer, r *adminpb.Report, o Options) error {
	_, err := io.WriteString(w, strings.Join(Lines(r, o), "\n")+"\n")
	return err
}

// Lines returns the lines of Text.
//
// A report that scrolls hides its first line, which is the verdict. So less and less of it is written until
// it fits; where nothing fits, the end is cut, and the last line says where all of it is.
func Lines(r *adminpb.Report, o Options) []string {
	if o.Everything {
		return newPage(r, o, everything).lines
	}
	var lines []string
	for _, d := range details {
		if lines = newPage(r, o, d).lines; o.Height == 0 || len(lines) < o.Height {
			return withSeen(r, o, d, lines)
		}
	}
	if fit := max(1, o.Height-1); len(lines) > fit {
		lines = append(lines[:fit-1:fit-1], o.Palette.Dim(terminal.Cut("… more than the terminal has lines for; -o markdown has all of it", o.columns())))
	}
	return lines
}

// maxSeen is how many of the items that requests have shown are listed at most, where not everything is.
const maxSeen = 5

// withSeen returns a page with as many of those items as there is room for next to all else; if there is none for
// any, the lines without them.
//
// Items that were not seen always come first: they are what is left to do.
func withSeen(r *adminpb.Report, o Options, d detail, without []string) []string {
	for d.seen = min(maxSeen, len(verdict.Seen(r))); d.seen > 0; d.seen-- {
		if with := newPage(r, o, d).lines; o.Height == 0 || len(with) < o.Height {
			return with
		}
	}
	return without
}

// columns is the width, with a number that no line reaches in place of none.
func (o Options) columns() int {
	if o.Width <= 0 {
		return math.MaxInt
	}
	return o.Width
}

// page is the text of a report, line by line.
type page struct {
	r     *adminpb.Report
	o     Options
	d     detail
	lines []string
}

func newPage(r *adminpb.Report, o Options, d detail) *page {
	p := &page{r: r, o: o, d: d}
	writeSections(p, r, o)
	return p
}

// lines are texts that may have been written by others, each as one line.
//
// A line break in a reason could otherwise write a line that looks like one of the report.
func lines(texts []string) []string {
	out := make([]string, len(texts))
	for i, text := range texts {
		out[i] = terminal.Line(text)
	}
	return out
}

// add appends lines as they are.
func (p *page) add(lines ...string) { p.lines = append(p.lines, lines...) }

// gap appends an empty line where there is room for it.
func (p *page) gap() {
	if p.d.gaps {
		p.add("")
	}
}

// fit cuts a text to what is right of a column.
//
// Eight columns at least: in a terminal that is narrower than the labels, a text is cut to something.
func (p *page) fit(text string, from int) string {
	return terminal.Cut(text, max(8, p.o.columns()-from))
}

// labelColumns is the width of what begins a section.
const labelColumns = 9

// section appends texts below each other, right of their label. Each is wrapped.
//
// For example:
//
//	Unknown  hours of the week seen: 1 of 168, Thursday 11:00 to 12:00 UTC
//	         a sidecar that crashes loses up to its last 2s
func (p *page) section(label string, texts ...string) {
	for _, text := range texts {
		for _, line := range wrap(text, p.o.columns()-labelColumns) {
			p.add(p.o.Palette.Bold(terminal.Pad(label, labelColumns)) + line)
			label = ""
		}
	}
}

// row appends one text right of a label, cut to the width.
func (p *page) row(label, text string) {
	p.add(p.o.Palette.Bold(terminal.Pad(label, labelColumns)) + p.fit(text, labelColumns))
}

// wrap breaks a text at spaces into lines of a width; a longer word is cut.
//
// Widths are columns of a terminal and not characters: 漢 takes two.
func wrap(text string, columns int) (lines []string) {
	columns = max(8, columns)
	line := ""
	for _, word := range strings.Split(text, " ") {
		switch {
		case line == "":
			line = word
		case terminal.Columns(line)+1+terminal.Columns(word) <= columns:
			line += " " + word
		default:
			lines, line = append(lines, terminal.Cut(line, columns)), word
		}
	}
	return append(lines, terminal.Cut(line, columns))
}

// verdict is the first sentence of the page.
//
// Only the word is coloured, and it says the same without a colour: "Look first: 19 of 276 requests …".
func (p *page) verdict(v verdict.Verdict) {
	lines := wrap(v.String(), p.o.columns())
	for i, line := range lines {
		if rest, found := strings.CutPrefix(line, v.Word); i == 0 && found {
			line = p.tone(v.Tone, v.Word) + rest
		}
		p.add(line)
	}
}

// tone colours the word of a verdict.
func (p *page) tone(t verdict.Tone, text string) string {
	switch t {
	case verdict.Good:
		return p.o.Palette.Green(text)
	case verdict.Bad:
		return p.o.Palette.Red(text)
	case verdict.Look:
		return p.o.Palette.Yellow(text)
	default:
		return p.o.Palette.Bold(text)
	}
}

// scope says between what, for how long, where and as of when.
//
// For example:
//
//	shop/tighter (49703089cce2) next to the live policy (b1c4477132aa)
//	on 3 of 3 sidecars, for 2h5m, as of 2026-11-26 11:42:07 UTC
//
// Counts are those of this pair of etags. A hot fix of the live policy begins them anew, and what was
// compared before it is said apart.
func (p *page) scope() {
	r := p.r
	p.sides()
	var where []string
	if r.NodeCount > 0 {
		where = append(where, "on "+report.Number(int64(r.ReportingNodeCount))+" of "+verdict.Counted(int64(r.NodeCount), "sidecar"))
	}
	if r.ActiveDuration != nil {
		where = append(where, "for "+verdict.Period(r.ActiveDuration))
	}
	if r.UpdateTime != nil {
		where = append(where, "as of "+terminal.When(r.UpdateTime))
	}
	if len(where) > 0 {
		p.add(wrap(strings.Join(where, ", "), p.o.columns())...)
	}
	if all := r.AllPairs; all.GetRequestCount() > r.RequestCount {
		p.add(wrap("With this live policy and those before it: "+verdict.Summary(report.WithCounts(all))+".", p.o.columns())...)
	}
}

// sides says which two policies were compared.
//
// A replay has no etags: it names its two files.
func (p *page) sides() {
	r, text := p.r, p.o.nameOf(p.r)
	switch {
	case len(p.o.Sides) > 0:
		for _, s := range p.o.Sides {
			p.add(wrap(s.Name+": "+terminal.Line(s.From), p.o.columns())...)
		}
		return
	case r.ExperimentEtag != "" && r.PolicyEtag != "":
		text += " (" + shortEtag(r.ExperimentEtag) + ") next to the live policy (" + shortEtag(r.PolicyEtag) + ")"
	default:
		text += " next to the live policy"
	}
	p.add(wrap(text, p.o.columns())...)
}

// shortEtag is the beginning of an etag: enough to compare it with another by eye.
func shortEtag(etag string) string {
	hex := strings.TrimSuffix(strings.TrimPrefix(etag, `W/"`), `"`)
	return terminal.Line(hex[:min(len(hex), 12)])
}

// counts is the table of how many requests of each kind there are.
//
// It fits into 80 columns:
//
//	COMPARED  UNCHANGED  NEWLY DENIED  NEWLY ALLOWED  FAILED  CHANGED
//	     295        239            19              5       0       32
//	                81%          6.9%            26%      0%      12%
//
// In a terminal that is narrower each number has a line.
func (p *page) counts() {
	cells := countsOf(p.r)
	defer p.split()
	width := 0
	for _, c := range cells {
		width += c.width() + 2
	}
	p.add("")
	if width-2 > p.o.columns() {
		p.countList(cells)
		return
	}
	var heads, numbers, shares string
	for _, c := range cells {
		heads += terminal.PadLeft(c.head, c.width()) + "  "
		numbers += p.weigh(c, terminal.PadLeft(c.number, c.width())) + "  "
		shares += terminal.PadLeft(c.share, c.width()) + "  "
	}
	p.add(p.o.Palette.Bold(strings.TrimSuffix(heads, "  ")), strings.TrimSuffix(numbers, "  "), p.o.Palette.Dim(strings.TrimSuffix(shares, "  ")))
}

// countList is counts for a narrow terminal, a number on each line.
func (p *page) countList(cells []countCell) {
	widest := 0
	for _, c := range cells {
		widest = max(widest, len(c.number))
	}
	for _, c := range cells {
		text := " " + strings.ToLower(c.head)
		if c.share != "" && c.some {
			text += " (" + c.share + ")"
		}
		p.add(p.weigh(c, terminal.PadLeft(c.number, widest)) + p.fit(text, widest))
	}
}

// split says what the shares of newly denied and newly allowed requests are of.
//
// Without it the shares of the table seem to be of one whole, and are not.
func (p *page) split() {
	if text := verdict.Split(p.r); text != "" {
		p.add(wrap(sentence(text), p.o.columns())...)
	}
}

// sentence writes a clause as a sentence.
func sentence(clause string) string { return strings.ToUpper(clause[:1]) + clause[1:] + "." }

// weigh colours a number that somebody should look at.
//
// A zero is not coloured: it is what one hopes for.
func (p *page) weigh(c countCell, text string) string {
	if !c.some || c.kind == adminpb.Report_KIND_UNSPECIFIED {
		return text
	}
	return p.kind(c.kind, text)
}

// countCell is one number of the table.
type countCell struct {
	head, number, share string
	// some says that it is not 0.
	some bool
	// kind is that of the differences that it counts; unspecified if it counts none.
	kind adminpb.Report_Kind
}

// width is the columns of a cell.
func (c countCell) width() int { return max(len(c.head), len(c.number), len(c.share)) }

// countsOf returns the numbers in their order; that of what was not compared only if there is
// something.
//
// A terminal, a narrow terminal and Markdown have the same numbers in the same order.
func countsOf(r *adminpb.Report) []countCell {
	cells := []countCell{
		{head: "COMPARED", number: report.Number(r.RequestCount)},
		{head: "UNCHANGED", number: report.Number(r.UnchangedCount), share: verdict.Unchanged(r), some: r.UnchangedCount > 0},
	}
	for _, k := range verdict.Changes {
		n := k.Count(r)
		head := strings.ToUpper(k.Name)
		if k.Value == adminpb.Report_RESPONSE_CHANGED {
			head = "CHANGED" // so that all of them fit into 80 columns
		}
		cells = append(cells, countCell{head: head, number: report.Number(n), share: verdict.ShareOf(r, k), some: n > 0, kind: k.Value})
	}
	if n, all := report.NotCompared(report.Counts(r)); n > 0 {
		cells = append(cells, countCell{head: "NOT COMPARED", number: report.Number(n), share: verdict.Share(n, all), some: true})
	}
	return cells
}
