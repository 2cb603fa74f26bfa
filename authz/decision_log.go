package authz

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"runtime"
	"time"

	"understudy/authz/background"
	"understudy/authz/diagnostics"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// EventDecision is the event name of an entry of the decision log.
const EventDecision = "understudy.decision"

// DecisionLogConfig says how live decisions are logged: each as one event in the
// shape of OPA's decision log. It has the request whole, but for the credentials in
// its headers and for what the policy's own rules mask.
type DecisionLogConfig struct {
	// Provider gets the events: their JSON is the body of a record. Nil means that
	// decisions are not logged. While it is slow or blocks, events are shed; at the end
	// Run waits for it, so its processors should batch.
	Provider log.LoggerProvider
	// Labels are in each event, beside id, the node, and location, which win.
	Labels map[string]string
	// Show names headers that are logged although they carry credentials.
	Show []string
	// Workers make events at the same time. Zero means a quarter of the processors.
	Workers int
	// Queue is the number of decisions that may wait for a worker; more are shed.
	// Zero means 2048.
	Queue int
	// QueueBytes bounds the bodies of the requests that wait, in bytes. Zero means
	// 64 MiB.
	QueueBytes int
	// EventBytes bounds the JSON of an event, in bytes: of one that is larger, the
	// body is erased first, then the input. Zero means 32 KiB.
	EventBytes int
	// Timeout bounds the evaluation of a policy's rules for one event. Zero means a
	// second.
	Timeout time.Duration
}

func (c DecisionLogConfig) withDefaults() DecisionLogConfig {
	c.Workers = cmp.Or(c.Workers, max(1, runtime.GOMAXPROCS(0)/4))
	c.Queue = cmp.Or(c.Queue, 2048)
	c.QueueBytes = cmp.Or(c.QueueBytes, 64<<20)
	c.EventBytes = cmp.Or(c.EventBytes, 32<<10)
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	return c
}

// bytesPerWritten is how much memory what is read of a body takes for each byte of it
// that can be written.
const bytesPerWritten = 64

// decided is a live decision with what it was made from.
type decided struct {
	// policy is the policy that was asked for; empty if none had been loaded.
	policy PolicyName
	// entry is nil if there is no such policy.
	entry    *entry
	request  *Request
	decision Decision

	trace trace.SpanContext
	took  time.Duration
	// bytes is about the memory that the request holds.
	bytes int
}

// decisionLog logs live decisions beside the traffic. A nil one logs nothing.
type decisionLog struct {
	config      DecisionLogConfig
	labels      map[string]string
	location    Location
	node        string
	credentials credentials
	logger      log.Logger
	diagnostics *slog.Logger
	panics      *diagnostics.Panics
	bodies      *bodyMemory
	pool        *background.Pool[decided]
	// events counts what became of the decisions that were worked at; drops those
	// that were not.
	events, drops metric.Int64Counter
	// options has the labels of both: outcomes and reasons.
	options diagnostics.Options
}

// dropEncoding: the event has a value that JSON does not know. None is known that has.
const dropEncoding background.DropReason = "encoding"

// outcome says what became of a decision in the log. It is a metric label.
type outcome string

const (
	outcomeWritten outcome = "written"
	// outcomeDropped: the policy's drop rule left the event out.
	outcomeDropped outcome = "dropped_by_rule"
	// outcomeStripped: the policy's rules for the log failed; the event has no input
	// and no result.
	outcomeStripped outcome = "stripped"
)

func (o outcome) Attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("outcome", string(o))}
}

// newDecisionLog returns the log of a sidecar; nil if it is off.
func newDecisionLog(config Config, panics *diagnostics.Panics, bodies *bodyMemory) (*decisionLog, error) {
	c := config.DecisionLog.withDefaults()
	if c.Provider == nil {
		return nil, nil
	}
	l := &decisionLog{
		config:      c,
		labels:      map[string]string{},
		location:    config.Location,
		node:        config.Node,
		credentials: newCredentials(c.Show),
		logger:      c.Provider.Logger("understudy/authz"),
		diagnostics: config.Logger,
		bodies:      bodies,
		panics:      panics,
	}
	maps.Copy(l.labels, c.Labels)
	l.labels["id"], l.labels["location"] = config.Node, string(config.Location)
	if config.Observing {
		l.labels["observing"] = "true"
	}
	l.pool = background.NewPool(background.Jobs[decided]{
		Workers: c.Workers, Queue: c.Queue, Bytes: c.QueueBytes,
		Size: func(d decided) int { return d.bytes },
		Do:   l.log,
		Shed: func(_ decided, why background.DropReason) { l.dropped(why, 1) },
	})
	return l, l.measure(config.Meters)
}

// measure makes the counters, visible from the beginning.
func (l *decisionLog) measure(provider metric.MeterProvider) (err error) {
	meter := provider.Meter("understudy/authz")
	l.events, err = meter.Int64Counter("understudy.decision_log.events",
		metric.WithDescription("Decisions that the decision log has worked at, by outcome."))
	if err != nil {
		return err
	}
	l.drops, err = meter.Int64Counter("understudy.decision_log.dropped",
		metric.WithDescription("Decisions that are missing in the decision log, by reason."))
	if err != nil {
		return err
	}
	for _, o := range []outcome{outcomeWritten, outcomeDropped, outcomeStripped} {
		l.counted(o, 0)
	}
	for _, r := range []background.DropReason{background.DropQueueFull, background.DropQueueBytes, background.DropShutdown, background.DropPanic, dropEncoding} {
		l.dropped(r, 0)
	}
	return nil
}

func (l *decisionLog) counted(o outcome, n int64) {
	l.events.Add(context.Background(), n, diagnostics.Option(&l.options, o))
}

func (l *decisionLog) dropped(why background.DropReason, n int64) {
	l.drops.Add(context.Background(), n, diagnostics.Option(&l.options, why))
}

// offer hands a decision over without ever waiting. It costs one comparison if the
// log is off.
func (l *decisionLog) offer(ctx context.Context, begin time.Time, d decided) {
	if l != nil {
		d.trace, d.took, d.bytes = trace.SpanContextFromContext(ctx), time.Since(begin), d.request.size()
		l.pool.Offer(d)
	}
}

// run makes the events until ctx is done, then those that wait, for a bounded time.
func (l *decisionLog) run(ctx context.Context) {
	if l != nil {
		l.pool.Run(ctx)
	}
}

// log makes the event of a decision and writes it. What panics here costs this
// event, not the process.
func (l *decisionLog) log(ctx context.Context, _ *background.Yielder, d decided) {
	defer func() {
		if cause := recover(); cause != nil {
			l.dropped(background.DropPanic, 1)
			l.panics.Report(ctx, diagnostics.PanicDecisionLog, cause,
				slog.String("policy", string(d.policy)), slog.String("decision_id", d.request.ID))
		}
	}()
	d.trace = d.request.span(d.trace)
	reading := l.bodies.newReadingBeside(ctx, d.request)
	// A body that takes more than that makes no event that could be written.
	reading.most = min(reading.most, int64(l.config.EventBytes)*bytesPerWritten)
	defer reading.end()
	e := l.newEvent(d, reading)
	o := l.censor(ctx, d, e)
	if o == outcomeDropped {
		l.counted(o, 1)
		return
	}
	text, err := e.encode(l.config.EventBytes)
	if err != nil {
		l.dropped(dropEncoding, 1)
		l.diagnostics.Error("an event of the decision log could not be encoded", "policy", d.policy, "error", err)
		return
	}
	l.write(trace.ContextWithRemoteSpanContext(ctx, d.trace), d, e.RequestID, text)
	l.counted(o, 1)
}

// censor applies the policy's rules to an event and hides credentials in what they
// leave.
func (l *decisionLog) censor(ctx context.Context, d decided, e *event) outcome {
	known, before := l.credentials.in(e.tree()), e.requestIDFields()
	defer func() {
		if !reflect.DeepEqual(before, e.requestIDFields()) {
			e.RequestID = ""
		}
	}()
	o := outcomeWritten
	dropped, masks, err := l.ask(ctx, d, e)
	switch {
	case err != nil:
		e.strip(err)
		o = outcomeStripped
	case dropped:
		return outcomeDropped
	}
	e.mask(masks, known)
	l.credentials.hide(e, known)
	return o
}

// write emits the record. Its attributes tell of the decision, and of the request
// only the ID that the event has too: what a mask has taken out of that must not stand
// beside it.
func (l *decisionLog) write(ctx context.Context, d decided, requestID, text string) {
	var r log.Record
	r.SetEventName(EventDecision)
	r.SetTimestamp(d.request.Time)
	r.SetSeverity(log.SeverityInfo)
	r.SetSeverityText("INFO")
	if d.decision.Result() == "ERROR" {
		r.SetSeverity(log.SeverityError)
		r.SetSeverityText("ERROR")
	}
	r.SetBody(attribute.StringValue(text))
	r.AddAttributes(
		attribute.String("understudy.decision_id", d.request.ID),
		attribute.String("understudy.policy.name", string(d.policy)),
		attribute.String("understudy.policy.etag", d.etag()),
		attribute.String("understudy.policy.result", d.decision.Result()),
		attribute.String("understudy.policy.failure", string(d.decision.Failure)),
		attribute.String("understudy.policy.rule", d.decision.Rule),
		attribute.Bool("understudy.policy.default", d.decision.Default),
		attribute.String("understudy.location", string(l.location)),
		attribute.String("understudy.node", l.node),
	)
	if requestID != "" {
		r.AddAttributes(attribute.String(attributeRequestID, requestID))
	}
	l.logger.Emit(ctx, r)
}
