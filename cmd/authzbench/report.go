package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// reportHead says where and how it was measured. Figures without it cannot be judged:
// most differences between two reports are differences between machines.
type reportHead struct {
	Machine machine `json:"machine"`
	Command string  `json:"command"`
	Plan    plan    `json:"plan"`
}

// writeTo writes the machine and the command.
func (h *reportHead) writeTo(w io.Writer) {
	m := h.Machine
	fmt.Fprintf(w, "%s, %d cores (servers on %s, generator on %s), %s, %s.\n",
		m.CPU, m.Cores, m.Servers, m.Generator, m.Go, m.System)
	fmt.Fprintf(w, "Command: `%s`.\n", h.Command)
}

// report is everything that a run found: what --json writes, and the source of the
// table.
type report struct {
	reportHead
	Policies []policyReport `json:"policies"`
}

// policyReport is the result of one policy: a series for each server, in the order of
// --servers.
type policyReport struct {
	Policy string   `json:"policy"`
	Series []series `json:"series"`
}

// machine is where it was measured. Cores counts all processors; Servers and Generator
// are those that were used.
type machine struct {
	CPU       string `json:"cpu"`
	Cores     int    `json:"cores"`
	Servers   string `json:"server_cpus"`
	Generator string `json:"generator_cpus"`
	Go        string `json:"go"`
	System    string `json:"system"`
}

func newMachine(servers, generator *cpuList) machine {
	return machine{
		CPU: processorName(), Cores: runtime.NumCPU(), Servers: servers.String(), Generator: generator.String(),
		Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
	}
}

// processorName is the model of the first processor, or the architecture where Linux
// does not name one (arm64).
func processorName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// write writes the report as Markdown.
func (r *report) write(w io.Writer) {
	r.writeTo(w)
	p := r.Plan
	fmt.Fprintf(w, "%d rounds of %s, servers in turn; %d requests under way on %d connections; %s traffic. ",
		p.Rounds, p.Duration, p.Inflight, p.Connections, p.Traffic)
	if p.Rate.of(1) > 0 {
		fmt.Fprintf(w, "Latencies are those of an open loop at a rate of %s, from the moment a request was due.\n", &p.Rate)
	} else {
		fmt.Fprintln(w, "Latencies are those of a full server.")
	}
	fmt.Fprintln(w, "× is the ratio to the no-op server in the same round: median (least–most).")
	fmt.Fprint(w, "\n| policy | server | CPU per check | CPU × | checks/s | checks/s × | p50 | p90 | p99 | p99.9 | p99 × "+
		"| allocations | RSS |\n"+
		"| --- | --- | ---: | --- | ---: | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |\n")
	for _, policy := range r.Policies {
		policy.writeRows(w)
	}
}

// writeRows writes one row for each server. Without a no-op the ratios are to the
// first.
func (p policyReport) writeRows(w io.Writer) {
	base := p.Series[0].Samples // the no-op, if there is one
	for _, s := range p.Series {
		if s.Server == "noop" {
			base = s.Samples
		}
	}
	for _, s := range p.Series {
		cell := func(of func(sample) float64, format string) string { return fmt.Sprintf(format, median(s.Samples, of)) }
		times := func(of func(sample) float64) string { return spreadOf(s.Samples, base, of).String() }
		fmt.Fprintf(w, "| %s | %s | %s | **%s** | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", p.Policy, s.Server,
			cell(cpuOf, "%.1f µs"), times(cpuOf), cell(throughputOf, "%.0f"), times(throughputOf),
			cell(millis(func(s sample) time.Duration { return s.P50 }), "%.2f ms"),
			cell(millis(func(s sample) time.Duration { return s.P90 }), "%.2f ms"),
			cell(p99Of, "%.2f ms"), cell(millis(func(s sample) time.Duration { return s.P999 }), "%.2f ms"), times(p99Of),
			cell(func(s sample) float64 { return s.Allocations }, "%.0f"),
			cell(func(s sample) float64 { return float64(s.Memory) / (1 << 20) }, "%.0f MiB"))
	}
}

// Units of the table: µs for processor time, ms for latencies.
func cpuOf(s sample) float64        { return float64(s.CPU) / float64(time.Microsecond) }
func throughputOf(s sample) float64 { return s.Throughput }

var p99Of = millis(func(s sample) time.Duration { return s.P99 })

func millis(of func(sample) time.Duration) func(sample) float64 {
	return func(s sample) float64 { return float64(of(s)) / float64(time.Millisecond) }
}

// spread is the least, the median and the most of the ratios of several rounds. Least
// and most are shown because a median alone does not say whether the rounds agree.
type spread struct{ least, middle, most float64 }

// spreadOf divides round by round: what slowed one round down slowed both numbers.
// Rounds in which the base has no value (its processor time is not known) are left out.
func spreadOf(samples, base []sample, of func(sample) float64) spread {
	ratios := make([]float64, 0, len(samples))
	for i, s := range samples {
		if b := of(base[i]); b > 0 {
			ratios = append(ratios, of(s)/b)
		}
	}
	return spreadOfNumbers(ratios)
}

func spreadOfNumbers(numbers []float64) spread {
	if len(numbers) == 0 {
		return spread{}
	}
	return spread{slices.Min(numbers), medianOf(numbers), slices.Max(numbers)}
}

// String is the median and, in brackets, least and most; a dash if there is nothing.
func (s spread) String() string {
	if s == (spread{}) {
		return "–"
	}
	return fmt.Sprintf("%.2f (%.2f–%.2f)", s.middle, s.least, s.most)
}

// median is that of one figure over all rounds. The mean would follow the one round in
// which the machine did something else.
func median(samples []sample, of func(sample) float64) float64 {
	numbers := make([]float64, len(samples))
	for i, s := range samples {
		numbers[i] = of(s)
	}
	return medianOf(numbers)
}

// medianOf returns the middle one, or the upper of the two; zero of none.
func medianOf[N cmp.Ordered](numbers []N) (none N) {
	if len(numbers) == 0 {
		return none
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[len(sorted)/2]
}

// warnings are reasons to doubt the figures: requests that failed, and servers that
// allowed clearly different parts of the traffic. All had agreed on the effects
// before, so a server with more denials is one that denies because it is full, and such
// denials are cheap. The no-op allows all, and does not count.
func (p policyReport) warnings() (out []string) {
	var shares []float64
	fewest := math.MaxInt
	for _, s := range p.Series {
		for _, sample := range s.Samples {
			if sample.Errors > 0 {
				out = append(out, fmt.Sprintf("%s, %s: %d requests of a round failed", p.Policy, s.Server, sample.Errors))
			}
			if s.Server != "noop" {
				shares, fewest = append(shares, sample.Allowed), min(fewest, sample.Checks)
			}
		}
	}
	// Three standard deviations of what chance may do, and a little more.
	chance := .03 + 3/math.Sqrt(float64(max(fewest, 1)))
	if len(shares) > 0 && slices.Max(shares)-slices.Min(shares) > chance {
		out = append(out, fmt.Sprintf("%s: between %.0f %% and %.0f %% of the requests were allowed: "+
			"some server denies because it is full", p.Policy, 100*slices.Min(shares), 100*slices.Max(shares)))
	}
	return out
}
