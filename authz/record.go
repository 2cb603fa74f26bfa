package authz

import (
	"context"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
)

// LogPrefix begins the body of every preview record and of nothing else (AIP-236).
// It is the log_prefix of every experiment.
const LogPrefix = "PolicyPreviewLog"

// EventPreview is the event name of a preview record.
const EventPreview = "understudy.policy.preview"

// maxText bounds each text of a record that comes from a request, in bytes.
const maxText = 2048

// comparison is a request that was decided twice.
type comparison struct {
	request      *Request
	live         *candidate
	experiment   *candidate
	liveDecision Decision
	decision     Decision
	difference   Difference
}

// Recorder writes preview records: one OpenTelemetry log event for each request
// and ACTIVE experiment. A record tells what was decided and by which versions; of
// the request it has method, path without query, host and principal, and never a
// header, a token or a body. A nil Recorder writes nothing. It is safe for
// concurrent use.
type Recorder struct{ logger log.Logger }

// NewRecorder returns a Recorder that writes to a provider's logger.
func NewRecorder(provider log.LoggerProvider) *Recorder {
	return &Recorder{provider.Logger("understudy/authz")}
}

// body is the JSON that follows the prefix, in this order. The difference is always
// there, UNCHANGED too, so that a search needs no case for its absence; rule and
// reason are left out where there are none.
type body struct {
	Policy           string     `json:"policy"`
	PolicyEtag       string     `json:"policy_etag"`
	PolicyResult     string     `json:"policy_result"`
	Experiment       string     `json:"experiment"`
	ExperimentEtag   string     `json:"experiment_etag"`
	ExperimentResult string     `json:"experiment_result"`
	Difference       Difference `json:"difference"`
	Rule             string     `json:"rule,omitempty"`
	Reason           string     `json:"reason,omitempty"`
}

func (r *Recorder) record(ctx context.Context, config Config, c comparison) {
	severity, severityText := severityOf(c.difference)
	if r == nil || !r.logger.Enabled(ctx, log.EnabledParameters{Severity: severity, EventName: EventPreview}) {
		return
	}
	b := c.body()
	text, err := json.Marshal(b)
	if err != nil {
		config.Logger.Error("a preview record could not be encoded", "error", err)
		return
	}
	var event log.Record
	event.SetEventName(EventPreview)
	event.SetTimestamp(c.request.Time)
	event.SetSeverity(severity)
	event.SetSeverityText(severityText)
	event.SetBody(attribute.StringValue(LogPrefix + " " + string(text)))
	event.AddAttributes(c.attributes(config, b)...)
	r.logger.Emit(ctx, event)
}

func severityOf(d Difference) (log.Severity, string) {
	switch d {
	case Unchanged:
		return log.SeverityInfo, "INFO"
	case ExperimentFailed:
		return log.SeverityError, "ERROR"
	default:
		return log.SeverityWarn, "WARN"
	}
}

func (c comparison) body() body {
	b := body{
		Policy:           c.live.name,
		PolicyEtag:       c.live.etag,
		PolicyResult:     c.liveDecision.Result(),
		Experiment:       c.experiment.name,
		ExperimentEtag:   c.experiment.etag,
		ExperimentResult: c.decision.Result(),
		Difference:       c.difference,
	}
	side := c.explained()
	b.Rule, b.Reason = bounded(side.Rule), bounded(side.Reason)
	return b
}

// explained returns the decision whose rule and reason explain the difference:
// that of the side that denies, the experiment's if both do.
func (c comparison) explained() Decision {
	if c.decision.Verdict == Deny {
		return c.decision
	}
	return c.liveDecision
}

// attributes are the same facts as the body's, flat, and those of the request.
func (c comparison) attributes(config Config, b body) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("understudy.policy.name", b.Policy),
		attribute.String("understudy.policy.etag", b.PolicyEtag),
		attribute.String("understudy.policy.result", b.PolicyResult),
		attribute.String("understudy.experiment.name", b.Experiment),
		attribute.String("understudy.experiment.etag", b.ExperimentEtag),
		attribute.String("understudy.experiment.result", b.ExperimentResult),
		attribute.String("understudy.preview.difference", string(b.Difference)),
		attribute.Bool("understudy.preview.differs", b.Difference != Unchanged),
		attribute.String("understudy.preview.rule", b.Rule),
		attribute.String("understudy.preview.reason", b.Reason),
		attribute.String("understudy.decision_id", c.request.ID),
		attribute.String("understudy.location", string(config.Location)),
		attribute.String("understudy.node", config.Node),
		attribute.String("understudy.principal", bounded(c.request.Principal)),
		attribute.String("http.request.method", bounded(c.request.Method)),
		attribute.String("url.path", bounded(c.request.Path)),
		attribute.String("server.address", bounded(c.request.Host)),
	}
}

// bounded makes a text fit for a record: not too long, valid, on one line.
func bounded(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return clean(text)
}

// clean replaces what could break a line, move a terminal's cursor, turn the reading
// direction or hide, and what is no UTF-8.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '\uFFFD'
		}
		return r
	}, text)
}
