package check_test

import (
	"errors"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// page is what one scrape of /metrics gives Prometheus: name and labels, in a text → the series.
type page map[string]scraped

// scraped is a series of a page.
type scraped struct {
	labels labels.Labels
	value  float64
	// counts says that the series is a counter, or of a histogram.
	counts bool
}

// scrape reads /metrics with Prometheus' own parser.
func (s *server) scrape() page {
	s.t.Helper()
	_, text := s.request("GET", s.health, "/metrics", "")
	out := page{}
	counts := map[string]bool{}
	for p := textparse.NewPromParser([]byte(text), labels.NewSymbolTable(), false); ; {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			s.t.Fatalf("Prometheus cannot read the page: %v\n%s", err, text)
		}
		switch entry {
		case textparse.EntryType:
			name, kind := p.Type()
			for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
				counts[string(name)+suffix] = kind == model.MetricTypeCounter || kind == model.MetricTypeHistogram
			}
		case textparse.EntrySeries:
			var set labels.Labels
			p.Labels(&set)
			_, _, value := p.Series()
			with := labels.NewBuilder(set).Set("job", "understudy").Set("instance", "a").Labels()
			out[with.String()] = scraped{with, value, counts[set.Get(model.MetricNameLabel)]}
		}
	}
}

// value returns the sum of all series of a metric.
func (p page) value(name string) float64 { return p.sum(name, model.MetricNameLabel, name) }

// sum adds the series of a metric that have a label with a value.
func (p page) sum(name, label, value string) (sum float64) {
	for _, s := range p {
		if s.labels.Get(model.MetricNameLabel) == name && s.labels.Get(label) == value {
			sum += s.value
		}
	}
	return sum
}

// calm is for how long a timeline has a process that is not in the state yet.
const calm = 100 * time.Minute

// timeline is a process of which two pages are known, extended in time: it was as on the first one for a while, and has been on
// the way to the second one since then. Counters rise evenly, gauges change at once, and an age becomes greater. A series
// that only the second page has begins with the state, as it does for Prometheus.
type timeline struct {
	// before is nil if the process was started in the state.
	before, in page
	// held is for how long the process has been in the state.
	held time.Duration
	// end is the moment of the second page.
	end time.Time
}

// ages are gauges that grow with the time.
var ages = []string{"understudy_snapshot_age_seconds", "understudy_store_lost_seconds"}

// samples are those of a series, one each minute.
func (l timeline) samples(key string) (out []chunks.Sample) {
	first, known := l.before[key]
	second, there := l.in[key]
	for at := time.Duration(0); at <= calm+l.held; at += time.Minute {
		value, since := first.value, at-calm
		switch {
		case since <= 0 && !known, since > 0 && !there:
			continue
		case since > 0 && second.counts:
			value += (second.value - first.value) * float64(since) / float64(l.held)
		case since > 0:
			value = second.value
			if value > 0 && slices.Contains(ages, second.labels.Get(model.MetricNameLabel)) {
				value += since.Seconds()
			}
		}
		out = append(out, sample{l.end.Add(at - calm - l.held).UnixMilli(), value})
	}
	return out
}

// all are the series of both pages.
func (l timeline) all() page {
	out := page{}
	maps.Copy(out, l.before)
	maps.Copy(out, l.in)
	return out
}

// Querier implements storage.Queryable.
func (l timeline) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &seriesSet{}
		for key, s := range l.all() {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
				found.all = append(found.all, storage.NewListSeries(s.labels, l.samples(key)))
			}
		}
		return found
	}}, nil
}

// alerts returns the alerts that fire at the end: name → the labels and the value of one of them. The expression
// has had a result for as long as the alert waits.
func (l timeline) alerts(t *testing.T) map[string]promql.Sample {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 22, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	out := map[string]promql.Sample{}
	for name, rule := range rules(t) {
		if rule.Alert == "" {
			continue
		}
		waits := time.Duration(rule.For)
		query, err := engine.NewRangeQuery(t.Context(), l, nil, rule.Expr, l.end.Add(-waits), l.end, time.Minute)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		matrix, err := query.Exec(t.Context()).Matrix()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, series := range matrix {
			if n := len(series.Floats); n == int(waits/time.Minute)+1 {
				out[name] = promql.Sample{Metric: series.Metric.Copy(), F: series.Floats[n-1].F}
			}
		}
		query.Close()
	}
	return out
}

// vector returns what an expression comes to at the end.
func (l timeline) vector(t *testing.T, expr string) promql.Vector {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 22, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	query, err := engine.NewInstantQuery(t.Context(), l, nil, expr, l.end)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return vector
}
