package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
)

// The measures of the drawing, in pixels.
const (
	pictureWidth = 1440
	gap          = 8
	headHeight   = 64
	rowHeight    = 34
	chartHeight  = 220
	perLine      = 24 / panelWidth
	axisWidth    = 66
	chartWidth   = (pictureWidth - gap*(perLine+1)) / perLine
)

// colours are those of series, in their order; Grafana's are similar.
var colours = []string{"#73bf69", "#f2cc0c", "#5794f2", "#ff780a", "#f2495c"}

// canvas is an SVG that grows.
type canvas struct{ bytes.Buffer }

// draw returns a drawing of the dashboard: its rows and panels in their positions, with curves that are made up.
func draw(rows []row) []byte {
	height := headHeight + gap
	for _, r := range rows {
		height += rowHeight + (len(r.charts)+perLine-1)/perLine*(chartHeight+gap)
	}
	d := &canvas{}
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Inter, Helvetica, Arial, sans-serif" font-size="12">`+"\n", pictureWidth, height)
	d.box(0, 0, pictureWidth, height, "#111217")
	d.text(gap*2, 28, 18, "#d8d9da", "Understudy")
	d.text(gap*2, 50, 12, "#8e8e99", "Prometheus: default    Job: All    Instance: All    Policy: All    —    drawn by deploy/dashboard: the layout is that of the dashboard, the curves are examples")
	y := headHeight
	for n, r := range rows {
		d.text(gap*2, y+22, 14, "#d8d9da", "▾ "+r.title)
		y += rowHeight
		for i, c := range r.charts {
			d.chart(gap+i%perLine*(chartWidth+gap), y+i/perLine*(chartHeight+gap), c, n*perLine+i)
		}
		y += (len(r.charts) + perLine - 1) / perLine * (chartHeight + gap)
	}
	d.WriteString("</svg>\n")
	return d.Bytes()
}

// chart draws a panel at a position. The number makes its curves differ from those of others.
func (d *canvas) chart(x, y int, c chart, number int) {
	d.box(x, y, chartWidth, chartHeight, "#181b1f")
	d.text(x+10, y+22, 13, "#d8d9da", c.title)
	var names []string
	for _, q := range c.queries {
		names = append(names, q.examples...)
	}
	if c.kind == table {
		d.table(x, y, names)
		return
	}
	const top, bottom = 40, chartHeight - 58
	for line := range 4 {
		fmt.Fprintf(d, `<path d="M%d %dh%d" stroke="#2c2f36"/>`+"\n", x+axisWidth, y+top+line*(bottom-top)/3, chartWidth-axisWidth-10)
	}
	d.text(x+10, y+top+4, 11, "#8e8e99", c.drawn.most)
	d.text(x+10, y+bottom+4, 11, "#8e8e99", "0")
	for i := range names {
		height := (bottom - top) * (len(names) - i) / (len(names) + 1)
		if c.drawn.quiet {
			height = 0
		}
		d.curve(x+axisWidth, y+bottom, chartWidth-axisWidth-10, height, number*7+i)
	}
	d.legend(x+12, y+chartHeight-36, names)
}

// legend names the curves, on as many lines as that takes.
func (d *canvas) legend(x, y int, names []string) {
	right := x
	for i, name := range names {
		width := 32 + len([]rune(name))*7
		if right > x && right+width > x+chartWidth-12 {
			right, y = x, y+18
		}
		fmt.Fprintf(d, `<path d="M%d %dh12" stroke="%s" stroke-width="3"/>`+"\n", right, y, colours[i%len(colours)])
		d.text(right+16, y+4, 11, "#c7d0d9", name)
		right += width
	}
}

// curve draws a line that goes up and down around a height above its base. The seed makes it differ from others.
func (d *canvas) curve(x, base, width, height, seed int) {
	fmt.Fprintf(d, `<path fill="none" stroke="%s" stroke-width="1.5" d="M`, colours[seed%7%len(colours)])
	for step := range 49 {
		t := float64(step) + float64(seed)*3
		wave := 0.08*math.Sin(t/5) + 0.05*math.Sin(t/1.7) + 0.03*math.Sin(t*1.3)
		fmt.Fprintf(d, "%d %d ", x+width*step/48, base-int(math.Round(float64(height)*(1+wave))))
	}
	d.WriteString("\"/>\n")
}

// table draws a line for each name.
func (d *canvas) table(x, y int, names []string) {
	for i, name := range append([]string{"instance"}, names...) {
		value := "1,795,860,213,114"
		if i == 0 {
			value = "Value"
		}
		d.text(x+14, y+54+i*26, 12, "#c7d0d9", name)
		d.text(x+chartWidth/2, y+54+i*26, 12, "#c7d0d9", value)
		fmt.Fprintf(d, `<path d="M%d %dh%d" stroke="#2c2f36"/>`+"\n", x+10, y+62+i*26, chartWidth-20)
	}
}

func (d *canvas) box(x, y, width, height int, fill string) {
	fmt.Fprintf(d, `<rect x="%d" y="%d" width="%d" height="%d" rx="2" fill="%s"/>`+"\n", x, y, width, height, fill)
}

func (d *canvas) text(x, y, size int, fill, text string) {
	fmt.Fprintf(d, `<text x="%d" y="%d" font-size="%d" fill="%s" xml:space="preserve">`, x, y, size, fill)
	_ = xml.EscapeText(d, []byte(text))
	d.WriteString("</text>\n")
}
