package extservice

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxHosts is the number of hosts that metrics distinguish; the rest is one more.
// Policies choose the hosts, and a label of any value would let them fill the memory of
// whatever stores the metrics.
const maxHosts = 100

// otherHost is the label of all hosts beyond maxHosts.
const otherHost = "other"

// metrics are the measurements of the calls of external services.
type metrics struct {
	calls    metric.Int64Counter
	duration metric.Float64Histogram
	answers  metric.Int64Counter
	log      *slog.Logger

	mu sync.Mutex
	// failing :: host → whether its last call failed. It has at most maxHosts entries.
	failing map[string]bool
}

func newMetrics(provider metric.MeterProvider, log *slog.Logger) (*metrics, error) {
	meter := provider.Meter("understudy/authz")
	m := &metrics{log: log, failing: make(map[string]bool)}
	var errs [3]error
	m.calls, errs[0] = meter.Int64Counter("understudy.external.calls",
		metric.WithDescription("Calls of external services, by host, call and outcome."))
	m.duration, errs[1] = meter.Float64Histogram("understudy.external.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to the answer of an external service."),
		metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10))
	m.answers, errs[2] = meter.Int64Counter("understudy.external.reused",
		metric.WithDescription("Answers that experiments took from the live policy."))
	return m, errors.Join(errs[:]...)
}

// called counts a call that began at a moment.
func (m *metrics) called(ctx context.Context, to endpoint, o Outcome, begin time.Time) {
	host := m.note(to.host, o)
	m.calls.Add(ctx, 1, metric.WithAttributes(
		attribute.String("host", host), attribute.String("call", to.name), attribute.String("outcome", string(o))))
	m.duration.Record(ctx, time.Since(begin).Seconds(), metric.WithAttributes(
		attribute.String("host", host), attribute.String("outcome", string(o))))
}

// note logs when a service begins to fail and when it is back, and returns the label of
// its host. Not each failure is logged: a service that is down fails every request.
func (m *metrics) note(host string, o Outcome) (label string) {
	m.mu.Lock()
	before, known := m.failing[host]
	if !known && len(m.failing) >= maxHosts {
		m.mu.Unlock()
		return otherHost
	}
	// Who went away says nothing about the service.
	now := o.fails() && o != OutcomeCanceled || o == OutcomeCanceled && before
	m.failing[host] = now
	m.mu.Unlock()
	switch {
	case now && !before:
		m.log.Warn("an external service gives no decisions"+o.cause(), "host", host, "outcome", string(o))
	case before && !now:
		m.log.Info("an external service decides again", "host", host)
	}
	return host
}

func (m *metrics) reused(ctx context.Context) { m.answers.Add(ctx, 1) }
