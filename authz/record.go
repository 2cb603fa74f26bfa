package authz

import (
	"context"
	"sync"

	"understudy/authz/diagnostics"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
)

// LogPrefix begins the body of every preview record and of nothing else (AIP-236).
// It is the log_prefix of every experiment.
const LogPrefix = "PolicyPreviewLog"

// EventPreview is the event name of a preview record.
const EventPreview = "understudy.policy.preview"

// attributeRequestID is the x-request-id of the request, in records and in the decision
// log.
const attributeRequestID = "understudy.request_id"

// Recorder writes preview records: one OpenTelemetry log event for each request
// and ACTIVE experiment. A record tells what was decided and by which versions; of
// the request it has method, path without query, host, principal and x-request-id, and
// never another header, a token or a body. A nil Recorder writes nothing. It is safe for
// concurrent use.
type Recorder struct {
	logger log.Logger
	which  PreviewLog
}

// NewRecorder returns a Recorder that writes to a provider's logger. The attributes of
// a record have keys of their own: a provider need not look for equal ones.
func NewRecorder(provider log.LoggerProvider, which PreviewLog) *Recorder {
	return &Recorder{provider.Logger("understudy/authz"), which}
}

// record writes the record of a comparison on a request, if there is to be one.
func (r *Recorder) record(ctx context.Context, config Config, request *Request, c *comparison) {
	severity, severityText := c.severity()
	if r == nil || !r.which.keeps(c.difference, request.ID) ||
		!r.logger.Enabled(ctx, log.EnabledParameters{Severity: severity, EventName: EventPreview}) {
		return
	}
	told, err := c.told()
	if err != nil {
		config.Logger.Error("a preview record could not be encoded", "error", err)
		return
	}
	var event log.Record
	event.SetEventName(EventPreview)
	event.SetTimestamp(request.Time)
	event.SetSeverity(severity)
	event.SetSeverityText(severityText)
	event.SetBody(told.body)
	scratch := attributes.Get().(*[]attribute.KeyValue)
	*scratch = r.describe(append((*scratch)[:0], told.attributes...), config, request, c.difference)
	event.AddAttributes(*scratch...) // copies
	attributes.Put(scratch)
	r.logger.Emit(ctx, event)
}

// attributes are buffers for the attributes of a record.
var attributes = sync.Pool{New: func() any { return new([]attribute.KeyValue) }}

// describe appends the attributes that a record has of the request.
func (r *Recorder) describe(out []attribute.KeyValue, config Config, request *Request, d Difference) []attribute.KeyValue {
	out = append(out,
		attribute.String("understudy.decision_id", request.ID),
		attribute.String("understudy.location", string(config.Location)),
		attribute.String("understudy.node", config.Node),
		attribute.String("understudy.principal", diagnostics.Bounded(request.Principal)),
		attribute.String("http.request.method", diagnostics.Bounded(request.Method)),
		attribute.String("url.path", diagnostics.Bounded(request.Path)),
		attribute.String("server.address", diagnostics.Bounded(request.Host)),
	)
	if config.Observing {
		out = append(out, attribute.Bool(observingKey, true))
	}
	if id := request.ExternalID(); id != "" {
		out = append(out, attribute.String(attributeRequestID, id))
	}
	if rate, ok := r.which.sampled(d); ok {
		out = append(out, attribute.Float64("understudy.preview.sample_rate", rate))
	}
	return out
}
