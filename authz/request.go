package authz

import (
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"understudy/authz/diagnostics"
	"understudy/rego"
)

// Operation is what is asked about a request. Its values are those of
// `input.operation`.
type Operation string

// The operations. OperationCheck is Envoy's; the others are those of a
// reservation.
const (
	OperationCheck       Operation = "check"
	OperationCheckCreate Operation = "check_create"
	OperationCheckUpdate Operation = "check_update"
	OperationOnEnd       Operation = "on_end"
)

// Request is one request to the policy decision point. It is made by a front
// such as extauthz, decided by the live policy and, next to that, by every ACTIVE
// experiment. All that a policy may read of it is behind Input; the other fields
// are for choosing the policy and for the preview record.
//
// A Request is immutable after its first use and safe for concurrent use.
type Request struct {
	// ID is the decision ID, made by the front. Records and answers carry it.
	ID string
	// Operation says what is asked.
	Operation Operation
	// Policy is the policy that the route chose; empty means the sidecar's own.
	Policy PolicyID
	// Time is the clock that every policy sees; the same for live and shadow.
	Time time.Time
	// Method is the HTTP method, or the reservation call, such as "check-create".
	Method string
	// Path is the path of the URL without the query.
	Path string
	// Host is the authority that was asked for.
	Host string
	// Principal is the caller's identity as far as the mesh vouches for it.
	Principal string
	// Subject returns who asks by a token that a proxy has verified: the issuer, and the subject, which is
	// empty if there is none. Nil means that none was.
	Subject func() (issuer, subject string)
	// Project is the project of an Envoy check, as far as its route names one. That of a
	// reservation stands there.
	Project Project
	// Reservation is what is asked about; nil for an Envoy check.
	Reservation *Reservation
	// Size is about the memory that the request holds, in bytes, as far as its sender
	// chose it: what waits for a preview is bounded by it too.
	Size int
	// Source makes the input document, anew at each call. Policies share the one of Input. A
	// *BadRequest error is answered with 400.
	Source func(*ReadBudget) (rego.Input, error)
	// WithoutBody makes the input document without input.parsed_body, and without input.truncated_body unless
	// that is asked for: the headers may not say whether the body is all there, which is an error then. Nil
	// means that there is no other than that of Source.
	WithoutBody func(reading *ReadBudget, truncated bool) (rego.Input, error)
	// Parts makes the request as it is asked for part by part, within what reading may cost; nil if it is
	// there as a document alone.
	Parts func(*ReadBudget) (rego.Request, error)
	// RequestID returns the ID that a proxy or the client has given the request, as it
	// stands in x-request-id. Nil means that there is none.
	RequestID func() string
	// Span returns the span that the request belongs to: the caller's, or that of the
	// proxy that asks. Nil means that there is none.
	Span func() trace.SpanContext
	// Sent is what the request was made of. Nil means that it cannot be made again.
	Sent Sent

	input madeInput
	// parsed is about the memory that was taken for what is read of the body, in bytes.
	parsed atomic.Int64

	// replies are those of the external services that were asked about the request.
	replies replies
}

// SpanContext returns the span that records of the request belong to: that of the check, if
// it has one, else the request's own.
func (r *Request) SpanContext(check trace.SpanContext) trace.SpanContext {
	if check.IsValid() || r.Span == nil {
		return check
	}
	return r.Span()
}

// Held is about the memory that the request holds, in bytes, with what has been read of its body.
func (r *Request) Held() int { return r.Size + int(r.parsed.Load()) }

// Input returns the input document, made on first use and shared by all policies
// that decide the request.
func (r *Request) Input(reading *ReadBudget) (rego.Input, error) {
	return r.input.once(func() (rego.Input, error) { return r.Source(reading) })
}

// inputFor returns the input document with those of the bodyPlaces that are required.
func (r *Request) inputFor(reading *ReadBudget, required []string) (rego.Input, error) {
	if r.WithoutBody == nil || slices.Contains(required, parsedBody) {
		return r.Input(reading)
	}
	return r.WithoutBody(reading, slices.Contains(required, truncatedBody))
}

// Sent is what a front has made a request of. It is safe for concurrent use.
type Sent interface {
	// CheckRequest is the CheckRequest that was sent, as its bytes, of which another reader makes
	// the same request; empty if it was none. A large body may be left out for who does not read it.
	CheckRequest(body bool) string
}

// BadRequest is the error of a request that cannot become an input document: its
// path, query or body does not parse. It is answered with 400.
type BadRequest struct {
	// Reason says what does not parse, without quoting it.
	Reason string
	// Failure is the failure of the decision, one that is [Failure.OfRequest]; empty is FailureRequest.
	Failure Failure
}

func (e *BadRequest) Error() string { return e.Reason }

// maxRequestID bounds the ID of a request that others made, in characters.
const maxRequestID = 128

// AttributeRequestID is the attribute of log records that has the x-request-id of the
// request.
const AttributeRequestID = "understudy.request_id"

// ExternalID returns the ID under which others know the request: its x-request-id. It is
// what a client may have sent, so it is cleaned, for logs, and bounded; empty if there is
// none.
func (r *Request) ExternalID() string {
	if r.RequestID == nil {
		return ""
	}
	id := r.RequestID()
	if len(id) > maxRequestID*utf8.UTFMax {
		id = id[:maxRequestID*utf8.UTFMax]
	}
	n := 0
	for i := range id {
		if n == maxRequestID {
			id = id[:i]
			break
		}
		n++
	}
	return diagnostics.Clean(id)
}

// Reservation is what a Request asks about if it is not Envoy's: a lease of OpenStack
// Blazar. The documents are in the types of encoding/json, with numbers as
// json.Number, and must not be modified.
type Reservation struct {
	// Context says who asks: user_id, project_id, auth_url, region_name.
	Context map[string]any
	// Lease is the lease as it would be after the call, as far as the caller says it: for
	// an update it has what is to change.
	Lease map[string]any
	// Current is the lease as it is, for an update; nil otherwise.
	Current map[string]any
	// Project is the ID of the project that asks; it may be exempted.
	Project string
	// Start and End bound the lease as it would be. They are zero if no lease does
	// say, and Invalid says what is wrong if it says it in a way that cannot be read.
	Start, End time.Time
	Invalid    string
}

// defaultEffect is the decision on a request where there is no policy. Envoy's is as
// configured. A reservation is allowed: a chain of filters in which nobody objects
// passes, and Blazar without one allows.
func (r *Request) defaultEffect(configured Effect) Effect {
	if r.Reservation != nil {
		return Allow
	}
	return configured
}

// Compare is [Compare] by what the caller gets. Blazar gets the effect and the
// reason, and nothing of what is for Envoy.
func (r *Request) Compare(live, experiment Decision) Difference {
	if r.Reservation == nil {
		return Compare(live, experiment)
	}
	return Compare(live.toBlazar(), experiment.toBlazar())
}

// Changed is [Changed] by what the caller gets: of what Blazar gets, the body is
// the reason.
func (r *Request) Changed(live, experiment Decision) []string {
	if r.Reservation == nil {
		return Changed(live, experiment)
	}
	names := Changed(live.toBlazar(), experiment.toBlazar())
	for i, name := range names {
		if name == "body" {
			names[i] = "reason"
		}
	}
	return names
}

// toBlazar is what Blazar gets of a decision.
func (d Decision) toBlazar() Decision {
	out := Decision{Effect: d.Effect, Failure: d.Failure}
	if d.Effect == Deny {
		out.Body = d.Reason
	}
	return out
}
