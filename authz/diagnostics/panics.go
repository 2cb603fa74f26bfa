package diagnostics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// PanicSource says where a panic was caught. It is a metric label.
type PanicSource string

// The sources. Each has a counter, and a limit of lines in the log, of its own.
const (
	// PanicCheck: in a front of Envoy's, on the way to the policy or back.
	PanicCheck PanicSource = "check"
	// PanicReservation: in the front of reservations.
	PanicReservation PanicSource = "reservation"
	// PanicEvaluation: in a chain, live or in shadow.
	PanicEvaluation PanicSource = "evaluation"
	// PanicNotification: in a rule that was notified of the end of a reservation.
	PanicNotification PanicSource = "notification"
	// PanicCompilation: in the compiler.
	PanicCompilation PanicSource = "compilation"
	// PanicPreview: in comparing or recording.
	PanicPreview PanicSource = "preview"
	// PanicDecisionLog: in making an event of the decision log.
	PanicDecisionLog PanicSource = "decision_log"
	// PanicAPI: in a call of the admin or Policyfile API.
	PanicAPI PanicSource = "api"
)

var panicSources = []PanicSource{
	PanicCheck, PanicReservation, PanicEvaluation, PanicNotification, PanicCompilation, PanicPreview, PanicDecisionLog,
	PanicAPI,
}

const (
	// panicLines and panicEvery bound the panics of one source that are logged: a request
	// that causes one can be sent again and again.
	panicLines = 5
	panicEvery = time.Minute
	// panicDepth bounds the stack, in frames.
	panicDepth = 48
)

// Panics reports panics that were caught: each is a bug, of which there is no other
// trace. It counts them all and logs cause and stack, and of the request nothing. It is
// safe for concurrent use; a nil one reports nothing.
type Panics struct {
	count   metric.Int64Counter
	sources map[PanicSource]panicCounter
}

type panicCounter struct {
	log    *LimitedLog
	labels metric.MeasurementOption
}

// NewPanics returns a Panics for a process. Those of one meter provider count together.
// A nil logger logs nothing, and without meters nothing is counted.
func NewPanics(log *slog.Logger, meters metric.MeterProvider) (*Panics, error) {
	if meters == nil {
		meters = noop.NewMeterProvider()
	}
	count, err := meters.Meter("understudy/authz").Int64Counter("understudy.panics",
		metric.WithDescription("Panics that were caught, by source. Each is a bug."))
	if err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	p := &Panics{count: count, sources: make(map[PanicSource]panicCounter, len(panicSources))}
	for _, source := range panicSources {
		one := panicCounter{
			NewLimitedLog(log, panicLines, panicEvery), metric.WithAttributeSet(attribute.NewSet(attribute.String("place", string(source)))),
		}
		p.sources[source] = one
		count.Add(context.Background(), 0, one.labels) // an alert on a rise needs the zero
	}
	return p, nil
}

// Report reports what recover returned, which must not be nil. It is called by the
// deferred function itself, so that the stack is that of the panic. The attributes
// must not be the request's content.
func (p *Panics) Report(ctx context.Context, source PanicSource, cause any, about ...slog.Attr) {
	p.report(ctx, source, Catch(cause), about)
}

// ReportRehearsal reports a panic that the rehearsal process has caught, and answered. Its
// stack stayed there.
func (p *Panics) ReportRehearsal(ctx context.Context, about ...slog.Attr) {
	p.report(ctx, PanicEvaluation, &Caught{cause: "in the rehearsal process"}, about)
}

// ReportCompiler reports the panic that made a policy not compile, if err wraps one.
func (p *Panics) ReportCompiler(ctx context.Context, err error, about ...slog.Attr) {
	var caught *Caught
	if errors.As(err, &caught) {
		p.report(ctx, PanicCompilation, caught, about)
	}
}

func (p *Panics) report(ctx context.Context, source PanicSource, what *Caught, about []slog.Attr) {
	if p == nil {
		return
	}
	one := p.sources[source]
	p.count.Add(ctx, 1, one.labels)
	about = append(about, slog.String("place", string(source)), slog.String("cause", what.cause), slog.Any("stack", what.stack))
	one.log.Log(ctx, slog.LevelError, "a panic was caught; this is a bug: please report it with this line", about...)
}

// Caught is what is logged of a panic that was recovered. It is an error that quotes
// nothing of what was worked at.
type Caught struct {
	cause string
	// stack has function, file and line of each frame, innermost first. Arguments are
	// not in it, since they may be the request's.
	stack []string
}

// Catch looks at what recover returned. It is called by the deferred function itself, so
// that the stack is that of the panic.
func Catch(cause any) *Caught {
	if other, ok := cause.(*Rethrown); ok {
		return &Caught{describeCause(other.cause), append(other.stack, panicStack()...)}
	}
	return &Caught{describeCause(cause), panicStack()}
}

func (c *Caught) Error() string { return "a panic: " + c.cause }

// Rethrown is a panic of one goroutine that is raised again in another one, which waits
// for it, with the source where it was.
type Rethrown struct {
	cause any
	stack []string
}

// Rethrow returns what another goroutine is to panic with, of what recover returned. It
// is called by the deferred function itself.
func Rethrow(cause any) *Rethrown { return &Rethrown{cause, panicStack()} }

// String is what Go prints of a panic that nobody recovers.
func (r *Rethrown) String() string {
	return fmt.Sprintf("%v\n%s", r.cause, strings.Join(r.stack, "\n"))
}

// describeCause says what a panic was called with, as far as that is no content. The
// runtime's own errors name types, indices and lengths; any other text may quote what
// was being worked at: that of regexp.MustCompile has the pattern in it.
func describeCause(cause any) string {
	if err, ok := cause.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("a value of type %T, not shown because it may quote the request", cause)
}

// panicStack returns the frames of the panic that is being recovered.
func panicStack() []string {
	pcs := make([]uintptr, panicDepth)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	var out []string
	for {
		frame, more := frames.Next()
		out = append(out, fmt.Sprintf("%s %s:%d", frame.Function, frame.File, frame.Line))
		if !more {
			return out
		}
	}
}
