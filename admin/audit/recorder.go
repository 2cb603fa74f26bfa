package audit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"

	"understudy/admin/access"
	"understudy/authz/diagnostics"
)

// Places are those of the bounded queue in which events wait. Implementations are safe for
// concurrent use.
type Places interface {
	// Reserve takes a place, and reports whether there was one. A minor event finds one as
	// long as the queue is less than half full: what anybody may cause takes no place of what
	// has to be recorded.
	Reserve(minor bool) bool
	// Reserved returns a context with which an event takes a place that was reserved.
	Reserved(ctx context.Context) context.Context
}

// Config is what a Recorder needs.
type Config struct {
	// Logs gets the events, and Places are those of its queue. Both are required.
	Logs   log.LoggerProvider
	Places Places
	// Required refuses a call that would change something if there is no place for its event.
	Required bool
	// Node is the ID of this server.
	Node string
	// Meters counts the events. Required.
	Meters metric.MeterProvider
	// Propagator reads the trace of a request. Nil means that events have none.
	Propagator propagation.TextMapPropagator
}

// Recorder writes the events. A nil Recorder records nothing. It is safe for concurrent use.
type Recorder struct {
	logger   log.Logger
	places   Places
	required bool
	node     string
	trace    propagation.TextMapPropagator
	counts   *counts
	// unknown are the requests of nobody known.
	unknown diagnostics.Occurrences
}

// New returns a Recorder.
func New(c Config) (*Recorder, error) {
	if c.Logs == nil || c.Places == nil || c.Meters == nil {
		return nil, errors.New("audit: Config.Logs, Places and Meters are required")
	}
	r := &Recorder{
		logger: c.Logs.Logger("understudy/admin"), places: c.Places, required: c.Required, node: c.Node, trace: c.Propagator,
	}
	var err error
	r.counts, err = newCounts(c.Meters)
	return r, err
}

// API is an API by which a call came.
type API string

// The APIs.
const (
	REST       API = "rest"
	GRPC       API = "grpc"
	Policyfile API = "policyfile"
	// Page is the page at /ui/.
	Page API = "page"
)

// origin is where a call came from.
type origin struct {
	api    API
	client string
}

// originKey is the key of the origin in a context.
type originKey struct{}

// Request returns a request whose calls are recorded as those of an API, in the trace that it
// belongs to.
func (r *Recorder) Request(request *http.Request, by API) *http.Request {
	if r == nil {
		return request
	}
	ctx := request.Context()
	if r.trace != nil {
		ctx = r.trace.Extract(ctx, propagation.HeaderCarrier(request.Header))
	}
	return request.WithContext(context.WithValue(ctx, originKey{}, origin{by, clientOf(request)}))
}

// clientOf is the address that a request came from, without its port.
func clientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

// Begin begins the entry of a call, in whose context the principal is known, and returns the
// context to make the call with. Whoever begins an entry ends it.
func (r *Recorder) Begin(ctx context.Context, c Call) (context.Context, *Entry) {
	if r == nil {
		return ctx, nil
	}
	e := &Entry{recorder: r, ctx: ctx, call: c, who: access.FromContext(ctx), resource: c.Resource}
	return context.WithValue(ctx, entryKey{}, e), e
}

// write writes the event of a call.
func (r *Recorder) write(e *Entry, err error) {
	r.emit(e.ctx, r.recordOf(e, err), e.reserved, false)
}

// Unauthenticated counts a request of which nobody knows who sends it, and writes an event
// unless there was one within a second.
func (r *Recorder) Unauthenticated(request *http.Request) {
	if r == nil {
		return
	}
	ctx := request.Context()
	if n := r.unknown.Note(time.Now(), strangerEvery); n > 0 {
		r.emit(ctx, r.recordOfStranger(request, n), false, true)
		return
	}
	r.counts.add(ctx, folded)
}

// emit puts an event into the queue, or drops it.
func (r *Recorder) emit(ctx context.Context, event log.Record, reserved, minor bool) {
	if reserved || r.places.Reserve(minor) {
		r.counts.add(ctx, written)
		r.logger.Emit(r.places.Reserved(ctx), event)
		return
	}
	r.counts.add(ctx, dropped)
}

// strangerEvery is the time that one event about strangers stands for.
const strangerEvery = time.Second
