package sidecar

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"understudy/authz"
	"understudy/authz/decisionlog"
	"understudy/authz/diagnostics"
	"understudy/authz/evidence"
	"understudy/authz/evidence/publisher"
	"understudy/authz/extservice"
	"understudy/authz/rehearsal"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/verify"
)

// Sidecar decides requests by the policies of its location. It is safe for
// concurrent use. Run makes it follow the changes; without a snapshot it denies.
type Sidecar struct {
	config  Config
	log     *slog.Logger
	metrics *metrics
	panics  *diagnostics.Panics
	// verifier works off the request path.
	verifier *verify.Verifier
	// decisions is nil if the decision log is off.
	decisions       *decisionlog.Log
	missingPolicies *missingPolicyLog

	// current is nil until the first snapshot. It is set while applying is held.
	current  atomic.Pointer[snapshot]
	applying sync.Mutex
	ready    chan struct{}
	// unknown are the costs of decisions where there is no policy, or no snapshot.
	unknown costs

	evaluation
	previews
	nodeReporter
	store contact
}

// New returns a Sidecar that decides nothing until Run has loaded it.
func New(config Config) (*Sidecar, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Sidecar{
		config:          config,
		log:             config.Logger,
		ready:           make(chan struct{}),
		missingPolicies: newMissingPolicyLog(),
		evaluation:      evaluation{bodies: authz.NewBodyMemory(config.BodyMemory), turns: newTurns(runtime.GOMAXPROCS(0))},
		nodeReporter:    nodeReporter{started: time.Now(), beat: make(chan struct{}, 1)},
	}
	s.previews = previews{ledger: evidence.NewLedger(s.started)}
	s.publisher = &publisher.Publisher{Feed: config.Feed, Node: s.nodeName(), Ledger: s.ledger, Intervals: &s.intervals, Logger: s.log}
	if s.metrics, err = newMetrics(config.Meters, s); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	if s.panics, err = diagnostics.NewPanics(config.Logger, config.Meters); err != nil {
		return nil, err
	}
	if s.services.client, err = extservice.New(config.External, config.Meters, config.Logger); err != nil {
		return nil, fmt.Errorf("making the client of external services: %w", err)
	}
	if s.memory, err = newMemoryGuard(config.Logger, config.Meters); err != nil {
		return nil, err
	}
	s.conditions = authz.Conditions{
		Default: config.Default, Bodies: s.bodies, Services: s.services, NotifyFailed: s.notifyFailed, Panics: s.panics,
	}
	return s, s.prepare()
}

// prepare makes what works off the request path.
func (s *Sidecar) prepare() (err error) {
	c := s.config
	output := diagnostics.Output{Logger: c.Logger, Meters: c.Meters, Panics: s.panics}
	live := decisionrequest.NewLivePolicies(c.Rehearsal, c.Preview.ExaminationBytes())
	config := rehearsal.Config{
		Process: c.Rehearsal, Live: live, Limits: c.Preview, Node: c.node(), Recorder: c.Recorder, Bodies: s.bodies, Default: c.Default, Services: s.services, Output: output,
	}
	if s.decisions, err = decisionlog.New(c.DecisionLog, c.node(), s.bodies, output); err != nil {
		return fmt.Errorf("making the decision log: %w", err)
	}
	if s.decisions.Samples() {
		config.Differing = s.logDiffering
	}
	if s.shadow, err = rehearsal.New(config); err != nil {
		return fmt.Errorf("making the shadow: %w", err)
	}
	verifying := verify.Config{
		Live: live, Requests: decisionrequest.Maker{Timeout: c.Preview.Timeout, Bodies: s.bodies}, QueueBytes: c.Preview.QueueBytes, Output: output,
	}
	if s.verifier, err = verify.New(verifying); err != nil {
		return fmt.Errorf("making the verifier: %w", err)
	}
	return nil
}

// logDiffering has the decision log, which is a sample, take a decision that it may have left out.
func (s *Sidecar) logDiffering(span trace.SpanContext, live *decisionrequest.Live, r *authz.Request, d authz.Decision) {
	s.decisions.Differing(span, decisionlog.Decided{
		Policy: authz.PolicyName(live.Name), Etag: live.Etag, Compiled: live.Policy.Compiled(), Request: r, Decision: d,
	})
}

// Run follows the location's policies until ctx is done; then it finishes the
// previews under way, publishes what they came to, takes its node out of the location and
// returns nil. It is called once.
func (s *Sidecar) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { s.follow(ctx) })
	running.Go(func() { s.heartbeats(ctx) })
	running.Go(func() { s.decisions.Run(ctx) })
	running.Go(func() { s.verifier.Run(ctx) })
	running.Go(func() { s.publisher.Run(ctx) })
	s.shadow.Run(ctx)
	running.Wait()
	s.candidates.closeExcept(nil)
	s.compiling.Wait()
	s.services.client.Close()
	s.turns.close()
	s.finish(context.WithoutCancel(ctx))
	return s.leave(context.WithoutCancel(ctx))
}

// Ready is closed once the first snapshot is there.
func (s *Sidecar) Ready() <-chan struct{} { return s.ready }

// finishTimeout and leaveTimeout bound the farewell to a store that may be gone itself.
const (
	finishTimeout = 2 * time.Second
	leaveTimeout  = time.Second
)

// finish publishes what was counted last, and keeps the watermark.
func (s *Sidecar) finish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	s.publisher.Finish(ctx)
	s.saveWatermark(ctx)
}

func (s *Sidecar) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := s.config.Feed.Leave(ctx, s.nodeName()); err != nil {
		s.log.Warn("could not take this node out of its location", "node", s.nodeName(), "error", err)
	}
	return nil
}
