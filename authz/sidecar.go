package authz

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/authz/diagnostics"
	"understudy/authz/extservice"
	"understudy/rego"
)

// Config is what a Sidecar needs. Feed, Location and Node are required; the zero
// value of every other field is a safe default.
type Config struct {
	// Feed delivers the policies.
	Feed Feed
	// Location is the set of sidecars that this one belongs to.
	Location Location
	// Policy decides the requests whose route chooses none.
	Policy PolicyID
	// Node is the ID of this sidecar, unique in its location.
	Node string
	// Observing says that nobody enforces the decisions: records, events of the decision
	// log, metrics and the node say so.
	Observing bool
	// Default is the decision on a check of Envoy's where there is no policy, or one
	// without rules. A reservation is allowed there.
	Default Verdict
	// DecisionTimeout bounds a live evaluation beside the deadline of the call.
	// Zero means no further bound.
	DecisionTimeout time.Duration
	// Preview bounds the shadow evaluations.
	Preview PreviewConfig
	// Recorder gets each comparison. Nil means that there are no records.
	Recorder *Recorder
	// Memory is the number of decisions that each policy remembers; an experiment
	// remembers a quarter of it. Zero means 65,536; a negative number means none.
	Memory int
	// BodyMemory bounds the memory that what is read of bodies takes at a time, in bytes;
	// beyond it a request whose body a policy reads is denied. Zero means 64 MiB.
	BodyMemory int64
	// External bounds the calls of external services.
	External extservice.Config
	// DecisionLog says whether and how live decisions are logged.
	DecisionLog DecisionLogConfig
	// SnapshotFile keeps the last policies, for a start without the store. Empty
	// means none.
	SnapshotFile string
	// Logger tells of changes and failures. Nil means nothing is logged.
	Logger *slog.Logger
	// Meters makes the metrics. Nil means none.
	Meters metric.MeterProvider
}

// PreviewConfig bounds what previews may cost.
type PreviewConfig struct {
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

func (c PreviewConfig) withDefaults() PreviewConfig {
	c.Workers = cmp.Or(c.Workers, max(1, runtime.GOMAXPROCS(0)/2))
	c.Queue = cmp.Or(c.Queue, 4096)
	c.QueueBytes = cmp.Or(c.QueueBytes, 64<<20)
	c.Timeout = cmp.Or(c.Timeout, time.Second)
	return c
}

// Sidecar decides requests by the policies of its location. It is safe for
// concurrent use. Run makes it follow the changes; without a snapshot it denies.
type Sidecar struct {
	config  Config
	log     *slog.Logger
	metrics *metrics
	panics  *diagnostics.Panics
	shadow  *shadow
	bodies  *bodyMemory
	// services calls the services that rules ask.
	services services
	// onNotifyFailed is notifyFailed, made once.
	onNotifyFailed func(ctx context.Context, r *Request, rule string, d Decision)
	// decisions is nil if the decision log is off.
	decisions *decisionLog
	started   time.Time

	// current is nil until the first snapshot.
	current atomic.Pointer[snapshot]
	ready   chan struct{}

	// dice draws the decisions that are verified.
	dice func() uint64

	// beat asks for a heartbeat at once.
	beat chan struct{}

	unknown *unknown
	// longs bounds the live evaluations that are long.
	longs longs

	mu sync.Mutex
	// reload ends the present wait for changes, so that everything is loaded again.
	reload context.CancelFunc
	// contact is when the store last answered, or when the snapshot file was written
	// that stands in for it.
	contact time.Time
	// lost is the store's last error, nil while it answers.
	lost error
}

// NewSidecar returns a Sidecar that decides nothing until Run has loaded it.
func NewSidecar(config Config) (*Sidecar, error) {
	if config.Feed == nil || config.Location == "" || config.Node == "" {
		return nil, errors.New("authz: Config.Feed, Location and Node are required")
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Meters == nil {
		config.Meters = noop.NewMeterProvider()
	}
	if config.Memory == 0 {
		config.Memory = defaultMemory
	}
	config.Preview = config.Preview.withDefaults()
	s := &Sidecar{
		config:  config,
		bodies:  &bodyMemory{limit: cmp.Or(config.BodyMemory, defaultBodyMemory)},
		log:     config.Logger,
		started: time.Now(),
		ready:   make(chan struct{}),
		beat:    make(chan struct{}, 1),
		unknown: newUnknown(),
		longs:   newLongs(),
		dice:    dice,
	}
	var err error
	if s.metrics, err = newMetrics(config.Meters, s); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	if s.panics, err = diagnostics.NewPanics(config.Logger, config.Meters); err != nil {
		return nil, err
	}
	if s.services.client, err = extservice.New(config.External, config.Meters, config.Logger); err != nil {
		return nil, fmt.Errorf("making the client of external services: %w", err)
	}
	s.onNotifyFailed = s.notifyFailed
	s.shadow = newShadow(config.Preview, s)
	if s.decisions, err = newDecisionLog(config, s.panics, s.bodies); err != nil {
		return nil, fmt.Errorf("making the decision log: %w", err)
	}
	return s, nil
}

// Run follows the location's policies until ctx is done; then it finishes the
// previews under way, takes its node out of the location and returns nil. It is
// called once.
func (s *Sidecar) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { s.follow(ctx) })
	running.Go(func() { s.heartbeats(ctx) })
	running.Go(func() { s.decisions.run(ctx) })
	s.shadow.run(ctx)
	running.Wait()
	s.services.client.Close()
	s.longs.close()
	return s.leave(context.WithoutCancel(ctx))
}

// leaveTimeout bounds the farewell to a store that may be gone itself.
const leaveTimeout = time.Second

func (s *Sidecar) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := s.config.Feed.Leave(ctx, s.nodeName()); err != nil {
		s.log.Warn("could not take this node out of its location", "node", s.nodeName(), "error", err)
	}
	return nil
}

// Check decides a request by the live policy, within one snapshot. If the policy
// has ACTIVE experiments, it is decided by them afterwards, in shadow; nothing of
// that delays the answer.
func (s *Sidecar) Check(ctx context.Context, r *Request) Decision {
	begin := time.Now()
	snap := s.current.Load()
	if snap == nil {
		d := failed(FailureNotReady, "No policy has been loaded yet.")
		s.metrics.checked(ctx, "", d, begin)
		s.decisions.offer(ctx, begin, decided{request: r, decision: d})
		return d
	}
	id := r.Policy
	if id == "" {
		id = s.config.Policy
	}
	name := s.config.Location.Policy(id)
	e := snap.policies[name]
	d := s.decideLive(ctx, e, r)
	if e == nil {
		if d.Default {
			d.Reason = noSuchPolicy(id)
		}
		s.tellUnknown(id, d.Verdict)
		s.metrics.checked(ctx, "", d, begin)
		s.decisions.offer(ctx, begin, decided{policy: name, request: r, decision: d})
		return d
	}
	s.metrics.checked(ctx, id, d, begin)
	s.decisions.offer(ctx, begin, decided{policy: name, entry: e, request: r, decision: d})
	if len(e.experiments) > 0 && d.Failure != FailureCanceled && d.Failure != FailureOverloaded {
		s.shadow.offer(ctx, e, r, d)
	}
	if s.dueForVerification(e, r, d) {
		s.shadow.pool.Offer(rehearsal{entry: e, request: r, live: d, verify: true, bytes: r.size()})
	}
	return d
}

func (s *Sidecar) decideLive(ctx context.Context, e *entry, r *Request) Decision {
	if e == nil {
		return s.decide(ctx, noPolicy, question{request: r}, 0)
	}
	if e.broken {
		return failed(FailureNotReady, "The policy could not be loaded.")
	}
	return s.decide(ctx, e.live.policy, question{request: r, name: e.live.name, lookups: e.lookups}, s.liveTimeout(e.live.policy, r))
}

// liveTimeout bounds a live evaluation. Who asks about a reservation waits for the
// external services too; Envoy does not.
func (s *Sidecar) liveTimeout(p *Policy, r *Request) time.Duration {
	timeout := s.config.DecisionTimeout
	if timeout > 0 && r.Reservation != nil && p != nil {
		timeout += time.Duration(p.services) * s.services.client.Timeout()
	}
	return timeout
}

// decide is the one way to decide, for the live policy and for experiments. A
// policy without rules is no policy (AIP-236: it previews a deletion). The timeout
// bounds an evaluation; zero means that ctx alone does.
func (s *Sidecar) decide(ctx context.Context, p *Policy, q question, timeout time.Duration) Decision {
	if d, ok := p.recall(q); ok {
		return d
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	q.services, q.notifyFailed, q.panics = s.services, s.onNotifyFailed, s.panics
	if !q.shadow {
		q.pace = newPace(ctx, s.longs)
		ctx = rego.WithPace(ctx, q.pace.next)
	}
	if q.reading == nil {
		q.reading = s.bodies.newReading(ctx, q.request)
		defer q.reading.end()
	}
	d := p.evaluate(ctx, q)
	if d.Default {
		d.Verdict = q.request.defaultVerdict(s.config.Default)
	}
	return d
}

// noPolicy is the compiled policy where there is none.
var noPolicy = &Policy{}

// Ready is closed once the first snapshot is there.
func (s *Sidecar) Ready() <-chan struct{} { return s.ready }

// Status is what a Sidecar says of itself.
type Status struct {
	// Ready says that there is a snapshot to decide by.
	Ready bool
	// Sequence is that of the last change that the snapshot has.
	Sequence int64
	// Policies is the number of policies in the snapshot.
	Policies int
	// Contact is when the store last answered; if it never did, when the snapshot file
	// in use was written, which is never later; zero if there is neither.
	Contact time.Time
	// Lost is why the store does not answer; nil while it does.
	Lost error
	// NotApplied are the resources that could not be applied, those of the latest changes
	// first. A policy among them is decided by its last good version; without one it denies.
	NotApplied []string
	// Missing are the policies that decide here although the store has lost them, in
	// order.
	Missing []PolicyName
	// Absent is the policy that decides where a request names none, if there is no such
	// policy: then these requests get the default decision. It is empty otherwise.
	Absent PolicyID
}

// Status returns the present state.
func (s *Sidecar) Status() Status {
	s.mu.Lock()
	out := Status{Contact: s.contact, Lost: s.lost}
	s.mu.Unlock()
	if snap := s.current.Load(); snap != nil {
		out.Ready, out.Sequence, out.Policies = true, snap.cursor.Sequence, len(snap.policies)
		out.Missing = snap.missing()
		if id := s.config.Policy; id != "" && snap.policies[s.config.Location.Policy(id)] == nil {
			out.Absent = id
		}
		for _, r := range snap.refused() {
			out.NotApplied = append(out.NotApplied, r.resource)
		}
	}
	return out
}

func (s *Sidecar) nodeName() string { return string(s.config.Location) + "/nodes/" + s.config.Node }

// reached notes whether the store answered, and tells when that changes.
func (s *Sidecar) reached(err error) { s.tellReached(s.noteReached(err), err) }

// noteReached notes whether the store answered. It returns what it was before.
func (s *Sidecar) noteReached(err error) (before error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.lost = s.lost, err
	if err == nil {
		s.contact = time.Now()
	}
	return before
}

// tellReached tells of a change.
func (s *Sidecar) tellReached(before, err error) {
	switch {
	case err != nil && (before == nil || errors.Is(before, errNoAnswer) && !errors.Is(err, errNoAnswer)):
		s.log.Warn("the store does not answer"+s.meanwhile(), "error", err)
	case err == nil && before != nil:
		s.log.Info("the store answers again")
	}
}

// meanwhile says how requests are decided without the store.
func (s *Sidecar) meanwhile() string {
	if s.current.Load() == nil {
		return ", and there are no policies yet: every request is denied"
	}
	return "; deciding by the last policies"
}

// startTime is the create_time of the node.
func (s *Sidecar) startTime() *timestamppb.Timestamp { return timestamppb.New(s.started) }
