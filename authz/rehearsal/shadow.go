package rehearsal

import (
	"cmp"
	"context"
	"log/slog"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/trace"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/cache"
	"understudy/authz/diagnostics"
)

// Config is what a [Shadow] needs.
type Config struct {
	Limits Limits
	// Node is the sidecar whose requests are rehearsed.
	Node authz.Node
	// Recorder gets each comparison. Nil means that there are no records.
	Recorder *Recorder
	// Bodies bounds what reading requests again may cost.
	Bodies *authz.BodyMemory
	// Default is the decision on a check of Envoy's where there is no policy.
	Default authz.Verdict
	// Services calls external services.
	Services authz.Services
	Output   diagnostics.Output
}

// Limits bounds what previews may cost. The zero value has defaults.
type Limits struct {
	// Workers decide experiments at the same time. Zero means half the processors.
	Workers int
	// Queue is the number of requests that may wait for a worker; more are shed.
	// Zero means 4096.
	Queue int
	// QueueBytes bounds the memory of the requests that wait or are worked at, in bytes.
	// Zero means 64 MiB.
	QueueBytes int
	// Timeout bounds the evaluation of one experiment. Zero means a second.
	Timeout time.Duration
}

func (l Limits) withDefaults() Limits {
	l.Workers = cmp.Or(l.Workers, max(1, runtime.GOMAXPROCS(0)/2))
	l.Queue = cmp.Or(l.Queue, 4096)
	l.QueueBytes = cmp.Or(l.QueueBytes, 64<<20)
	l.Timeout = cmp.Or(l.Timeout, time.Second)
	return l
}

// Version is a compiled policy under the name and etag that records name it by: the live
// one, or that of an experiment. It is immutable.
type Version struct {
	// Name is the resource name of the policy or of the experiment.
	Name string
	Etag string
	// Policy is nil if it did not compile.
	Policy *cache.Policy
	// Source is the message that was compiled.
	Source *adminpb.Policy
}

// Experiment is an ACTIVE experiment of a live policy. It is safe for concurrent use.
type Experiment struct {
	Version
	// comparisons are those with one live policy.
	comparisons comparisons
}

// NewExperiment returns an experiment of a live policy. Another version of either needs
// another one.
func NewExperiment(v Version) *Experiment { return &Experiment{Version: v} }

// Shadow decides requests by experiments, off the request path, and records how that
// compares with the live decisions. What does not fit its pool is shed and counted;
// nothing of it reaches the request. It is safe for concurrent use.
type Shadow struct {
	config  Config
	metrics *metrics
	pool    *background.Pool[job]
}

// job is one request that its live policy has decided.
type job struct {
	trace       trace.SpanContext
	live        *Version
	experiments []*Experiment
	request     *authz.Request
	decision    authz.Decision
	// bytes is about the memory that the request holds.
	bytes int
}

// New returns a shadow that does nothing until Run: up to then requests wait. The error
// is that of the meters.
func New(config Config) (*Shadow, error) {
	config.Limits = config.Limits.withDefaults()
	metrics, err := newMetrics(config.Output.Meters)
	if err != nil {
		return nil, err
	}
	r := &Shadow{config: config, metrics: metrics}
	r.pool = background.NewPool(background.Jobs[job]{
		Workers: config.Limits.Workers, Queue: config.Limits.Queue, Bytes: config.Limits.QueueBytes,
		Size: func(j job) int { return j.bytes },
		Do:   r.rehearse,
		Shed: func(j job, why background.DropReason) { metrics.dropped(why, len(j.experiments)) },
	})
	return r, nil
}

// DropBodyMemory: there was no memory to read the body.
const DropBodyMemory background.DropReason = "body_memory"

// Offer hands over a request that the live policy has decided, to be decided by the
// experiments, which must not be modified. It never waits.
func (r *Shadow) Offer(ctx context.Context, live *Version, experiments []*Experiment, request *authz.Request, decision authz.Decision) {
	r.pool.Offer(job{trace.SpanContextFromContext(ctx), live, experiments, request, decision, request.Held()})
}

// Run works until ctx is done, then finishes what waits, for a bounded time. It is called
// once.
func (r *Shadow) Run(ctx context.Context) { r.pool.Run(ctx) }

// rehearse decides a request by each experiment and records how that compares.
func (r *Shadow) rehearse(ctx context.Context, y *background.Yielder, j job) {
	defer r.survive(ctx, j, len(j.experiments), j.live.Name)
	reading := r.config.Bodies.ReadOffPath(ctx, j.request)
	defer reading.End()
	ctx = trace.ContextWithRemoteSpanContext(ctx, j.request.SpanContext(j.trace))
	for _, experiment := range j.experiments {
		r.compare(ctx, j, experiment, reading)
		y.Yield()
	}
}

// survive is deferred: what panics costs some comparisons, not the process.
func (r *Shadow) survive(ctx context.Context, j job, comparisons int, of string) {
	if cause := recover(); cause != nil {
		r.metrics.dropped(background.DropPanic, comparisons)
		r.config.Output.Panics.Report(ctx, diagnostics.PanicPreview, cause, slog.String("of", of), slog.String("decision_id", j.request.ID))
	}
}

// compare decides by one experiment, and counts and records how that differs. What
// panics here costs this comparison alone.
func (r *Shadow) compare(ctx context.Context, j job, experiment *Experiment, reading *authz.Reading) {
	defer r.survive(ctx, j, 1, experiment.Name)
	decision := experiment.Policy.Decide(ctx, j.request, authz.Conditions{
		Name: experiment.Name, Shadow: true, Reading: reading, Timeout: r.config.Limits.Timeout,
		Default: r.config.Default, Services: r.config.Services, Panics: r.config.Output.Panics,
	})
	switch decision.Failure {
	case authz.FailureOverloaded:
		r.metrics.dropped(DropBodyMemory, 1)
		return
	case authz.FailureCanceled:
		// The context of the work ends when there is no more time at shutdown.
		r.metrics.dropped(background.DropShutdown, 1)
		return
	}
	c := experiment.comparisons.of(j.request, j.live, &experiment.Version, j.decision, decision)
	r.count(ctx, c)
	r.record(ctx, j.request, c)
}

// count counts a comparison. Every one comes by here exactly once, recorded or not:
// it is where the counters of an experiment's Report belong.
func (r *Shadow) count(ctx context.Context, c *comparison) {
	r.metrics.compared(ctx, c.difference, c.failure())
}
