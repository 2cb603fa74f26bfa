package main

import (
	"fmt"
	"io"
	"time"
)

// previewReport is everything that previewRun found: what --json writes, and the source
// of the table.
type previewReport struct {
	reportHead
	OTLP     bool            `json:"otlp"`
	Policies []previewPolicy `json:"policies"`
}

// previewPolicy is the result of one policy. Rate is that of the open loop, in checks
// per second.
type previewPolicy struct {
	Policy string          `json:"policy"`
	Rate   float64         `json:"rate"`
	Series []previewSeries `json:"series"` // the no-op first
}

// previewSeries is all rounds of one subject, in order.
type previewSeries struct {
	Server      string          `json:"server"`
	Experiments int             `json:"experiments"`
	Samples     []previewSample `json:"samples"`
}

// write writes the report as Markdown.
func (r *previewReport) write(w io.Writer) {
	r.writeTo(w)
	export := "Records are not exported."
	if r.OTLP {
		export = "Each record is exported over OTLP."
	}
	fmt.Fprintf(w, "An open loop at %s of what understudy takes without experiments; %d rounds of %s; %s traffic. %s\n",
		&r.Plan.Rate, r.Plan.Rounds, r.Plan.Duration, r.Plan.Traffic, export)
	fmt.Fprintln(w, "CPU × is the ratio to the no-op server under the same load, p99 × that to the first row of understudy; "+
		"what each experiment adds is a ratio to a check of the no-op in a closed loop. In the same round: median (least–most).")
	fmt.Fprint(w, "\n| policy | checks/s | experiments | CPU per check | CPU × | each experiment × | p50 | p99 | p99 × "+
		"| compared | dropped | records | lost |\n"+
		"| --- | ---: | ---: | ---: | --- | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: |\n")
	for _, p := range r.Policies {
		p.writeRows(w)
	}
}

// writeRows writes one row for each subject. The series begin with the no-op and then
// the subject that the others are compared with (previewRun.rounds).
func (p previewPolicy) writeRows(w io.Writer) {
	noop, first := p.Series[0], p.Series[1]
	for _, s := range p.Series {
		name := fmt.Sprint(s.Experiments)
		if s.Server == "noop" {
			name = "no-op"
		}
		middle := func(of func(previewSample) time.Duration) time.Duration { return medianOf(mapped(s.Samples, of)) }
		fmt.Fprintf(w, "| %s | %.0f | %s | %.1f µs | **%s** | **%s** | %.2f ms | %.2f ms | %s | %d | %d | %d | %d |\n",
			p.Policy, p.Rate, name,
			float64(middle(func(s previewSample) time.Duration { return s.CPU }))/1e3, s.cpuTimes(noop), s.perExperiment(first, noop),
			float64(middle(func(s previewSample) time.Duration { return s.P50 }))/1e6,
			float64(middle(func(s previewSample) time.Duration { return s.P99 }))/1e6, s.p99Times(first),
			s.total(func(s previewSample) int { return s.Compared }), s.total(func(s previewSample) int { return s.Dropped }),
			s.total(func(s previewSample) int { return s.Records }), s.total(func(s previewSample) int { return s.Lost }))
	}
}

// total adds the counts of all rounds.
func (s previewSeries) total(of func(previewSample) int) (total int) {
	for _, sample := range s.Samples {
		total += of(sample)
	}
	return total
}

// cpuTimes is the cost of a check, experiments included, as a ratio to the no-op at the
// same rate.
func (s previewSeries) cpuTimes(noop previewSeries) spread {
	return s.ratios(func(i int) float64 { return float64(s.Samples[i].CPU) / float64(noop.Samples[i].CPU) })
}

// p99Times is the p99 of live callers as a ratio to that of the first subject.
func (s previewSeries) p99Times(first previewSeries) spread {
	return s.ratios(func(i int) float64 { return float64(s.Samples[i].P99) / float64(first.Samples[i].P99) })
}

// perExperiment is what one experiment adds to a check, in checks of the no-op. It is
// an empty spread for the subject that the others are compared with, and for the no-op.
// The unit is the no-op in a closed loop: at half load it spends time on waking up, and
// any addition would look small against that.
func (s previewSeries) perExperiment(first, noop previewSeries) spread {
	added := s.Experiments - first.Experiments
	if added <= 0 {
		return spread{}
	}
	return s.ratios(func(i int) float64 {
		more := s.Samples[i].CPU - first.Samples[i].CPU
		return float64(more) / float64(added) / float64(noop.Samples[i].Full)
	})
}

// ratios takes one number of each round.
func (s previewSeries) ratios(of func(round int) float64) spread {
	numbers := make([]float64, len(s.Samples))
	for i := range numbers {
		numbers[i] = of(i)
	}
	return spreadOfNumbers(numbers)
}

// mapped maps samples.
func mapped[S, V any](samples []S, of func(S) V) []V {
	out := make([]V, len(samples))
	for i, s := range samples {
		out[i] = of(s)
	}
	return out
}
