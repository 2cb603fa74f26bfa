package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// committedReport is everything that commitRun found: what --json writes, and the source
// of the table.
type committedReport struct {
	reportHead
	Seconds  int               `json:"seconds"`
	Policies []committedPolicy `json:"policies"`
}

// committedPolicy is the result of one policy. Rate is that of the open loop, in checks
// per second.
type committedPolicy struct {
	Policy string           `json:"policy"`
	Rate   float64          `json:"rate"`
	Rounds []committedRound `json:"rounds"`
}

// committedRound is one commit.
type committedRound struct {
	// Took is how long the API took for it.
	Took time.Duration `json:"took_ns"`
	// Seconds are those of the open loop: as many before the commit as from it on.
	Seconds []committedSecond `json:"seconds"`
}

// committedSecond is what became of the requests that were due in one second.
type committedSecond struct {
	Checks int           `json:"checks"`
	Failed int           `json:"failed"`
	P99    time.Duration `json:"p99_ns"`
}

// write writes the report as Markdown.
func (r *committedReport) write(w io.Writer) {
	r.writeTo(w)
	fmt.Fprintf(w, "An experiment is committed after %d s of an open loop at %s of what understudy takes; %d commits; %s traffic.\n",
		r.Seconds, &r.Plan.Rate, r.Plan.Rounds, r.Plan.Traffic)
	fmt.Fprintln(w, "p99 × is the worst second from the commit on, as a ratio to the median of those before, in the same round: "+
		"median (least–most). The p99 of each second is the median of all rounds, in ms.")
	fmt.Fprint(w, "\n| policy | checks/s | failed before | failed from the commit on | p99 × | p99 of the seconds before | p99 from the commit on | a commit takes |\n"+
		"| --- | ---: | ---: | ---: | --- | --- | --- | ---: |\n")
	for _, p := range r.Policies {
		p.writeRow(w)
	}
}

func (p committedPolicy) writeRow(w io.Writer) {
	before, after := p.seconds()
	middle := len(p.Rounds[0].Seconds) / 2
	fmt.Fprintf(w, "| %s | %.0f | %s | %s | **%s** | %s | %s | %s |\n", p.Policy, p.Rate, p.failed(0, middle), p.failed(middle, 2*middle),
		spreadOfNumbers(mapped(p.Rounds, committedRound.p99Times)), before, after,
		inMillis(medianOf(mapped(p.Rounds, func(r committedRound) time.Duration { return r.Took }))))
}

// failed returns how many requests failed in some seconds of all rounds, and of how many.
func (p committedPolicy) failed(from, to int) string {
	failed, all := 0, 0
	for _, r := range p.Rounds {
		for _, s := range r.Seconds[from:to] {
			failed, all = failed+s.Failed, all+s.Failed+s.Checks
		}
	}
	return fmt.Sprintf("%d of %d", failed, all)
}

// seconds returns the p99 of each second before the commit, and from it on.
func (p committedPolicy) seconds() (before, after string) {
	var texts []string
	for i := range p.Rounds[0].Seconds {
		p99 := medianOf(mapped(p.Rounds, func(r committedRound) time.Duration { return r.Seconds[i].P99 }))
		texts = append(texts, fmt.Sprintf("%.1f", float64(p99)/1e6))
	}
	middle := len(texts) / 2
	return strings.Join(texts[:middle], ", "), strings.Join(texts[middle:], ", ")
}

// p99Times is the worst second from the commit on, as a ratio to the median of those
// before.
func (r committedRound) p99Times() float64 {
	p99 := mapped(r.Seconds, func(s committedSecond) time.Duration { return s.P99 })
	middle := len(p99) / 2
	return float64(slices.Max(p99[middle:])) / float64(medianOf(p99[:middle]))
}

func inMillis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
