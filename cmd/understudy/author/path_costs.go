package author

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
)

// pathCost is what the live decisions of a policy have cost that were made in one path.
//
// It is an element of "costs" with -o json. All numbers are since the start of the sidecar.
type pathCost struct {
	// Path is hit, miss or another one of the metric understudy_decisions_total.
	Path      string  `json:"way"`
	Decisions float64 `json:"decisions"`
	// Seconds is the time of all, and MeanSeconds of one.
	Seconds     float64 `json:"seconds"`
	MeanSeconds float64 `json:"meanSeconds"`
	// Share is the part of all decisions that were made in this path, and TimeShare that of
	// the time, from 0 to 1.
	Share     float64 `json:"share"`
	TimeShare float64 `json:"timeShare"`
}

// paths are all, in the order in which they are shown, and what each means.
//
// The names are the label way of the metrics, in deploy/metrics.md.
var paths = []struct{ name, means string }{
	{"hit", "from the decision cache"},
	{"miss", "evaluated, and cached if it can be"},
	{"not_cached", "evaluated, never cached"},
	{"default", "no rules"},
	{"failed", "an error or a deadline"},
	{"not_ready", "the policy did not compile"},
}

const (
	metricDecisions = "understudy_decisions_total"
	metricTime      = "understudy_decision_time_seconds_total"
	// maxMetrics bounds the page of metrics, in bytes.
	maxMetrics = 64 << 20
)

// readCosts reads the metrics of a sidecar.
//
// It asks one sidecar: those of a location have the same policies, and about the same traffic. The
// metrics are read as Prometheus would, so a sidecar needs no port for this command.
func readCosts(ctx context.Context, addr, policy string, timeout time.Duration) ([]pathCost, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := cli.HealthRequest(ctx, command.FlagValue{Flag: "health", Value: addr}, "/metrics")
	if err != nil {
		return nil, err
	}
	const without = "--health '' explains without costs"
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the sidecar's metrics cannot be read: %w; %s", err, without)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("what answers at %s has no metrics: it says %s; %s", addr, response.Status, without)
	}
	return parseCosts(io.LimitReader(response.Body, maxMetrics), policy)
}

// parseCosts reads the costs of one policy from a page of metrics, in Prometheus' text form.
// A path that was not taken is left out.
//
// The parser is Prometheus' own. Families that have other names are left alone.
func parseCosts(page io.Reader, policy string) ([]pathCost, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return nil, fmt.Errorf("reading the sidecar's metrics: %w", err)
	}
	return costsOf(byPath(families[metricDecisions], policy), byPath(families[metricTime], policy)), nil
}

// byPath :: path → the value of a metric for one policy.
//
// A series without the label policy is that of requests for policies that do not exist.
func byPath(family *dto.MetricFamily, policy string) map[string]float64 {
	values := map[string]float64{}
	for _, m := range family.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["policy"] == policy {
			values[labels["way"]] = m.GetCounter().GetValue() + m.GetUntyped().GetValue() // it has one of them
		}
	}
	return values
}

// costsOf returns what is known by path.
//
// Both metrics have the same labels; a path without a decision has neither.
func costsOf(decisions, seconds map[string]float64) (out []pathCost) {
	var all, time float64
	for path, n := range decisions {
		all, time = all+n, time+seconds[path]
	}
	for _, path := range paths {
		n, took := decisions[path.name], seconds[path.name]
		if n == 0 {
			continue
		}
		c := pathCost{Path: path.name, Decisions: n, Seconds: took, MeanSeconds: took / n, Share: n / all}
		if time > 0 {
			c.TimeShare = took / time
		}
		out = append(out, c)
	}
	return out
}

// printCosts prints a table of the paths, and what it comes to.
func printCosts(out io.Writer, policy string, costs []pathCost) {
	if len(costs) == 0 {
		fmt.Fprintf(out, "This sidecar has not decided by %s yet.\n", policy)
		return
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PATH\tDECISIONS\tSHARE\tMEAN\tSHARE OF TIME\tMEANS")
	by := map[string]pathCost{}
	for _, c := range costs {
		by[c.Path] = c
		for _, path := range paths {
			if path.name == c.Path {
				fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%s\t%s\n", c.Path, c.Decisions, percent(c.Share), mean(c.MeanSeconds), percent(c.TimeShare), path.means)
			}
		}
	}
	_ = t.Flush()
	fmt.Fprintf(out, "%s of the requests were answered from the decision cache.", percent(by["hit"].Share))
	if hit, miss := by["hit"].MeanSeconds, by["miss"].MeanSeconds; hit > 0 && miss > 0 {
		fmt.Fprintf(out, " One that had to be evaluated took %.1f times as long.", miss/hit)
	}
	fmt.Fprintln(out)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// mean is a time as people read it, to three digits.
//
// A hit takes about a microsecond, and an external service seconds.
func mean(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}
