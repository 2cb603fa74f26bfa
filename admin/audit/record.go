package audit

import (
	"fmt"
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
	// AttributePrincipalDisplay is a name of it for people, which is nobody's identity.
	AttributePrincipalDisplay = "understudy.principal_display"
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
	// AttributeRequests is how many calls the event stands for, if those are several, or it is
	// about requests of nobody known.
	AttributeRequests = "understudy.audit.requests"
	// AttributeBindingDeltas and AttributeChanges are lists: of action, role and member, and of
	// field, before and after.
	AttributeBindingDeltas = "understudy.audit.binding_deltas"
	AttributeChanges       = "understudy.audit.changes"
	// AttributePart is the number of an event of several about one call, from 1, and
	// AttributeParts how many there are.
	AttributePart   = "understudy.audit.part"
	AttributeParts  = "understudy.audit.parts"
	AttributeNode   = "understudy.node"
	AttributeClient = "client.address"
)

// unauthenticated is the value of AttributeAuthentication where nobody was known.
const unauthenticated = "none"

// othersMethod is the method of the event about calls of many principals, methods and outcomes.
const othersMethod = "others"

// result is what a call ended with.
type result struct {
	outcome outcome
	reason  string
}

// part is which of the events about calls that are alike, or about one call, an event is.
type part struct {
	// calls is how many calls the event stands for; 0 is one.
	calls int64
	// number is that of the event, from 1, if there are several of one call.
	number, of int
}

// recordOf makes an event of a call.
func (r *Recorder) recordOf(e *Entry, ended result, p part) log.Record {
	resource := shownResource(e.resource)
	out := &builder{}
	out.text(AttributePrincipal, e.who.Member)
	out.text(AttributePrincipalDisplay, e.who.Display)
	out.text(AttributeAuthentication, authenticationOf(e.who))
	out.text(AttributeMethod, e.call.Method)
	out.text(AttributeResource, resource)
	out.text(AttributeEtagBefore, e.etags.Before)
	out.text(AttributeEtagAfter, e.etags.After)
	out.text(AttributeOutcome, ended.outcome.name())
	out.text(AttributeReason, ended.reason)
	out.text(AttributeOperation, e.operation)
	if e.validateOnly {
		out.attributes = append(out.attributes, attribute.Bool(AttributeValidateOnly, true))
	}
	if p.calls > 1 {
		out.attributes = append(out.attributes, attribute.Int64(AttributeRequests, p.calls))
	}
	if e.made {
		out.made(e, p)
	}
	from, _ := e.ctx.Value(originKey{}).(origin)
	who := e.who.Member
	if who == "" {
		who = "somebody"
	}
	return r.finish(out, from, ended.outcome, diagnostics.Bounded(who)+": "+e.call.Method+" "+resource+": "+ended.outcome.name())
}

// recordOfOthers makes the event of n calls that changed nothing, of keys for which there is no
// room.
func (r *Recorder) recordOfOthers(n int64) log.Record {
	out := &builder{}
	out.text(AttributeMethod, othersMethod)
	out.attributes = append(out.attributes, attribute.Int64(AttributeRequests, n))
	return r.finish(out, origin{}, outcome(codes.PermissionDenied), fmt.Sprintf("%d other calls changed nothing: there were too many principals, methods and outcomes at a time", n))
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

// made adds what a call has changed, as far as it belongs into this event.
func (b *builder) made(e *Entry, p part) {
	b.fields(e.fields)
	from := (p.number - 1) * maxDeltas
	b.deltas(e.bindings[from:min(len(e.bindings), from+maxDeltas)])
	if p.of > 1 {
		b.attributes = append(b.attributes, attribute.Int(AttributePart, p.number), attribute.Int(AttributeParts, p.of))
	}
}

// texts is a map of bounded texts, of which those are left out that are empty.
func texts(keysAndValues ...string) attribute.Value {
	b := &builder{}
	for i := 0; i < len(keysAndValues); i += 2 {
		b.text(keysAndValues[i], keysAndValues[i+1])
	}
	return attribute.MapValue(b.attributes...)
}

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

// resultOf returns the code of an error, and the reason of its ErrorInfo. Its text is not for
// records: it may repeat what the caller sent.
func resultOf(err error) result {
	st := status.Convert(err)
	for _, d := range st.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return result{outcome(st.Code()), info.GetReason()}
		}
	}
	return result{outcome: outcome(st.Code())}
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
