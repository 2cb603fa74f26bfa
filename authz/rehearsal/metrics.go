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
	// experiments :: the resource name of an experiment → its metrics, while a candidate of that
	// name is open.
	experiments map[string]*experimentMetrics
}

// newMetrics registers the metrics, of no experiment yet.
func newMetrics(provider metric.MeterProvider) (*metrics, error) {
	meter := provider.Meter("understudy/authz")
	m := &metrics{experiments: map[string]*experimentMetrics{}}
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

// all returns those of all experiments.
func (m *metrics) all() []*experimentMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.experiments))
}

// open returns the metrics of an experiment, for one more candidate of it.
func (m *metrics) open(name string) *experimentMetrics {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.experiments[name]
	if t == nil {
		t = newExperimentMetrics(name)
		m.experiments[name] = t
	}
	t.candidates++
	return t
}

// close takes a candidate from an experiment. Without any its series end.
func (m *metrics) close(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.experiments[name]
	if t.candidates--; t.candidates == 0 {
		delete(m.experiments, name)
	}
}
