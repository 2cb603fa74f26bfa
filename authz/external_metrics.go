package authz

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxHosts is the number of hosts that metrics tell apart; the rest is one more.
const maxHosts = 100

// otherHost is the label of all hosts beyond maxHosts.
const otherHost = "other"

// externalMetrics are the measurements of the calls of external services.
type externalMetrics struct {
	calls    metric.Int64Counter
	duration metric.Float64Histogram
	answers  metric.Int64Counter
	notices  metric.Int64Counter
	log      *slog.Logger

	mu sync.Mutex
	// failing :: host → whether its last call failed. It has at most maxHosts entries.
	failing map[string]bool
}

func newExternalMetrics(provider metric.MeterProvider, log *slog.Logger) (*externalMetrics, error) {
	meter := provider.Meter("understudy/authz")
	m := &externalMetrics{log: log, failing: make(map[string]bool)}
	var errs [4]error
	m.calls, errs[0] = meter.Int64Counter("understudy.external.calls",
		metric.WithDescription("Calls of external services, by host, call and outcome."))
	m.duration, errs[1] = meter.Float64Histogram("understudy.external.duration", metric.WithUnit("s"),
		metric.WithDescription("Time to the answer of an external service."),
		metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10))
	m.answers, errs[2] = meter.Int64Counter("understudy.external.reused",
		metric.WithDescription("Answers that experiments took from the live policy."))
	m.notices, errs[3] = meter.Int64Counter("understudy.notification.failures",
		metric.WithDescription("Rules that could not be told of the end of a reservation, by failure."))
	return m, errors.Join(errs[:]...)
}

// called counts a call that began at a moment.
func (m *externalMetrics) called(ctx context.Context, c call, o callOutcome, begin time.Time) {
	host := m.note(c.host, o)
	m.calls.Add(ctx, 1, metric.WithAttributes(
		attribute.String("host", host), attribute.String("call", c.name), attribute.String("outcome", string(o))))
	m.duration.Record(ctx, time.Since(begin).Seconds(), metric.WithAttributes(
		attribute.String("host", host), attribute.String("outcome", string(o))))
}

// note tells when a service begins to fail and when it is back, and returns its host's
// label. Not each failure is logged: a service that is down fails every request.
func (m *externalMetrics) note(host string, o callOutcome) (label string) {
	m.mu.Lock()
	before, known := m.failing[host]
	if !known && len(m.failing) >= maxHosts {
		m.mu.Unlock()
		return otherHost
	}
	// Who went away says nothing about the service.
	now := o.fails() && o != callCanceled || o == callCanceled && before
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

func (m *externalMetrics) reused(ctx context.Context) { m.answers.Add(ctx, 1) }

func (m *externalMetrics) untold(ctx context.Context, why Failure) {
	m.notices.Add(ctx, 1, metric.WithAttributes(attribute.String("failure", string(why))))
}
