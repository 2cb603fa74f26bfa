package telemetry

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// scope is the instrumentation scope of this package's metrics.
const scope = "understudy/telemetry"

// dropReason is why a record was not exported. It is a metric label.
type dropReason string

const (
	// dropQueueFull: the collector was away, or too slow, for longer than the queue lasts.
	dropQueueFull dropReason = "queue_full"
	// dropRefused: the collector does not want the record. It would not want it later either.
	dropRefused dropReason = "refused"
	// dropShutdown: the process ended first.
	dropShutdown dropReason = "shutdown"
)

// drops counts the records of one queue that were not exported, and logs that. It is safe
// for concurrent use.
type drops struct {
	queue   string
	log     *slog.Logger
	count   metric.Int64Counter
	reasons map[dropReason]metric.MeasurementOption
	// total is of all reasons, lastly of those that the shutdown dropped.
	total, lastly atomic.Int64
	// full, unwanted and waiting are the warnings: none keeps another one back.
	full, unwanted, waiting turns
	// isAway says that the last attempt to export failed. The goroutine that exports has it.
	isAway bool
}

// newDrops returns the drops of a queue, all of which are zero.
func newDrops(queue string, meters metric.MeterProvider, log *slog.Logger) (*drops, error) {
	count, err := meters.Meter(scope).Int64Counter("understudy.export.dropped", metric.WithUnit("{record}"),
		metric.WithDescription("Records that were not exported, by queue and reason: queue_full, refused (by the collector), shutdown."))
	if err != nil {
		return nil, err
	}
	d := &drops{queue: queue, log: log, count: count, reasons: make(map[dropReason]metric.MeasurementOption)}
	for _, reason := range []dropReason{dropQueueFull, dropRefused, dropShutdown} {
		labels := metric.WithAttributeSet(attribute.NewSet(attribute.String("queue", queue), attribute.String("reason", string(reason))))
		d.reasons[reason] = labels
		count.Add(context.Background(), 0, labels) // an alert on a rise needs the zero
	}
	return d, nil
}

// add counts records that were dropped, and warns of those that did not fit.
func (d *drops) add(reason dropReason, n int) {
	d.count.Add(context.Background(), int64(n), d.reasons[reason])
	total := d.total.Add(int64(n))
	switch {
	case reason == dropShutdown:
		d.lastly.Add(int64(n))
	case reason == dropQueueFull && d.full.take():
		d.log.Warn("records are dropped: the collector is away or too slow, and the queue for it is full", "queue", d.queue, "dropped", total)
	}
}

// refused counts records that the collector does not want.
func (d *drops) refused(n int, err error) {
	d.add(dropRefused, n)
	if d.unwanted.take() {
		d.log.Warn("the collector refuses records: they are dropped", "queue", d.queue, "dropped", d.total.Load(), "error", err)
	}
}

// away warns that the collector takes nothing at present.
func (d *drops) away(err error, waiting int) {
	d.isAway = true
	if d.waiting.take() {
		d.log.Warn("the collector takes no records: they wait, and it is tried again", "queue", d.queue,
			"waiting", waiting, "dropped", d.total.Load(), "error", err)
	}
}

// taken says so if the collector was away.
func (d *drops) taken() {
	if d.isAway {
		d.isAway = false
		d.log.Info("the collector takes records again", "queue", d.queue, "dropped", d.total.Load())
	}
}

// atEnd logs what the shutdown dropped.
func (d *drops) atEnd() {
	if n := d.lastly.Load(); n > 0 {
		d.log.Warn("the process ends before all records were exported", "queue", d.queue, "lost", n)
	}
}

// turns are those of one warning to be logged: one in errorLogEvery. It is when the last one was,
// in nanoseconds since 1970.
type turns struct{ last atomic.Int64 }

// take reports whether the warning may be logged now.
func (t *turns) take() bool {
	now, last := time.Now().UnixNano(), t.last.Load()
	return now-last >= int64(errorLogEvery) && t.last.CompareAndSwap(last, now)
}
