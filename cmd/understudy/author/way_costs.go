package author

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"understudy/cmd/understudy/cli"
)

// wayCost is what the live decisions of a policy have cost that were made in one way.
type wayCost struct {
	// Way is hit, miss or another one of the metric understudy_decisions_total.
	Way       string  `json:"way"`
	Decisions float64 `json:"decisions"`
	// Seconds is the time of all, and MeanSeconds of one.
	Seconds     float64 `json:"seconds"`
	MeanSeconds float64 `json:"meanSeconds"`
	// Share is the part of all decisions that were made in this way, and TimeShare that of
	// the time, from 0 to 1.
	Share     float64 `json:"share"`
	TimeShare float64 `json:"timeShare"`
}

// ways are all, in the order in which they are shown, and what each means.
var ways = []struct{ name, means string }{
	{"hit", "from the decision cache"},
	{"miss", "evaluated, then cached"},
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
func readCosts(ctx context.Context, addr, policy string, timeout time.Duration) ([]wayCost, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := cli.HealthRequest(ctx, "health", addr, "/metrics")
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

var metricLabel = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)

// parseCosts reads the costs of one policy from a page of metrics, in Prometheus' text form.
// A way that was not taken is left out.
func parseCosts(page io.Reader, policy string) ([]wayCost, error) {
	found := map[string]map[string]float64{metricDecisions: {}, metricTime: {}}
	lines := bufio.NewScanner(page)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), "{")
		end := strings.LastIndexByte(rest, '}')
		if found[name] == nil || end < 0 {
			continue
		}
		labels := map[string]string{}
		for _, m := range metricLabel.FindAllStringSubmatch(rest[:end], -1) {
			labels[m[1]] = m[2]
		}
		value, _, _ := strings.Cut(strings.TrimSpace(rest[end+1:]), " ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("the metric %s has a value that is no number: %w", name, err)
		}
		if labels["policy"] == policy {
			found[name][labels["way"]] = n
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("reading the sidecar's metrics: %w", err)
	}
	return costsOf(found[metricDecisions], found[metricTime]), nil
}

// costsOf returns what is known by way.
func costsOf(decisions, seconds map[string]float64) (out []wayCost) {
	var all, time float64
	for way, n := range decisions {
		all, time = all+n, time+seconds[way]
	}
	for _, way := range ways {
		n, took := decisions[way.name], seconds[way.name]
		if n == 0 {
			continue
		}
		c := wayCost{Way: way.name, Decisions: n, Seconds: took, MeanSeconds: took / n, Share: n / all}
		if time > 0 {
			c.TimeShare = took / time
		}
		out = append(out, c)
	}
	return out
}

// printCosts prints a table of the ways, and what it comes to.
func printCosts(out io.Writer, policy string, costs []wayCost) {
	if len(costs) == 0 {
		fmt.Fprintf(out, "This sidecar has not decided by %s yet.\n", policy)
		return
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WAY\tDECISIONS\tSHARE\tMEAN\tSHARE OF TIME\tMEANS")
	by := map[string]wayCost{}
	for _, c := range costs {
		by[c.Way] = c
		for _, way := range ways {
			if way.name == c.Way {
				fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%s\t%s\n", c.Way, c.Decisions, percent(c.Share), mean(c.MeanSeconds), percent(c.TimeShare), way.means)
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
