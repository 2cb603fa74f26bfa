package rehearsal

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/metric"
)

// metrics report the comparisons that were made, and those that were not, of the
// experiments that there are. They are observed, and not counted by the SDK, because a
// series has to end with its experiment. It is safe for concurrent use.
type metrics struct {
	mu sync.Mutex
	// tallies :: the resource name of an experiment → its tally, while a candidate of that
	// name is open.
	tallies map[string]*tally
}

// newMetrics registers the metrics, of no experiment yet.
func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter("understudy/authz")
	m := &metrics{tallies: map[string]*tally{}}
	var errs [3]error
	var comparisons, drops, ignored metric.Int64ObservableCounter
	comparisons, errs[0] = meter.Int64ObservableCounter("understudy.preview.comparisons", metric.WithUnit("{comparison}"),
		metric.WithDescription("Requests decided by an experiment too, by policy, experiment, difference, the failure of the side that failed, and the result of the live policy."))
	drops, errs[1] = meter.Int64ObservableCounter("understudy.preview.dropped", metric.WithUnit("{comparison}"),
		metric.WithDescription("Comparisons that were not made, by policy, experiment and reason."))
	ignored, errs[2] = meter.Int64ObservableCounter("understudy.preview.labels.ignored", metric.WithUnit("{decision}"),
		metric.WithDescription("Decisions of experiments of which labels were ignored, because they are none or too many, by policy and experiment."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, t := range m.all() {
			t.observe(o, comparisons, drops, ignored)
		}
		return nil
	}, comparisons, drops, ignored)
	return m, err
}

// all returns the tallies that there are.
func (m *metrics) all() []*tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.tallies))
}

// open returns the tally of an experiment, for one more candidate of it.
func (m *metrics) open(name string) *tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tallies[name]
	if t == nil {
		t = newTally(name)
		m.tallies[name] = t
	}
	t.candidates++
	return t
}

// close takes a candidate from a tally. Without any its series end.
func (m *metrics) close(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tallies[name]
	if t.candidates--; t.candidates == 0 {
		delete(m.tallies, name)
	}
}
