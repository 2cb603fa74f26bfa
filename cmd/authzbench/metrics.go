package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// metricsPage is a Prometheus page: a series, with its labels as they are written → its
// value.
//
//	understudy_preview_dropped_total{reason="queue_full"} → 12
type metricsPage map[string]float64

// readMetrics reads a Prometheus page. Without a URL it is empty, and so are the
// figures that come from it: a foreign server need not have one.
func readMetrics(ctx context.Context, url string) (metricsPage, error) {
	if url == "" {
		return metricsPage{}, nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading metrics: %s answered %s", url, response.Status)
	}
	return parseMetrics(response.Body)
}

// parseMetrics reads the text format. A line is `series value`; comments, and what has
// a time stamp after its value, are no series that is looked for here.
func parseMetrics(r io.Reader) (metricsPage, error) {
	page := metricsPage{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		series, value, found := cutLast(lines.Text(), " ")
		if !found || strings.HasPrefix(series, "#") {
			continue
		}
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			page[series] = number
		}
	}
	return page, lines.Err()
}

// cutLast is strings.Cut at the last separator: values of labels may have blanks in
// them.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// sum adds all series of a name.
func (p metricsPage) sum(name string) float64 { return p.sumWith(name, "") }

// sumWith adds the series of a name that have a label, written as name="value". An
// empty label is in every series.
func (p metricsPage) sumWith(name, label string) float64 {
	var total float64
	for series, value := range p {
		bare, labels, _ := strings.Cut(series, "{")
		if bare == name && strings.Contains(labels, label) {
			total += value
		}
	}
	return total
}
