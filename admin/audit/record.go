package audit

import (
	"net/http"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/authz/diagnostics"
)

// Event is the name of the events.
const Event = "understudy.admin.audit"

// The attributes of an event. Those that are not known are left out.
const (
	// AttributePrincipal is the member that made the call, as bindings name it.
	AttributePrincipal = "understudy.principal"
	// AttributeAuthentication is how it was known: a method of access, or none.
	AttributeAuthentication = "understudy.audit.authentication"
	AttributeAPI            = "understudy.audit.api"
	AttributeMethod         = "understudy.audit.method"
	AttributeResource       = "understudy.audit.resource"
	AttributeEtagBefore     = "understudy.audit.etag_before"
	AttributeEtagAfter      = "understudy.audit.etag_after"
	// AttributeOutcome is the name of a google.rpc.Code, AttributeReason that of the
	// ErrorInfo.
	AttributeOutcome      = "understudy.audit.outcome"
	AttributeReason       = "understudy.audit.reason"
	AttributeOperation    = "understudy.audit.operation"
	AttributeValidateOnly = "understudy.audit.validate_only"
	// AttributeRequests is how many requests of nobody known the event stands for.
	AttributeRequests = "understudy.audit.requests"
	AttributeNode     = "understudy.node"
	AttributeClient   = "client.address"
)

// unauthenticated is the value of AttributeAuthentication where nobody was known.
const unauthenticated = "none"

// recordOf makes the event of a call.
func (r *Recorder) recordOf(e *Entry, err error) log.Record {
	outcome, reason := outcomeOf(err)
	resource := shownResource(e.resource)
	out := &builder{}
	out.text(AttributePrincipal, e.who.Member)
	out.text(AttributeAuthentication, authenticationOf(e.who))
	out.text(AttributeMethod, e.call.Method)
	out.text(AttributeResource, resource)
	out.text(AttributeEtagBefore, e.etagBefore)
	out.text(AttributeEtagAfter, e.etagAfter)
	out.text(AttributeOutcome, outcome.name())
	out.text(AttributeReason, reason)
	out.text(AttributeOperation, e.operation)
	if e.validateOnly {
		out.attributes = append(out.attributes, attribute.Bool(AttributeValidateOnly, true))
	}
	from, _ := e.ctx.Value(originKey{}).(origin)
	who := e.who.Member
	if who == "" {
		who = "somebody"
	}
	return r.finish(out, from, outcome, diagnostics.Bounded(who)+": "+e.call.Method+" "+resource+": "+outcome.name())
}

// recordOfStranger makes the event of n requests of nobody known, of which one is given.
func (r *Recorder) recordOfStranger(request *http.Request, n int64) log.Record {
	out := &builder{}
	out.text(AttributeAuthentication, unauthenticated)
	out.text(AttributeOutcome, outcome(codes.Unauthenticated).name())
	out.text("http.request.method", request.Method)
	out.attributes = append(out.attributes, attribute.Int64(AttributeRequests, n))
	from, _ := request.Context().Value(originKey{}).(origin)
	return r.finish(out, from, outcome(codes.Unauthenticated), "a request without valid credentials was refused")
}

// finish adds what all events have.
func (r *Recorder) finish(b *builder, from origin, o outcome, text string) log.Record {
	b.text(AttributeAPI, string(from.api))
	b.text(AttributeClient, from.client)
	b.text(AttributeNode, r.node)
	var event log.Record
	event.SetEventName(Event)
	event.SetTimestamp(time.Now())
	severity, severityText := o.severity()
	event.SetSeverity(severity)
	event.SetSeverityText(severityText)
	event.SetBody(attribute.StringValue(text))
	event.AddAttributes(b.attributes...)
	return event
}

// builder collects attributes.
type builder struct{ attributes []attribute.KeyValue }

// text adds a bounded attribute, unless it is empty.
func (b *builder) text(key, value string) {
	if value != "" {
		b.attributes = append(b.attributes, attribute.String(key, diagnostics.Bounded(value)))
	}
}

// authenticationOf is how a principal was known.
func authenticationOf(p access.Principal) string {
	if !p.Known() {
		return unauthenticated
	}
	return string(p.Method)
}

// outcome is the code that a call ended with.
type outcome codes.Code

// name is that of the google.rpc.Code.
func (o outcome) name() string { return code.Code(o).String() }

// severity is WARN of what was refused, and ERROR of what failed.
func (o outcome) severity() (log.Severity, string) {
	switch codes.Code(o) {
	case codes.OK:
		return log.SeverityInfo, "INFO"
	case codes.Internal, codes.Unknown, codes.DataLoss, codes.Unavailable, codes.DeadlineExceeded:
		return log.SeverityError, "ERROR"
	default:
		return log.SeverityWarn, "WARN"
	}
}

// outcomeOf returns the code of an error, and the reason of its ErrorInfo. Its text is not for
// records: it may repeat what the caller sent.
func outcomeOf(err error) (outcome, string) {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return outcome(st.Code()), info.GetReason()
		}
	}
	return outcome(st.Code()), ""
}

// codesOf :: status of HTTP → the code that it is of, where an edge refuses a request itself.
var codesOf = map[int]codes.Code{
	http.StatusBadRequest: codes.InvalidArgument, http.StatusUnauthorized: codes.Unauthenticated,
	http.StatusForbidden: codes.PermissionDenied, http.StatusNotFound: codes.NotFound,
	http.StatusRequestTimeout: codes.DeadlineExceeded, http.StatusConflict: codes.FailedPrecondition,
	http.StatusRequestEntityTooLarge: codes.InvalidArgument, http.StatusUnsupportedMediaType: codes.InvalidArgument,
	http.StatusTooManyRequests: codes.ResourceExhausted, http.StatusNotImplemented: codes.Unimplemented,
	http.StatusServiceUnavailable: codes.Unavailable,
}

// HTTPOutcome is the error of an answer of which an edge knows the status alone; nil if that
// is a success.
func HTTPOutcome(answer int) error {
	if answer < http.StatusBadRequest {
		return nil
	}
	code, known := codesOf[answer]
	if !known {
		code = codes.Internal
	}
	return status.Error(code, "")
}

// resourceGrammar is that of the name of a resource.
var resourceGrammar = regexp.MustCompile(`\Aprojects/[A-Za-z0-9_.:~%/-]{1,1000}\z`)

// malformed stands for what a caller sent that is no name.
const malformed = "malformed"

// shownResource is a name as events have it.
func shownResource(name string) string {
	if name != "" && !resourceGrammar.MatchString(name) {
		return malformed
	}
	return name
}
