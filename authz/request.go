package authz

import (
	"crypto/sha256"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

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

// Request is one question to the policy decision point. It is made by a front
// such as extauthz, decided by the live policy and, beside that, by every ACTIVE
// experiment. All that a policy may read of it is behind Input; the other fields
// are for choosing the policy and for the preview record.
//
// A Request is immutable after its first use and safe for concurrent use.
type Request struct {
	// ID is the decision ID, made by the front. Records and answers carry it.
	ID string
	// Operation says which question is asked.
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
	// Project is the project of an Envoy check, as far as its route names one. That of a
	// reservation stands there.
	Project Project
	// Reservation is what is asked about; nil for an Envoy check.
	Reservation *Reservation
	// Size is about the memory that the request holds, in bytes, as far as its sender
	// chose it: what waits for a preview is bounded by it too.
	Size int
	// Source makes the input document. It is called at most once, and not at all
	// for a request that no policy needs to read. A *BadRequest error is answered
	// with 400.
	Source func(*Reading) (rego.Input, error)
	// WithoutBody makes the input document without what is read of the body, for logs. Nil
	// means that there is no other than that of Source.
	WithoutBody func() (rego.Input, error)
	// Projector makes what a policy reads of the input document, without the rest. It
	// is nil if there is only the whole.
	Projector Projector
	// RequestID returns the ID that a proxy or the client has given the request, as it
	// stands in x-request-id. Nil means that there is none.
	RequestID func() string
	// Span returns the span that the request belongs to: the caller's, or that of the
	// proxy that asks. Nil means that there is none.
	Span func() trace.SpanContext

	input madeInput
	// parsed is about the memory that was taken for what is read of the body, in bytes.
	parsed atomic.Int64

	projecting sync.Mutex
	// projected is what the policies that were asked so far read. Most read the same.
	projected []*projection
	// room is for the first of them: mostly there is no other.
	room [1]*projection
	// replies are those of the external services that were asked about the request.
	replies replies
}

// Projector makes what a policy can read of one request's input document. It is
// immutable and safe for concurrent use.
type Projector interface {
	// Key appends to b a text that two requests share only if their inputs are equal in
	// all that the set names. The same request always has the same. It reports false if
	// there is none: decisions on the request are not cached then.
	Key(set *ReadSet, b []byte) ([]byte, bool)
	// Input makes the input document with no more of it than the set names. The error
	// is as that of a Request's Source.
	Input(reading *Reading, set *ReadSet) (rego.Input, error)
}

// projection is what one read set takes of a request. It is safe for concurrent use.
type projection struct {
	set         *ReadSet
	projector   Projector
	fingerprint fingerprint
	// keyed says that there is a fingerprint.
	keyed bool

	input madeInput
}

// maxKeptKey is the size of the largest buffer that is kept, in bytes: a body may be in
// a key.
const maxKeptKey = 64 << 10

// keys are buffers for the keys of projections.
var keys = sync.Pool{New: func() any { b := make([]byte, 0, 2048); return &b }}

// project returns what a set takes of the request; nil if it takes the whole, or more
// than the input: a reservation. It is made once for all policies that take the same.
func (r *Request) project(set *ReadSet) *projection {
	if !r.projects(set) {
		return nil
	}
	r.projecting.Lock()
	defer r.projecting.Unlock()
	for _, p := range r.projected {
		if p.set.name == set.name {
			return p
		}
	}
	if r.projected == nil {
		r.projected = r.room[:0]
	}
	p := newProjection(r.Projector, set)
	r.projected = append(r.projected, p)
	return p
}

// projects reports whether a set takes less than the whole request.
func (r *Request) projects(set *ReadSet) bool {
	return r.Projector != nil && r.Reservation == nil && set != nil && !set.Whole()
}

func newProjection(projector Projector, set *ReadSet) *projection {
	p := &projection{set: set, projector: projector}
	buffer := keys.Get().(*[]byte)
	*buffer, p.keyed = projector.Key(set, (*buffer)[:0])
	if p.keyed {
		p.fingerprint = sha256.Sum256(*buffer)
	}
	if cap(*buffer) <= maxKeptKey {
		keys.Put(buffer)
	}
	return p
}

// document returns the input document, made on first use.
func (p *projection) document(reading *Reading) (rego.Input, error) {
	return p.input.once(func() (rego.Input, error) { return p.projector.Input(reading, p.set) })
}

// span returns the span that records of the request belong to: that of the check, if
// it has one, else the request's own.
func (r *Request) span(check trace.SpanContext) trace.SpanContext {
	if check.IsValid() || r.Span == nil {
		return check
	}
	return r.Span()
}

// size is about the memory that the request holds, with what has been read of its body.
func (r *Request) size() int { return r.Size + int(r.parsed.Load()) }

// Input returns the input document, made on first use and shared by all policies
// that decide the request.
func (r *Request) Input(reading *Reading) (rego.Input, error) {
	return r.input.once(func() (rego.Input, error) { return r.Source(reading) })
}

// madeInput is an input document that is made on first use. It is safe for concurrent
// use.
type madeInput struct {
	mu    sync.Mutex
	made  bool
	input rego.Input
	err   error
}

// once returns the document, made now if it has not been. That there was no memory or no
// time for it is not kept: the next one may have more of both.
func (m *madeInput) once(source func() (rego.Input, error)) (rego.Input, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made {
		return m.input, m.err
	}
	// A source that panics leaves this to the policies that ask after it.
	m.made, m.err = true, errSourcePanicked
	m.input, m.err = source()
	m.made = m.err == nil || unreadable(m.err).Failure == FailureRequest
	return m.input, m.err
}

var errSourcePanicked = errors.New("making the input document panicked")

// BadRequest is the error of a request that cannot become an input document: its
// path, query or body does not parse. It is answered with 400.
type BadRequest struct {
	// Reason says what does not parse, without quoting it.
	Reason string
}

func (e *BadRequest) Error() string { return e.Reason }
