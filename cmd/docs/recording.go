package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// screen is what a terminal shows of one command.
type screen struct {
	command string
	lines   []line
}

// line is a line of output, as runs of one style each.
type line []run

type run struct {
	text  string
	style string // a class of the SVG, or empty
}

// text returns the line without its styles.
func (l line) text() string {
	var b strings.Builder
	for _, r := range l {
		b.WriteString(r.text)
	}
	return b.String()
}

// sgr is the escape sequence that chooses a style (ECMA-48, Select Graphic Rendition).
var sgr = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// styles :: the parameter of an SGR sequence → the class of the text after it. The
// program uses no others.
var styles = map[string]string{"": "", "0": "", "1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow"}

// parseLines splits what a program wrote to a terminal into lines of runs.
func parseLines(output string) (lines []line) {
	for text := range strings.Lines(strings.ReplaceAll(output, "\r\n", "\n")) {
		lines = append(lines, parseLine(strings.TrimSuffix(text, "\n")))
	}
	return lines
}

func parseLine(text string) (l line) {
	style, begin := "", 0
	add := func(to int) {
		if to > begin {
			l = append(l, run{text: text[begin:to], style: style})
		}
	}
	for _, at := range sgr.FindAllStringSubmatchIndex(text, -1) {
		add(at[0])
		style, begin = styles[text[at[2]:at[3]]], at[1]
	}
	add(len(text))
	return l
}

// The terminal: its size in characters, and that of a character in pixels. 0.6 of its
// size is how wide the usual fonts are; textLength makes any other as wide.
const (
	columns, rows = 80, 24
	fontSize      = 15.0
	advance       = 0.602 * fontSize
	leading       = 21.0
	margin        = 22.0
	titleBar      = 38.0
)

// How long things take: a recording is read, so a chapter stays for as long as its
// lines need, and a short one no longer.
const (
	perLine    = 70 * time.Millisecond
	perRead    = 260 * time.Millisecond
	perChapter = 900 * time.Millisecond
	fewLines   = 4
	atTheEnd   = 5 * time.Second
)

// moment is a time at which so many lines are there.
type moment struct {
	at    time.Duration
	lines int
}

// timeline returns when how many lines are there, and how long all of it takes. An
// empty line ends a chapter.
func timeline(lines []line) (moments []moment, total time.Duration) {
	chapter := 0
	for i, l := range lines {
		moments = append(moments, moment{at: total, lines: i + 1})
		total += perLine
		chapter++
		if len(l) > 0 {
			continue
		}
		total += time.Duration(chapter) * perRead
		if chapter > fewLines {
			total += perChapter
		}
		chapter = 0
	}
	return moments, total + atTheEnd
}

// draw writes the recording as an SVG. Lines that are not there yet are covered; cover
// and text move in steps. Who prefers reduced motion, and a program that knows no
// animation, gets the end.
func draw(w io.Writer, s screen) error {
	lines := append([]line{{{text: "$ ", style: "dim"}, {text: s.command}}}, s.lines...)
	moments, total := timeline(lines)
	width, height := 2*margin+columns*advance, titleBar+rows*leading+margin
	b := &bytes.Buffer{}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" width="%.0f" height="%.0f" xml:space="preserve" role="img" aria-label="A recording of %s">`+"\n",
		width, height, width, height, escape(s.command))
	drawStyle(b, moments, total)
	fmt.Fprintf(b, `<rect class="window" x=".5" y=".5" width="%.0f" height="%.0f" rx="10"/>`+"\n", width-1, height-1)
	for i, colour := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(b, `<circle cx="%d" cy="20" r="6" fill="%s"/>`+"\n", 24+20*i, colour)
	}
	fmt.Fprintf(b, `<text class="dim" x="%.0f" y="25" text-anchor="middle">%s</text>`+"\n", width/2, escape(s.command))
	fmt.Fprintf(b, `<svg x="%.0f" y="%.0f" width="%.2f" height="%.0f"><g class="scroll">`+"\n", margin, titleBar, columns*advance, rows*leading)
	for i, l := range lines {
		drawLine(b, i, l)
	}
	fmt.Fprintf(b, `<rect class="cover" width="100%%" height="%.0f"/>`+"\n</g></svg>\n</svg>\n", float64(len(lines)+rows)*leading)
	_, err := w.Write(b.Bytes())
	return err
}

// drawStyle writes the colours, and the two animations as steps.
func drawStyle(b *bytes.Buffer, moments []moment, total time.Duration) {
	last := moments[len(moments)-1].lines
	fmt.Fprintf(b, `<style>
text { font: %.0fpx ui-monospace, SFMono-Regular, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e6edf3; white-space: pre }
.window { fill: #0d1117; stroke: #3d444d } .cover { fill: #0d1117 }
.bold { font-weight: 700; fill: #ffffff } .dim { fill: #9198a1 } .red { fill: #ff7b72 } .green { fill: #56d364 } .yellow { fill: #e3b341 }
.scroll { transform: translateY(%s) } .cover { transform: translateY(%s) }
@media (prefers-reduced-motion: no-preference) {
.scroll { animation: scroll %.2fs step-end infinite } .cover { animation: cover %.2fs step-end infinite }
}
`, fontSize, scrolled(last), covered(last), total.Seconds(), total.Seconds())
	for _, animation := range []struct {
		name string
		to   func(lines int) string
	}{{"scroll", scrolled}, {"cover", covered}} {
		fmt.Fprintf(b, "@keyframes %s {\n", animation.name)
		before := ""
		for _, m := range moments {
			if to := animation.to(m.lines); to != before {
				fmt.Fprintf(b, "%.2f%% { transform: translateY(%s) }\n", 100*m.at.Seconds()/total.Seconds(), to)
				before = to
			}
		}
		b.WriteString("}\n")
	}
	b.WriteString("</style>\n")
}

// scrolled is how far the text is moved when so many lines are there.
func scrolled(lines int) string { return fmt.Sprintf("%.0fpx", -leading*float64(max(0, lines-rows))) }

// covered is where the cover begins when so many lines are there.
func covered(lines int) string { return fmt.Sprintf("%.0fpx", leading*float64(lines)) }

func drawLine(b *bytes.Buffer, i int, l line) {
	column := 0
	for _, r := range l {
		width := utf8.RuneCountInString(r.text)
		text := strings.TrimLeft(r.text, " ")
		begin := column + width - utf8.RuneCountInString(text)
		text = strings.TrimRight(text, " ")
		if n := utf8.RuneCountInString(text); n > 0 {
			class := ""
			if r.style != "" {
				class = fmt.Sprintf(` class="%s"`, r.style)
			}
			fmt.Fprintf(b, `<text%s x="%.2f" y="%.0f" textLength="%.2f">%s</text>`+"\n",
				class, float64(begin)*advance, float64(i)*leading+16, float64(n)*advance, escape(text))
		}
		column += width
	}
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}
