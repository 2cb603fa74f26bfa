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
	groups, causes, rules, labels, values, requirements int
	// explained is how many groups are shown with why; of the others there is a row.
	explained int
	// examples shows a request of each group, and gaps empty lines between the parts.
	examples, gaps bool
}

// details are what is tried, one after the other, until a page is low enough.
var details = []detail{
	{groups: 10, explained: 10, causes: 3, rules: 5, labels: 6, values: 6, requirements: 20, examples: true, gaps: true},
	{groups: 10, explained: 10, causes: 1, rules: 3, labels: 4, values: 4, requirements: 20, examples: true, gaps: true},
	{groups: 10, explained: 10, causes: 1, rules: 3, labels: 4, values: 4, requirements: 20, examples: true},
	{groups: 10, explained: 10, causes: 1, rules: 3, labels: 4, values: 4, requirements: 20},
	{groups: 10, explained: 3, causes: 1, rules: 2, labels: 2, values: 3, requirements: 8},
	{groups: 10, explained: 1, causes: 1, rules: 1, labels: 1, values: 2, requirements: 4},
	{groups: 5, explained: 1, causes: 1, rules: 1, labels: 1, values: 2, requirements: 4},
	{groups: 3, explained: 1, causes: 1, rules: 1, labels: 1, values: 1, requirements: 3},
	{groups: 1, explained: 1, rules: 1, labels: 1, values: 1, requirements: 2},
}

// everything is a page that leaves nothing out.
var everything = detail{
	groups: math.MaxInt, explained: math.MaxInt, causes: math.MaxInt, rules: math.MaxInt, labels: math.MaxInt, values: math.MaxInt,
	requirements: math.MaxInt, examples: true, gaps: true,
}

// Text writes a report for people, within the width of their terminal, and within its
// height but for the line of the prompt.
func Text(w io.Writer, r *adminpb.Report, o Options) error {
	_, err := io.WriteString(w, strings.Join(Lines(r, o), "\n")+"\n")
	return err
}

// Lines returns the lines of Text.
func Lines(r *adminpb.Report, o Options) []string {
	if o.Everything {
		return newPage(r, o, everything).lines
	}
	var lines []string
	for _, d := range details {
		if lines = newPage(r, o, d).lines; o.Height == 0 || len(lines) < o.Height {
			return lines
		}
	}
	if fit := max(1, o.Height-1); len(lines) > fit {
		lines = append(lines[:fit-1:fit-1], o.Palette.Dim(terminal.Cut("… more than the terminal has lines for; -o markdown has all of it", o.columns())))
	}
	return lines
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
	p.verdict()
	p.scope()
	p.counts()
	p.requirements()
	p.groups()
	p.replayed()
	if p.r.RequestCount > 0 {
		p.gap()
	}
	p.who()
	p.coverage()
	p.noise()
	p.unknown()
	p.section(o.NotesOf, lines(o.Notes)...)
	return p
}

// lines are texts that may have been written by others, each as one line.
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
func (p *page) fit(text string, from int) string {
	return terminal.Cut(text, max(8, p.o.columns()-from))
}

// labelColumns is the width of what begins a section.
const labelColumns = 9

// section appends texts below each other, right of their label. Each is wrapped.
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
func (p *page) verdict() {
	v := verdict.Of(p.r)
	lines := wrap(v.String(), p.o.columns())
	for i, line := range lines {
		word, rest, found := strings.Cut(line, ":")
		if i == 0 && found {
			line = p.tone(v.Tone, word+":") + rest
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
	default:
		return p.o.Palette.Yellow(text)
	}
}

// scope says between what, for how long, where and as of when.
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
func (p *page) sides() {
	r, text := p.r, p.o.nameOf(p.r)
	switch {
	case len(p.o.Sides) > 0:
		for _, s := range p.o.Sides {
			p.add(wrap(s.Name+": "+terminal.Line(s.From), p.o.columns())...)
		}
		return
	case r.ExperimentEtag != "" && r.PolicyEtag != "":
		text += " (" + shortEtag(r.ExperimentEtag) + ") beside the live policy (" + shortEtag(r.PolicyEtag) + ")"
	default:
		text += " beside the live policy"
	}
	p.add(wrap(text, p.o.columns())...)
}

// shortEtag is the beginning of an etag: enough to compare it with another by eye.
func shortEtag(etag string) string {
	hex := strings.TrimSuffix(strings.TrimPrefix(etag, `W/"`), `"`)
	return terminal.Line(hex[:min(len(hex), 12)])
}

// counts is the table of how many requests of each kind there are.
func (p *page) counts() {
	if p.r.RequestCount == 0 {
		return
	}
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
func (p *page) split() {
	if text := verdict.Split(p.r); text != "" {
		p.add(wrap(sentence(text), p.o.columns())...)
	}
}

// sentence writes a clause as a sentence.
func sentence(clause string) string { return strings.ToUpper(clause[:1]) + clause[1:] + "." }

// weigh colours a number that somebody should look at.
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
