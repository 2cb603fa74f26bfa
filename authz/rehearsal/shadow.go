package rehearsal

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
	"understudy/authz/evidence"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/examine"
	"understudy/authz/rehearsal/supervisor"
)

// Config is what a [Shadow] needs.
type Config struct {
	Limits Limits
	// Process evaluates experiments. If it is nil, none is.
	Process *supervisor.Supervisor
	// Live are the live policies in it, which may be shared. Nil means that the Shadow has its own.
	Live *decisionrequest.LivePolicies
	// Node is the sidecar whose requests are rehearsed.
	Node authz.Node
	// Differing is called once for each request on which an experiment decides otherwise than
	// the live policy, with the span of its check: off the request path, by several goroutines.
	// Nil is called never.
	Differing func(trace.SpanContext, *decisionrequest.Live, *authz.Request, authz.Decision)
	// Recorder gets each comparison. Nil means that there are no records.
	Recorder *Recorder
	// Bodies bounds what reading requests again may cost.
	Bodies *authz.BodyMemory
	// Default is the decision on a check of Envoy's where there is no policy.
	Default authz.Effect
	// Services calls external services.
	Services authz.Services
	Output   diagnostics.Output
}

// Limits bounds what previews may cost. The zero value has defaults.
type Limits struct {
	// Queue is the number of requests that may wait for one experiment; from half of it on, chance draws
	// those that are compared. Zero means 4096.
	Queue int
	// QueueBytes bounds the memory of the requests that wait or are worked at, in bytes; one
	// experiment may hold half of it. Those that wait to be examined may hold another eighth. Zero means
	// 64 MiB.
	QueueBytes int
	// Timeout bounds the evaluation of one experiment. Zero means a second.
	Timeout time.Duration
	// Drain bounds how long requests that wait at the end are still handed over, and then how long the end
	// waits for comparisons that are under way. Zero means [background.DefaultDrain].
	Drain time.Duration
}

func (l Limits) withDefaults() Limits {
	l.Queue = cmp.Or(l.Queue, 4096)
	l.QueueBytes = cmp.Or(l.QueueBytes, 64<<20)
	l.Timeout = cmp.Or(l.Timeout, time.Second)
	l.Drain = cmp.Or(l.Drain, background.DefaultDrain)
	return l
}

// ExaminationBytes is how much memory the requests may hold that wait to be examined, in bytes.
func (l Limits) ExaminationBytes() int { return l.withDefaults().QueueBytes / 8 }

// Experiment is an ACTIVE experiment of a live policy. It is safe for concurrent use.
type Experiment struct {
	// Name is the resource name of the experiment.
	Name      string
	Etag      string
	Candidate *Candidate
	// Evidence counts the comparisons, with the tallies of other versions of the live policy.
	// Nil means that there is none. It is set before the first use.
	Evidence *evidence.Tally
	// comparisons are those with one live policy.
	comparisons comparisons
	// waiting is how many requests wait to be compared, and standing how many these stand for.
	waiting, standing atomic.Int64
	pair              examine.Pair
	sampled           examine.Sampled
}

// NewExperiment returns the experiment of a candidate, with the etag of its content, for one live policy. Another
// version of either needs another one.
func NewExperiment(c *Candidate, etag string) *Experiment {
	e := &Experiment{Name: c.name, Etag: etag, Candidate: c}
	e.pair.Changed = func() {
		if e.Evidence != nil {
			e.Evidence.MarkChanged()
		}
	}
	return e
}

// Shadow decides requests by experiments, off the request path, and records how that
// compares with the live decisions. The rehearsal process decides; here decisions are
// compared. What does not fit is dropped and counted; nothing of
// it reaches the request. It is safe for concurrent use.
type Shadow struct {
	config  Config
	metrics *metrics
	pool    *background.Pool[job]
	// work ends when there is no more time at shutdown.
	work    context.Context
	endWork context.CancelFunc
	// underWay are the comparisons that the rehearsal process has been asked for.
	underWay sync.WaitGroup
	// bytes is the memory of the requests that they are about.
	bytes atomic.Int64
	// requests makes what is asked, and examiner asks for more than decisions.
	requests decisionrequest.Maker
	examiner *examine.Examiner
	// dice draws the requests that are compared when not all can be.
	dice func() uint64
}

// job is one request that its live policy has decided.
type job struct {
	// ctx has the span of the request, if records are written; it is set by the worker.
	ctx         context.Context
	trace       trace.SpanContext
	live        *decisionrequest.Live
	experiments []*Experiment
	request     *authz.Request
	decision    authz.Decision
	// bytes is about the memory that the request holds.
	bytes int
	// pattern is that of the request, by patterns; nil if nothing is counted.
	pattern  *evidence.Pattern
	patterns *evidence.Patterns
	// differs says that Config.Differing was called; nil if there is no need to.
	differs *atomic.Bool
	lot
	// counted says that the comparison was made, and weight for how many it stands; they are set in a copy for one
	// experiment.
	counted bool
	weight  int64
	// held is the part of a job that waits for the rehearsal process; nil while none does.
	held *held
}

// lot is what chance has drawn for a request.
type lot struct {
	// drawn is when, and draw the number by which each experiment decides whether the request is among those
	// that are compared: no sender can foresee it.
	drawn time.Time
	draw  uint64
}

// held is a request that waits for the rehearsal process.
type held struct {
	shadow *Shadow
	bytes  int64
	// waiting is how many experiments it waits for.
	waiting atomic.Int32
}

// handedOver is how many requests may wait to be handed to the experiments, which takes
// microseconds.
const handedOver = 4096

// New returns a shadow that does nothing until Run: up to then requests wait. The error
// is that of the meters.
func New(config Config) (*Shadow, error) {
	config.Limits = config.Limits.withDefaults()
	if config.Live == nil {
		config.Live = decisionrequest.NewLivePolicies(config.Process, config.Limits.ExaminationBytes())
	}
	s := &Shadow{config: config, dice: rand.Uint64, requests: decisionrequest.Maker{Timeout: config.Limits.Timeout, Bodies: config.Bodies}}
	var err error
	if s.metrics, err = newMetrics(config.Output.Meters); err != nil {
		return nil, err
	}
	if s.examiner, err = examine.New(examine.Config{Live: config.Live, Requests: s.requests, Output: config.Output}); err != nil {
		return nil, err
	}
	s.work, s.endWork = context.WithCancel(context.Background())
	s.pool = background.NewPool(background.Jobs[job]{
		Workers: 1, Queue: handedOver, Bytes: config.Limits.QueueBytes, Drain: config.Limits.Drain,
		Size: func(j job) int { return j.bytes },
		Do:   s.rehearse,
		Shed: func(j job, why background.DropReason) {
			for _, e := range j.experiments {
				j.drop(e, why)
			}
		},
	})
	return s, nil
}

// Offer hands over a request that the live policy has decided, to be decided by the
// experiments, which must not be modified. It never waits.
func (s *Shadow) Offer(ctx context.Context, live *decisionrequest.Live, experiments []*Experiment, request *authz.Request, decision authz.Decision) {
	j := job{
		trace: trace.SpanContextFromContext(ctx), live: live, experiments: experiments, request: request, decision: decision,
		bytes: request.Held(),
	}
	if s.config.Differing != nil {
		j.differs = new(atomic.Bool)
	}
	s.pool.Offer(j)
}

// report calls Config.Differing if the comparison is the first of its request that differs.
func (j *job) report(config *Config, c *comparison) {
	if c.difference != authz.Unchanged && j.differs != nil && j.differs.CompareAndSwap(false, true) {
		config.Differing(j.trace, j.live, j.request, j.decision)
	}
}

// Run works until ctx is done, then finishes what waits, for a bounded time. It is called
// once.
func (s *Shadow) Run(ctx context.Context) {
	defer s.endWork()
	defer s.config.Live.Close()
	s.pool.Run(ctx)
	s.examiner.End()
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.underWay.Wait()
		s.examiner.Wait()
	}()
	timer := time.NewTimer(s.config.Limits.Drain)
	defer timer.Stop()
	select {
	case <-finished:
	case <-timer.C:
	}
}

// rehearse compares the decisions of experiments that are known, and has the rehearsal
// process make the others.
func (s *Shadow) rehearse(_ context.Context, y *background.Yielder, j job) {
	begun := 0
	defer func() {
		if cause := recover(); cause != nil {
			for _, e := range j.experiments[begun:] {
				j.drop(e, background.DropPanic)
			}
			s.config.Output.Panics.Report(context.Background(), diagnostics.PanicPreview, cause,
				slog.String("of", j.live.Name), slog.String("decision_id", j.request.ID))
		}
	}()
	j.fold()
	j.ctx = context.Background()
	if s.config.Recorder.writes() { // it takes a while to find the span of a request
		j.ctx = trace.ContextWithRemoteSpanContext(j.ctx, j.request.SpanContext(j.trace))
	}
	j.drawn, j.draw = time.Now(), s.dice()
	for _, e := range j.experiments {
		begun++
		s.one(&j, e)
		y.Yield()
	}
	if len(j.experiments) > 0 {
		s.sample(&j)
	}
}

// one makes one comparison, now or later. What panics here costs this comparison alone.
func (s *Shadow) one(j *job, e *Experiment) {
	if d, ok := e.Candidate.find(j.ctx, j.request, s.config.Default); ok {
		known := pendingComparison{shadow: s, job: *j, experiment: e}
		known.know(d)
		return
	}
	weight, drawn := e.Candidate.coin.toss(j.drawn, j.draw, func() float64 { return s.filled(e.Candidate) })
	if !drawn {
		j.drop(e, DropSampled)
		return
	}
	if j.held == nil {
		j.held = &held{shadow: s, bytes: int64(j.bytes)}
	}
	c := &pendingComparison{shadow: s, job: *j, experiment: e}
	if c.job.weight = weight; !j.take(e, int64(s.config.Limits.QueueBytes)) {
		c.drop(background.DropQueueBytes)
		return
	}
	s.underWay.Add(1)
	e.waiting.Add(1)
	e.standing.Add(weight)
	c.ask()
}

// know makes a comparison with a decision that is known.
func (c *pendingComparison) know(d authz.Decision) {
	defer c.survive()
	if c.experiment.Candidate.closed.Load() {
		c.drop(DropChanged)
		return
	}
	c.compare(d)
}

// take holds the request for an experiment, if there is room: limit is for all requests,
// and an experiment gets half of it.
func (j job) take(e *Experiment, limit int64) bool {
	h := j.held
	if e.Candidate.bytes.Add(h.bytes) > limit/2 {
		e.Candidate.bytes.Add(-h.bytes)
		return false
	}
	if h.waiting.Add(1) == 1 && h.shadow.bytes.Add(h.bytes) > limit {
		j.give(e)
		return false
	}
	return true
}

// give gives back what take took.
func (j job) give(e *Experiment) {
	e.Candidate.bytes.Add(-j.held.bytes)
	if j.held.waiting.Add(-1) == 0 {
		j.held.shadow.bytes.Add(-j.held.bytes)
	}
}

// finish is called when an experiment need not be waited for any more.
func (j job) finish(e *Experiment) {
	j.give(e)
	e.waiting.Add(-1)
	e.standing.Add(-j.weight)
	j.held.shadow.underWay.Done()
}
