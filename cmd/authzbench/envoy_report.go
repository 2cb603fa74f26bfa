package main

import (
	"fmt"
	"io"
	"time"
)

// envoyReport is everything that was measured through Envoy: what --json writes, and
// the source of the table.
type envoyReport struct {
	reportHead
	Policies []envoyPolicy `json:"policies"`
}

// envoyPolicy is the result of one policy.
type envoyPolicy struct {
	Policy string `json:"policy"`
	// Rate is that of the open loop, in requests per second.
	Rate   float64       `json:"rate"`
	Series []envoySeries `json:"series"` // no filter, the no-op, then the others
}

// envoySeries is all rounds of one chain, in order. Round i of every series was
// measured at nearly the same time, which is why ratios are taken round by round.
type envoySeries struct {
	Server  string        `json:"server"`
	Samples []envoySample `json:"samples"`
}

// write writes the report as Markdown.
func (r *envoyReport) write(w io.Writer) {
	r.writeTo(w)
	fmt.Fprintf(w, "Through Envoy with one worker: %d rounds of %s, in turn; %d connections; %s traffic.\n",
		r.Plan.Rounds, r.Plan.Duration, r.Plan.Connections, r.Plan.Traffic)
	fmt.Fprintln(w, "CPU is for one request in a closed loop, latencies are those of an open loop at one rate for all. "+
		"× is the ratio to the no-op server in the same round: median (least–most).")
	fmt.Fprint(w, "\n| policy | rate | server | requests/s | × | Envoy CPU | × | server CPU | × | p50 | p99 | p99 × | allowed | errors |\n"+
		"| --- | ---: | --- | ---: | --- | ---: | --- | ---: | --- | ---: | ---: | --- | ---: | ---: |\n")
	for _, p := range r.Policies {
		p.writeRows(w)
	}
}

// writeRows writes one row for each chain. The second series is the no-op (startAll).
func (p envoyPolicy) writeRows(w io.Writer) {
	noop := p.Series[1].Samples
	for _, s := range p.Series {
		times := func(of func(envoySample) float64) string {
			numbers := make([]float64, len(s.Samples))
			for i := range numbers {
				numbers[i] = of(s.Samples[i]) / of(noop[i])
			}
			return spreadOfNumbers(numbers).String()
		}
		middle := func(of func(envoySample) float64) float64 { return medianOf(mapped(s.Samples, of)) }
		errors := 0
		for _, one := range s.Samples {
			errors += one.Errors
		}
		fmt.Fprintf(w, "| %s | %.0f | %s | %.0f | %s | %.1f µs | **%s** | %.1f µs | **%s** | %.2f ms | %.2f ms | %s | %.0f%% | %d |\n",
			p.Policy, p.Rate, s.Server, middle(requestsOf), times(requestsOf),
			middle(envoyOf), times(envoyOf), middle(serverOf), times(serverOf),
			middle(p50Of)/1e3, middle(envoyP99Of)/1e3, times(envoyP99Of), 100*middle(allowedOf), errors)
	}
}

func requestsOf(s envoySample) float64 { return s.Throughput }
func envoyOf(s envoySample) float64    { return micros(s.Envoy) }
func serverOf(s envoySample) float64   { return micros(s.Server) }
func p50Of(s envoySample) float64      { return micros(s.P50) }
func envoyP99Of(s envoySample) float64 { return micros(s.P99) }
func allowedOf(s envoySample) float64  { return s.Allowed }

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
