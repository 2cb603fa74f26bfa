package decisionlog

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"reflect"
	"runtime"
	"time"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/diagnostics"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// EventDecision is the event name of an entry of the decision log.
const EventDecision = "understudy.decision"

// Config says how live decisions are logged: each as one event in the shape of OPA's
// decision log. It has the whole request, but for the credentials in its headers and
// for what the policy's own rules mask. The zero value logs nothing; every other zero
// is a default.
type Config struct {
	// Provider gets the events: their JSON is the body of a record. Nil means that
	// decisions are not logged. While it is slow or blocks, events are shed; at the end
	// Run waits for it, so its processors should batch.
	Provider log.LoggerProvider
	// Labels are in each event, next to id, the node, and location, which win.
	Labels map[string]string
	// Show names headers that are logged although they carry credentials.
	Show []string
	// Sample is the part of the allowed decisions that chance keeps, from 0 to 1; nil means all.
	// Denials are always logged, and so is what an experiment decides otherwise, as far as
	// Differing is called.
	Sample *float64
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
	// Drain bounds how long events that wait at shutdown are still written. Zero means
	// [background.DefaultDrain].
	Drain time.Duration
}

func (c Config) withDefaults() Config {
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

// Decided is a live decision with what it was made from.
type Decided struct {
	// Policy is the policy that was asked for; empty if none had been loaded.
	Policy authz.PolicyName
	// Etag is its version; empty if there is no such policy.
	Etag string
	// Compiled has the policy's rules for the log. It is nil if there is no such policy, or
	// if it could not be loaded.
	Compiled *authz.Policy
	// Broken says that it could not be loaded: it is not known what has to be masked.
	Broken   bool
	Request  *authz.Request
	Decision authz.Decision

	trace trace.SpanContext
	// took is how long the check took; 0 if that is not known.
	took time.Duration
	// keptBy is empty if the log is no sample.
	keptBy keptBy
	// bytes is about the memory that the request holds.
	bytes int
}

// Log logs live decisions off the request path. A nil one logs nothing. It is safe for
// concurrent use.
//
//	Offer (request path) --> bounded queue --> worker: newEvent, rules and masks, credentials, encode --> OTel
//
// Everything after the queue may be slow or fail without an effect on a decision.
type Log struct {
	config      Config
	labels      map[string]string
	node        authz.Node
	credentials credentials
	logger      log.Logger
	out         diagnostics.Output
	bodies      *authz.BodyMemory
	sample      *sample
	pool        *background.Pool[Decided]
	// events counts what became of the decisions that were worked at; drops those
	// that were not.
	events, drops metric.Int64Counter
	// options has the labels of both: outcomes and reasons.
	options diagnostics.Options
}

// DropEncoding says that the event has a value that JSON does not know. None is known that has.
const DropEncoding background.DropReason = "encoding"

// outcome is what became of a decision in the log. It is a metric label.
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

// New returns the log of a node's decisions, which does nothing until Run; nil if it is
// off. Bodies bounds what reading requests again may cost.
func New(c Config, node authz.Node, bodies *authz.BodyMemory, out diagnostics.Output) (*Log, error) {
	if c = c.withDefaults(); c.Provider == nil {
		return nil, nil
	}
	l := &Log{
		config:      c,
		labels:      map[string]string{},
		node:        node,
		credentials: newCredentials(c.Show),
		logger:      c.Provider.Logger("understudy/authz"),
		out:         out,
		bodies:      bodies,
		sample:      newSample(c),
	}
	maps.Copy(l.labels, c.Labels)
	l.labels["id"], l.labels["location"] = node.ID, string(node.Location)
	if node.Observing {
		l.labels["observing"] = "true"
	}
	l.pool = background.NewPool(background.Jobs[Decided]{
		Workers: c.Workers, Queue: c.Queue, Bytes: c.QueueBytes, Drain: c.Drain,
		Size: func(d Decided) int { return d.bytes },
		Do:   l.log,
		Shed: func(_ Decided, why background.DropReason) { l.dropped(why, 1) },
	})
	return l, l.measure(out.Meters)
}

// measure makes the counters. Each series begins at zero: an alert on dropped events
// needs a first value.
func (l *Log) measure(provider metric.MeterProvider) (err error) {
	meter := provider.Meter("understudy/authz")
	l.events, err = meter.Int64Counter("understudy.decision_log.events",
		metric.WithDescription("Decisions that the decision log has worked at, by outcome."))
	if err != nil {
		return err
	}
	if err := l.sample.measure(meter); err != nil {
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
	for _, r := range []background.DropReason{background.DropQueueFull, background.DropQueueBytes, background.DropShutdown, background.DropPanic, DropEncoding} {
		l.dropped(r, 0)
	}
	return nil
}

func (l *Log) counted(o outcome, n int64) {
	l.events.Add(context.Background(), n, diagnostics.Option(&l.options, o))
}

func (l *Log) dropped(why background.DropReason, n int64) {
	l.drops.Add(context.Background(), n, diagnostics.Option(&l.options, why))
}

// Offer hands a decision over without ever waiting. It costs one comparison if the log
// is off. The time that the check took ends here: what the log does itself is not in
// it.
func (l *Log) Offer(ctx context.Context, begin time.Time, d Decided) {
	if l == nil {
		return
	}
	if l.sample != nil {
		if d.keptBy = l.sample.choose(d); d.keptBy == leftOut {
			return
		}
	}
	d.trace, d.took, d.bytes = trace.SpanContextFromContext(ctx), time.Since(begin), d.Request.Held()
	l.pool.Offer(d)
}

// Samples reports whether decisions are left out, so that Differing has to be called.
func (l *Log) Samples() bool { return l != nil && l.sample != nil }

// Differing hands a decision over on which an experiment decides otherwise, once for each
// decision. It is logged if chance had left it out.
func (l *Log) Differing(span trace.SpanContext, d Decided) {
	if !l.Samples() || !l.sample.missed(d) {
		return
	}
	l.sample.difference.Add(1)
	d.keptBy, d.trace, d.bytes = keptByDifference, span, d.Request.Held()
	l.pool.Offer(d)
}

// Run makes the events until ctx is done, then those that wait, for a bounded time.
func (l *Log) Run(ctx context.Context) {
	if l != nil {
		l.pool.Run(ctx)
	}
}

// log makes the event of a decision and writes it. What panics here costs this
// event, not the process.
func (l *Log) log(ctx context.Context, _ *background.Yielder, d Decided) {
	defer func() {
		if cause := recover(); cause != nil {
			l.dropped(background.DropPanic, 1)
			l.out.Panics.Report(ctx, diagnostics.PanicDecisionLog, cause,
				slog.String("policy", string(d.Policy)), slog.String("decision_id", d.Request.ID))
		}
	}()
	d.trace = d.Request.SpanContext(d.trace)
	// A body that takes more than that makes no event that could be written.
	reading := l.bodies.ReadOffPath(ctx, d.Request).AtMost(int64(l.config.EventBytes) * bytesPerWritten)
	defer reading.End()
	e := l.newEvent(d, reading)
	o := l.applyRules(ctx, d, e)
	if o == outcomeDropped {
		l.counted(o, 1)
		return
	}
	text, err := e.encode(l.config.EventBytes)
	if err != nil {
		l.dropped(DropEncoding, 1)
		l.out.Logger.Error("an event of the decision log could not be encoded", "policy", d.Policy, "error", err)
		return
	}
	l.write(trace.ContextWithRemoteSpanContext(ctx, d.trace), d, e.RequestID, text)
	l.counted(o, 1)
}

// applyRules applies the policy's rules to an event and hides credentials in what they
// leave. If it is not known what has to be masked, the event is written without input
// and result: a record of the decision is needed, and a leak cannot be taken back.
func (l *Log) applyRules(ctx context.Context, d Decided, e *event) outcome {
	known, before, labels := l.credentials.in(e.tree()), e.requestIDFields(), e.resultLabels()
	defer func() {
		if !reflect.DeepEqual(before, e.requestIDFields()) {
			e.RequestID = ""
		}
	}()
	o := outcomeWritten
	dropped, masks, err := l.evalRules(ctx, d, e)
	switch {
	case err != nil:
		e.strip(err)
		o = outcomeStripped
	case dropped:
		return outcomeDropped
	}
	e.mask(masks, known)
	e.eraseMaskedLabels(labels)
	l.credentials.hide(e, known)
	return o
}

// write emits the record. Its attributes describe the decision, and of the request only
// the ID that the event has too: what a mask has taken out of that must not stand
// next to it.
func (l *Log) write(ctx context.Context, d Decided, requestID, text string) {
	var r log.Record
	r.SetEventName(EventDecision)
	r.SetTimestamp(d.Request.Time)
	r.SetSeverity(log.SeverityInfo)
	r.SetSeverityText("INFO")
	if d.Decision.Result() == "ERROR" {
		r.SetSeverity(log.SeverityError)
		r.SetSeverityText("ERROR")
	}
	r.SetBody(attribute.StringValue(text))
	r.AddAttributes(
		attribute.String("understudy.decision_id", d.Request.ID),
		attribute.String("understudy.policy.name", string(d.Policy)),
		attribute.String("understudy.policy.etag", d.Etag),
		attribute.String("understudy.policy.result", d.Decision.Result()),
		attribute.String("understudy.policy.failure", string(d.Decision.Failure)),
		attribute.String("understudy.policy.rule", d.Decision.Rule),
		attribute.Bool("understudy.policy.default", d.Decision.Default),
		attribute.String("understudy.location", string(l.node.Location)),
		attribute.String("understudy.node", l.node.ID),
	)
	if d.keptBy != "" {
		r.AddAttributes(
			attribute.String("understudy.decision_log.kept_by", string(d.keptBy)),
			attribute.Float64("understudy.decision_log.sample_rate", l.sample.rate),
		)
	}
	if requestID != "" {
		r.AddAttributes(attribute.String(authz.AttributeRequestID, requestID))
	}
	l.logger.Emit(ctx, r)
}
