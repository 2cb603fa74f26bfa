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

// QueueSlots are those of the bounded queue in which events wait. Implementations are safe for
// concurrent use.
type QueueSlots interface {
	// Reserve takes n slots, and reports whether there were so many; otherwise it takes none.
	// Minor events have slots of their own: what anybody may cause takes no slot of what has
	// to be recorded.
	Reserve(n int, minor bool) bool
	// Release gives n slots back that were reserved.
	Release(n int, minor bool)
	// Reserved returns a context with which an event takes a slot that was reserved.
	Reserved(ctx context.Context, minor bool) context.Context
}

// Config is what a Recorder needs.
type Config struct {
	// Logs gets the events, and Slots are those of its queue. Both are required.
	Logs  log.LoggerProvider
	Slots QueueSlots
	// Required refuses a call that would change something if there is no slot for its event.
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
	slots    QueueSlots
	required bool
	node     string
	trace    propagation.TextMapPropagator
	counts   *counts
	// unknown are the requests of nobody known, minors the calls that change nothing.
	unknown diagnostics.Occurrences
	minors  minors
}

// New returns a Recorder.
func New(c Config) (*Recorder, error) {
	if c.Logs == nil || c.Slots == nil || c.Meters == nil {
		return nil, errors.New("audit: Config.Logs, Slots and Meters are required")
	}
	r := &Recorder{
		logger: c.Logs.Logger("understudy/admin"), slots: c.Slots, required: c.Required, node: c.Node, trace: c.Propagator,
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
// context to make the call with. Anyone who begins an entry ends it.
func (r *Recorder) Begin(ctx context.Context, c Call) (context.Context, *Entry) {
	if r == nil {
		return ctx, nil
	}
	e := &Entry{recorder: r, ctx: ctx, call: c, who: access.FromContext(ctx), resource: c.Resource}
	return context.WithValue(ctx, entryKey{}, e), e
}

// write writes the event of a call.
func (r *Recorder) write(e *Entry, err error) {
	result := resultOf(err)
	if e.made || e.reserved > 0 {
		r.writeChange(e, result)
		return
	}
	n, others := r.minors.note(time.Now(), minorKey{e.who.Member, e.call.Method, result.outcome})
	switch {
	case n == 0:
		r.counts.add(e.ctx, folded, 1)
	case others:
		r.emitMinor(e.ctx, r.recordOfOthers(n))
	default:
		r.emitMinor(e.ctx, r.recordOf(e, result, part{calls: n}))
	}
}

// writeChange writes the events of a call that has changed something: one, and of many changes
// of bindings several, all of which find a slot or none.
func (r *Recorder) writeChange(e *Entry, result result) {
	n := 1
	if e.made {
		n = e.events()
	}
	if missing := n - e.reserved; missing > 0 && r.slots.Reserve(missing, false) {
		e.reserved = n
	}
	if e.reserved < n {
		r.slots.Release(e.reserved, false)
		r.counts.add(e.ctx, dropped, n)
		return
	}
	r.counts.add(e.ctx, written, n)
	for i := range n {
		r.logger.Emit(r.slots.Reserved(e.ctx, false), r.recordOf(e, result, part{number: i + 1, of: n}))
	}
	r.slots.Release(e.reserved-n, false)
}

// Unauthenticated counts a request of which nobody knows who sends it, and writes an event
// unless there was one within a second.
func (r *Recorder) Unauthenticated(request *http.Request) {
	if r == nil {
		return
	}
	ctx := request.Context()
	if n := r.unknown.Note(time.Now(), minorEvery); n > 0 {
		r.emitMinor(ctx, r.recordOfStranger(request, n))
		return
	}
	r.counts.add(ctx, folded, 1)
}

// emitMinor puts an event about what changed nothing into the queue, or drops it.
func (r *Recorder) emitMinor(ctx context.Context, event log.Record) {
	if !r.slots.Reserve(1, true) {
		r.counts.add(ctx, dropped, 1)
		return
	}
	r.counts.add(ctx, written, 1)
	r.logger.Emit(r.slots.Reserved(ctx, true), event)
}
