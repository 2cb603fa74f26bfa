package reservation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/rego"
)

// Decider decides requests. It is safe for concurrent use and observes the deadline of
// ctx. *sidecar.Sidecar is one.
type Decider interface {
	Check(ctx context.Context, r *authz.Request) authz.Decision
}

// Config is what a Handler needs. Policy is required; the zero value of every other
// field is a default.
type Config struct {
	// Policy decides all calls, of whatever project.
	Policy authz.PolicyID
	// Tokens are those by any of which a caller shows that it is Blazar. Without any,
	// anyone who reaches the handler is answered: it must not be reached from another
	// machine then.
	Tokens []string
	// BasePath is before the paths of the calls, such as /blazar.
	BasePath string
	// MaxBody bounds a body, in bytes. Zero means 4 MiB.
	MaxBody int64
	// Concurrency bounds the checks that are read and decided at the same time; more are
	// answered with 429. Ends of leases have as much room next to them, so that checks
	// that wait for someone cost no end. Zero means 64.
	Concurrency int
	// Now is the clock that calls are decided by. Nil means time.Now.
	Now func() time.Time
	// Propagator reads the span that a call belongs to from its headers. Nil means the
	// W3C's traceparent.
	Propagator propagation.TextMapPropagator
	// Tracer makes a span of each decision, in the trace of its call. Nil means none.
	Tracer trace.Tracer
	// Logger gets the ends of leases that no policy was asked about, and calls without a right token. Nil
	// means nothing is logged.
	Logger *slog.Logger
	// Meters makes the metrics. Nil means none.
	Meters metric.MeterProvider
}

func (c Config) withDefaults() Config {
	if c.MaxBody == 0 {
		c.MaxBody = 4 << 20
	}
	if c.Concurrency == 0 {
		c.Concurrency = 64
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Propagator == nil {
		c.Propagator = propagation.TraceContext{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Meters == nil {
		c.Meters = noop.NewMeterProvider()
	}
	return c
}

// Handler answers reservation checks. It is an http.Handler; its server's ReadTimeout
// bounds slow bodies. It is safe for concurrent use.
//
// The way of a request is a list of gates, each with a status of its own (see the
// package): token, path, method, media type, room, size, form; then the policy.
// Whatever happens, one response is written, since Blazar has no timeout.
type Handler struct {
	decider Decider
	config  Config
	base    string
	// tokens is empty if callers need none.
	tokens atomic.Pointer[tokens]
	// checks and ends have a place for each call under way.
	checks, ends chan struct{}
	calls        metric.Int64Counter
	panics       *diagnostics.Panics
	// unauthorized are calls without a right token.
	unauthorized diagnostics.Occurrences
}

// New returns a Handler that asks d. The error says which field of the configuration is
// wrong.
func New(d Decider, config Config) (*Handler, error) {
	config = config.withDefaults()
	h := &Handler{decider: d, config: config, base: strings.TrimRight(config.BasePath, "/")}
	if config.Policy == "" {
		return nil, errors.New("reservation: Config.Policy is required")
	}
	if h.base != "" && h.base[0] != '/' {
		return nil, errors.New("reservation: Config.BasePath begins with a slash, like /blazar")
	}
	if config.MaxBody < 0 || config.Concurrency < 0 {
		return nil, errors.New("reservation: Config.MaxBody and Concurrency are above zero")
	}
	h.checks, h.ends = make(chan struct{}, config.Concurrency), make(chan struct{}, config.Concurrency)
	if err := h.SetTokens(config.Tokens); err != nil {
		return nil, err
	}
	if err := h.measure(); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	var err error
	if h.panics, err = diagnostics.NewPanics(config.Logger, config.Meters); err != nil {
		return nil, err
	}
	return h, nil
}

// ServeHTTP answers one request. Counting is before writing, so that a caller that has
// the response finds it in the metrics.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e, known := h.find(r.URL.Path)
	a := h.respond(r, e, known)
	if a.unread {
		h.drain(r)
	}
	h.count(r.Context(), e, a.status)
	a.write(w)
}

// respond takes a request as far through the gates as it gets: see the statuses in the package's doc.
func (h *Handler) respond(r *http.Request, e endpoint, known bool) response {
	switch {
	case !h.tokens.Load().admit(r.Header):
		h.warnUnauthorized(r)
		return errToken
	case !known:
		return errPath
	case r.Method != http.MethodPost:
		return errMethod
	case !isJSON(r.Header):
		return errMediaType
	}
	room := h.checks
	if e.notifies() {
		room = h.ends
	}
	select {
	case room <- struct{}{}:
		defer func() { <-room }()
		return h.check(r, e)
	default:
		return errBusy
	}
}

// check reads the body of a request and decides it. It holds a place from reading on,
// as bodies in memory are what the bound is for.
func (h *Handler) check(r *http.Request, e endpoint) response {
	body, refused := h.read(r)
	if refused != nil {
		return *refused
	}
	document, err := parseJSON(body)
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	payload, err := e.payload(document)
	if err != nil {
		return h.incomplete(e, err)
	}
	id := uuid.NewString()
	d := h.decide(r.Context(), e, h.request(id, r, e, payload, len(body)))
	if e.notifies() {
		h.logUndecided(id, d)
		return allowed
	}
	if d.Effect == authz.Allow {
		return allowed
	}
	return refuse(http.StatusForbidden, messageOf(d))
}

// incomplete answers JSON that lacks what the call needs.
func (h *Handler) incomplete(e endpoint, err error) response {
	if !e.notifies() {
		return refuse(http.StatusBadRequest, err.Error())
	}
	h.config.Logger.Warn("a call says that a lease ended, but not which one; no policy was asked about it", "error", err)
	return allowed
}

// request returns what is asked. Input is there already: its error is one of the
// body's, not of the policy's.
func (h *Handler) request(id string, r *http.Request, e endpoint, p payload, size int) *authz.Request {
	span := trace.SpanContextFromContext(
		h.config.Propagator.Extract(context.Background(), propagation.HeaderCarrier(r.Header)))
	return &authz.Request{
		ID:          id,
		Operation:   e.operation,
		Policy:      h.config.Policy,
		Time:        h.config.Now(),
		Method:      e.name,
		Path:        r.URL.Path,
		Host:        r.Host,
		Principal:   p.user,
		Reservation: p.reservation,
		Size:        size,
		Source:      func(*authz.ReadBudget) (rego.Input, error) { return p.input, nil },
		Span:        func() trace.SpanContext { return span },
	}
}

// decide asks the decider. A panic of ours is a failure, for Blazar takes a dropped
// connection worse than a denial. The end of a lease goes to all filters, also if its caller goes away.
func (h *Handler) decide(ctx context.Context, e endpoint, r *authz.Request) (d authz.Decision) {
	defer func() {
		if cause := recover(); cause != nil {
			h.panics.Report(ctx, diagnostics.PanicReservation, cause, slog.String("call", e.name), slog.String("decision_id", r.ID))
			d = authz.Decision{Failure: authz.FailurePanic, Reason: "The decision panicked."}
		}
	}()
	if e.notifies() {
		ctx = context.WithoutCancel(ctx)
	}
	if h.config.Tracer == nil {
		return h.decider.Check(ctx, r)
	}
	ctx = trace.ContextWithRemoteSpanContext(ctx, r.Span())
	inner, span := h.config.Tracer.Start(ctx, "reservation "+e.name, trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	if !span.IsRecording() {
		return h.decider.Check(ctx, r) // records are in the span of the caller: this one is nowhere
	}
	d = h.decider.Check(inner, r)
	span.SetAttributes(
		attribute.String("understudy.decision_id", r.ID),
		attribute.String("understudy.policy.result", d.Result()),
	)
	return d
}

// logUndecided logs that the end of a lease reached no policy, which changes nothing for Blazar.
// The sidecar itself logs single rules that it did not reach.
func (h *Handler) logUndecided(id string, d authz.Decision) {
	if d.Effect == authz.Allow {
		return
	}
	h.config.Logger.Warn("no policy could be asked about the end of a lease; it ends all the same",
		"policy", string(h.config.Policy), "decision_id", id, "failure", string(d.Failure))
}
