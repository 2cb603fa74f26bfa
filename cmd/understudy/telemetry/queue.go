package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
)

// queue holds records until their exporter has taken them. It implements sdklog.Processor.
//
// One goroutine exports, a batch at a time. What fails for a time is tried again until it
// succeeds, while the records behind it wait. A record is dropped, and counted, only if the
// queue is full, if the collector refuses it, or if the process ends before it is taken. It
// is safe for concurrent use. Queues of one provider share what a record consists of: no
// processor may change one.
type queue struct {
	bounds
	// name is that of the queue in metrics and log lines, such as "preview".
	name     string
	exporter sdklog.Exporter
	drops    *drops

	mu sync.Mutex
	// batches are full, the oldest first; latest is the one that is being filled.
	batches []batch
	latest  batch
	// held is the number of records of both and of the batch that is being exported, with the
	// slots that are reserved; minor is how many of them are for minor records.
	held, minor int
	// spare is the memory of a batch that was exported.
	spare  []sdklog.Record
	closed bool

	signals
	// work ends when there is no more time at shutdown.
	work    context.Context
	endWork context.CancelFunc
}

// signals go to the goroutine that exports, and back from it.
type signals struct {
	// full says that there is a full batch, flush that all is to be exported now.
	full  chan struct{}
	flush chan chan struct{}
	// closing is closed when nothing more comes, done when the exporter is shut down.
	closing, done chan struct{}
}

// batch is records that are exported together, and how many of them are minor.
type batch struct {
	records []sdklog.Record
	minor   int
}

// bounds are those of a queue.
type bounds struct {
	// size is how many records it holds, batch how many are exported together.
	size, batch int
	// delay is how long a record waits for others, attempt bounds one try to export.
	delay, attempt time.Duration
}

// fromEnvironment returns the bounds as the standard variables change them.
func (b bounds) fromEnvironment() bounds {
	number := func(name string, bound *int) {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
			*bound = n
		}
	}
	milliseconds := func(name string, bound *time.Duration) {
		n := 0
		if number(name, &n); n > 0 {
			*bound = time.Duration(n) * time.Millisecond
		}
	}
	number("OTEL_BLRP_MAX_QUEUE_SIZE", &b.size)
	number("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", &b.batch)
	milliseconds("OTEL_BLRP_SCHEDULE_DELAY", &b.delay)
	milliseconds("OTEL_BLRP_EXPORT_TIMEOUT", &b.attempt)
	b.batch = min(b.batch, b.size)
	return b
}

// newQueue returns a queue in front of an exporter, which it owns from here on.
func newQueue(name string, exporter sdklog.Exporter, b bounds, meters metric.MeterProvider, log *slog.Logger) (*queue, error) {
	q := &queue{
		bounds: b, name: name, exporter: exporter,
		signals: signals{
			full: make(chan struct{}, 1), flush: make(chan chan struct{}), closing: make(chan struct{}), done: make(chan struct{}),
		},
	}
	var err error
	if q.drops, err = newDrops(name, meters, log); err != nil {
		return nil, err
	}
	_, err = meters.Meter(scope).Int64ObservableGauge("understudy.export.waiting", metric.WithUnit("{record}"),
		metric.WithDescription("Records that wait for their export, by queue."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(q.waiting()), metric.WithAttributes(attribute.String("queue", name)))
			return nil
		}))
	if err != nil {
		return nil, err
	}
	q.work, q.endWork = context.WithCancel(context.Background())
	go q.run()
	return q, nil
}

// Enabled is true: every record is wanted.
func (q *queue) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

// OnEmit takes a record, or drops it. It never waits for an export.
func (q *queue) OnEmit(ctx context.Context, r *sdklog.Record) error {
	switch ready, dropped := q.put(r, reservationOf(ctx)); {
	case dropped != "":
		q.drops.add(dropped, 1)
	case ready:
		select {
		case q.full <- struct{}{}:
		default:
		}
	}
	return nil
}

// put reports whether there is a full batch, or why the record was dropped. One whose slot is
// reserved has it.
func (q *queue) put(r *sdklog.Record, reserved reservation) (ready bool, dropped dropReason) {
	minor := reserved == minorSlot
	q.mu.Lock()
	defer q.mu.Unlock()
	if reserved != noSlot {
		q.hold(-1, minor)
	}
	switch {
	case q.closed:
		return false, dropShutdown
	case q.held >= q.size:
		return false, dropQueueFull
	case q.latest.records == nil:
		q.latest.records, q.spare = q.spare, nil
	}
	if q.latest.records == nil {
		q.latest.records = make([]sdklog.Record, 0, q.batch)
	}
	q.latest.records = append(q.latest.records, *r) // not a clone: the SDK made it for this call
	if minor {
		q.latest.minor++
	}
	q.hold(1, minor)
	if len(q.latest.records) == q.batch {
		q.batches = append(q.batches, q.latest)
		q.latest = batch{}
	}
	return len(q.batches) > 0, ""
}

// take returns the oldest full batch, or else what there is of the latest if that is
// wanted; one without records if there is none.
func (q *queue) take(latest bool) (b batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.batches) > 0 {
		b, q.batches = q.batches[0], q.batches[1:]
	} else if latest {
		b, q.latest = q.latest, batch{}
	}
	return b
}

// exported forgets a batch.
func (q *queue) exported(b batch) {
	n := len(b.records)
	clear(b.records)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held -= n
	q.minor -= b.minor
	q.spare = b.records[:0]
}

// waiting returns the number of records that are held.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// run exports until the queue is closed and empty.
func (q *queue) run() {
	defer close(q.done)
	defer q.endWork()
	tick := time.NewTicker(q.delay)
	defer tick.Stop()
	for {
		select {
		case <-q.full:
			q.export(false)
		case <-tick.C:
			q.export(true)
		case flushed := <-q.flush:
			q.export(true)
			close(flushed)
		case <-q.closing:
			q.export(true)
			q.drops.atEnd()
			if err := q.exporter.Shutdown(context.Background()); err != nil {
				q.drops.log.Warn("an exporter could not be shut down", "queue", q.name, "error", err)
			}
			return
		}
	}
}

// export exports what waits; the latest batch, which is not full, only if that is wanted.
func (q *queue) export(latest bool) {
	for b := q.take(latest); b.records != nil; b = q.take(latest) {
		part := len(b.records) < q.batch
		q.deliver(b.records)
		q.exported(b)
		if part {
			return
		}
	}
}

// deliver exports a batch, however long the collector is away.
func (q *queue) deliver(batch []sdklog.Record) {
	closing := q.closing
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := q.try(batch)
		switch {
		case err == nil:
			q.drops.taken()
			return
		case q.work.Err() != nil:
			q.drops.add(dropShutdown, len(batch))
			return
		case !temporary(err):
			q.drops.refused(refused(err, len(batch)), err)
			return
		}
		q.drops.away(err, q.waiting())
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-q.work.Done():
		case <-closing: // it is tried at once: there is not much time any more
			closing, wait = nil, firstWait
		}
	}
}

// try exports a batch once.
func (q *queue) try(batch []sdklog.Record) error {
	if err := q.work.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(q.work, q.attempt)
	defer cancel()
	return q.exporter.Export(ctx, batch)
}

// ForceFlush exports what is there.
func (q *queue) ForceFlush(ctx context.Context) error {
	flushed := make(chan struct{})
	select {
	case q.flush <- flushed:
	case <-q.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shutdown exports what is there, as long as ctx lasts. What is left is dropped, and the
// error says how much that is.
func (q *queue) Shutdown(ctx context.Context) error {
	q.mu.Lock()
	again := q.closed
	q.closed = true
	q.mu.Unlock()
	if again {
		return nil
	}
	close(q.closing)
	select {
	case <-q.done:
		if n := q.drops.lastly.Load(); n > 0 {
			return fmt.Errorf("%d records were not taken", n)
		}
		return nil
	case <-ctx.Done():
		q.endWork()
		return ctx.Err()
	}
}
