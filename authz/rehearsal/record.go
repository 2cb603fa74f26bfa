package rehearsal

import (
	"context"
	"sync"

	"understudy/authz"
	"understudy/authz/diagnostics"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
)

// EventPreview is the event name of a preview record.
const EventPreview = "understudy.policy.preview"

// observingKey is the attribute of a preview record that says that nobody enforces the
// decision it calls live.
const observingKey = "understudy.observing"

// weightKey is the attribute of a preview record that says how many requests the comparison stands for,
// where only some were compared.
const weightKey = "understudy.preview.weight"

// Recorder writes preview records: one OpenTelemetry log event for each request
// and ACTIVE experiment. A record says what was decided, why and by which versions; of
// the request it has method, path without query, host, principal, x-request-id and the
// labels that the policy names, and never another header, a token or a body. A nil Recorder writes nothing. It is safe for
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

// writes reports whether there is anywhere to write records to.
func (r *Recorder) writes() bool {
	return r != nil && r.logger.Enabled(context.Background(), log.EnabledParameters{EventName: EventPreview})
}

// record writes the record of a comparison on a request, if there is to be one.
func (r *Shadow) record(ctx context.Context, j *job, c *comparison) {
	request := j.request
	recorder := r.config.Recorder
	severity, severityText := c.severity()
	if recorder == nil || !recorder.which.keeps(c.difference, request.ID) ||
		!recorder.logger.Enabled(ctx, log.EnabledParameters{Severity: severity, EventName: EventPreview}) {
		return
	}
	text, err := c.recordText()
	if err != nil {
		r.config.Output.Logger.Error("a preview record could not be encoded", "error", err)
		return
	}
	var event log.Record
	event.SetEventName(EventPreview)
	event.SetTimestamp(request.Time)
	event.SetSeverity(severity)
	event.SetSeverityText(severityText)
	event.SetBody(text.body)
	scratch := attributes.Get().(*[]attribute.KeyValue)
	*scratch = recorder.describe(append((*scratch)[:0], text.attributes...), r.config.Node, request, c.difference)
	if j.pattern != nil && j.pattern.Path() != "" {
		*scratch = append(*scratch, attribute.String("understudy.path_pattern", j.pattern.Path()))
	}
	if j.weight > 1 {
		*scratch = append(*scratch, attribute.Int64(weightKey, j.weight))
	}
	event.AddAttributes(*scratch...) // copies
	attributes.Put(scratch)
	recorder.logger.Emit(ctx, event)
}

// attributes are buffers for the attributes of a record.
var attributes = sync.Pool{New: func() any { return new([]attribute.KeyValue) }}

// describe appends the attributes that a record has of the request.
func (r *Recorder) describe(out []attribute.KeyValue, node authz.Node, request *authz.Request, d authz.Difference) []attribute.KeyValue {
	out = append(out,
		attribute.String("understudy.decision_id", request.ID),
		attribute.String("understudy.location", string(node.Location)),
		attribute.String("understudy.node", node.ID),
		attribute.String("understudy.principal", diagnostics.Bounded(request.Principal)),
		attribute.String("http.request.method", diagnostics.Bounded(request.Method)),
		attribute.String("url.path", diagnostics.Bounded(request.Path)),
		attribute.String("server.address", diagnostics.Bounded(request.Host)),
	)
	if node.Observing {
		out = append(out, attribute.Bool(observingKey, true))
	}
	if id := request.ExternalID(); id != "" {
		out = append(out, attribute.String(authz.AttributeRequestID, id))
	}
	if rate, ok := r.which.sampled(d); ok {
		out = append(out, attribute.Float64("understudy.preview.sample_rate", rate))
	}
	return out
}
