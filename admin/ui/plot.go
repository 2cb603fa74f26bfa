package ui

import (
	"fmt"
	"time"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// A report has the last hour, minute by minute, as the nodes that run now saw it. It is drawn
// as two plots above each other, each with a scale of its own: a few requests that differ
// would not be seen next to thousands that do not.

// The bars in their own units, which are stretched to the room that a plot has; its texts are
// not. A minute is minuteWidth wide.
const (
	minutes     = 60
	minuteWidth = 12
	plotHeight  = 100
)

// plots are both, and the numbers as a table.
type plots struct {
	Compared, Differing plot
	// Rows are the minutes in which there was something, the latest first.
	Rows []minuteRow
	// Names are the kinds in Rows.
	Names []legend
}

// legend is a kind with its colour.
type legend struct{ Name, Class string }

// minuteRow is a minute of the table.
type minuteRow struct {
	Time     string
	Compared int64
	Counts   []int64
}

// plot is bars over an hour.
type plot struct {
	ID, Title string
	Bars      []bar
	// Top is the number at the top of the scale, and Sum that of the whole hour.
	Top, Sum int64
	// Ticks are the times at the end of each quarter.
	Ticks  []string
	Width  int
	Height int
}

// bar is a rectangle with what it stands for.
type bar struct {
	X, Y, Height float64
	Width        int
	Class, Title string
}

// plotsOf are those of a report.
func plotsOf(r *adminpb.Report) plots {
	out := plots{}
	if len(r.Points) == 0 {
		return out
	}
	for _, k := range verdict.Changes {
		for _, p := range r.Points {
			if k.Count(report.WithCounts(p.Counts)) > 0 {
				out.Names = append(out.Names, legend{k.Name, classes[k.Value]})
				break
			}
		}
	}
	end := r.Points[len(r.Points)-1].StartTime.AsTime()
	out.Compared = newPlot("compared", "Requests compared, per minute", end)
	out.Differing = newPlot("differing", "Requests that differ, per minute", end)
	for _, p := range r.Points {
		out.Compared.measure(p.Counts.RequestCount)
		out.Differing.measure(p.Counts.RequestCount - p.Counts.UnchangedCount)
	}
	for i := len(r.Points) - 1; i >= 0; i-- {
		out.add(r.Points[i], end)
	}
	return out
}

// add draws a minute.
func (p *plots) add(point *adminpb.Report_Point, end time.Time) {
	at, counts := point.StartTime.AsTime(), report.WithCounts(point.Counts)
	row := minuteRow{Time: at.UTC().Format("15:04"), Compared: counts.RequestCount}
	x := (minutes - 1 - end.Sub(at).Minutes()) * minuteWidth
	if x < 0 {
		return
	}
	p.Compared.draw(x, 0, counts.RequestCount, "unchanged", row.Time+": "+verdict.Counted(counts.RequestCount, "request")+" compared")
	var below int64
	for _, l := range p.Names {
		for _, k := range verdict.Changes {
			if k.Name != l.Name {
				continue
			}
			n := k.Count(counts)
			p.Differing.draw(x, below, n, l.Class, row.Time+": "+report.Number(n)+" "+k.Name)
			below += n
			row.Counts = append(row.Counts, n)
		}
	}
	p.Rows = append(p.Rows, row)
}

// newPlot is a plot of the hour that ends with a minute.
func newPlot(id, title string, end time.Time) plot {
	p := plot{ID: id, Title: title, Width: minutes * minuteWidth, Height: plotHeight}
	for back := 45; back >= 0; back -= 15 {
		p.Ticks = append(p.Ticks, end.Add(-time.Duration(back)*time.Minute).UTC().Format("15:04"))
	}
	return p
}

// measure notes a number that the scale has to have room for.
func (p *plot) measure(n int64) { p.Top, p.Sum = max(p.Top, n), p.Sum+n }

// draw adds a bar on top of others of the same minute. It is seen however small it is.
func (p *plot) draw(x float64, below, n int64, class, title string) {
	if n <= 0 || p.Top <= 0 {
		return
	}
	scale := float64(p.Height) / float64(p.Top)
	height := max(1.5, float64(n)*scale)
	p.Bars = append(p.Bars, bar{X: x + 1, Y: max(0, float64(p.Height)-float64(below)*scale-height), Width: minuteWidth - 2, Height: height, Class: class, Title: title})
}

// Half is the middle of the scale.
func (p plot) Half() int { return p.Height / 2 }

// Says is the plot in a sentence, for who does not see it.
func (p plot) Says() string {
	return fmt.Sprintf("%s in the last hour: %s in all, at most %s in a minute.", p.Title, report.Number(p.Sum), report.Number(p.Top))
}
