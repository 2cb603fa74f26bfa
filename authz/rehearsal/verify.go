package rehearsal

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
)

// verifyEvery is how many decisions by shortcut there are, on average, for one that is
// decided again from the whole input. Which one it is is chance: a counter would meet
// the same ones again and again in traffic that repeats itself, and never the others.
const verifyEvery = 1024

// Verifier decides some live requests again, from the whole input, without a cache, a
// projection or an index of the data. If that gives another decision, a shortcut is wrong:
// that is counted and logged, and the policy takes none any more. It is a check of
// ourselves that a test cannot replace. It is safe for concurrent use.
type Verifier struct {
	config Config
	// dice draws the decisions that are verified.
	dice func() uint64
	pool *background.Pool[verification]

	// verifications counts the decisions that were to be decided again; mismatches those
	// that were not the same.
	verifications, mismatches metric.Int64Counter
	options                   diagnostics.Options
}

// verification is one live decision that is to be decided again.
type verification struct {
	live     *Version
	request  *authz.Request
	decision authz.Decision
	// bytes is about the memory that the request holds.
	bytes int
}

// verified says what became of a decision that was to be decided again. It is a metric
// label.
type verified string

const (
	// verifyDone: both decisions are there and were compared.
	verifyDone verified = "done"
	// verifyShed: there was no room for it off the request path.
	verifyShed verified = "shed"
	// verifyFailed: the second decision could not be made, which says nothing about the
	// first.
	verifyFailed verified = "failed"
)

func (v verified) Attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("outcome", string(v))}
}

// NewVerifier returns a verifier that does nothing until Run. Of the limits, a verification
// has the timeout of an experiment, and one worker. The error is that of the meters.
func NewVerifier(config Config) (*Verifier, error) {
	config.Limits = config.Limits.withDefaults()
	v := &Verifier{config: config, dice: rand.Uint64}
	v.pool = background.NewPool(background.Jobs[verification]{
		Workers: 1, Queue: config.Limits.Queue, Bytes: config.Limits.QueueBytes,
		Size: func(j verification) int { return j.bytes },
		Do:   v.verify,
		Shed: func(verification, background.DropReason) { v.count(verifyShed) },
	})
	return v, v.measure(config.Output.Meters)
}

// measure makes the counters, visible from the beginning.
func (v *Verifier) measure(provider metric.MeterProvider) error {
	meter := provider.Meter("understudy/authz")
	var errs [2]error
	v.mismatches, errs[0] = meter.Int64Counter("understudy.verification.mismatches",
		metric.WithDescription("Decisions by shortcut that the whole input does not give. Any is a bug."))
	v.verifications, errs[1] = meter.Int64Counter("understudy.verifications",
		metric.WithDescription("Live decisions that were to be decided again from the whole input, by outcome: done, shed or failed."))
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	for _, outcome := range []verified{verifyDone, verifyShed, verifyFailed} {
		v.verifications.Add(context.Background(), 0, diagnostics.Option(&v.options, outcome))
	}
	v.mismatches.Add(context.Background(), 0)
	return nil
}

func (v *Verifier) count(outcome verified) {
	v.verifications.Add(context.Background(), 1, diagnostics.Option(&v.options, outcome))
}

// Offer hands over a live decision; one in verifyEvery is verified, unless a second one
// may be another by right. It never waits.
func (v *Verifier) Offer(live *Version, r *authz.Request, d authz.Decision) {
	if v.drawn() && verifiable(live, r, d) {
		v.pool.Offer(verification{live, r, d, r.Held()})
	}
}

// drawn reports whether a decision is the one in so many that is decided again.
func (v *Verifier) drawn() bool { return v.dice()%verifyEvery == 0 }

// verifiable reports whether a second decision has to be the same. An evaluation that
// failed says nothing, for it may not fail again.
func verifiable(live *Version, r *authz.Request, d authz.Decision) bool {
	return !d.Exempt() && r.Reservation == nil && d.Failure.Lasting() && live.Policy.Compiled().Unverified() == ""
}

// Run works until ctx is done, then finishes what waits, for a bounded time. It is called
// once.
func (v *Verifier) Run(ctx context.Context) { v.pool.Run(ctx) }

// verify decides a request again, in the time that an experiment has.
func (v *Verifier) verify(ctx context.Context, _ *background.Yielder, j verification) {
	defer v.survive(ctx, j)
	reading := v.config.Bodies.ReadOffPath(ctx, j.request)
	defer reading.End()
	ctx, cancel := context.WithTimeout(ctx, v.config.Limits.Timeout)
	defer cancel()
	p := j.live.Policy.Compiled()
	conditions := authz.Conditions{
		Name: j.live.Name, Shadow: true, Plain: true, Reading: reading, Default: v.config.Default, Panics: v.config.Output.Panics,
	}
	again := p.Decide(ctx, j.request, conditions)
	if !again.Failure.Lasting() {
		v.count(verifyFailed)
		return
	}
	v.count(verifyDone)
	if authz.SameDecision(j.decision, again) {
		return
	}
	p.Distrust()
	v.mismatches.Add(context.Background(), 1)
	v.logMismatch(ctx, j, again, conditions)
}

// survive is deferred: what panics costs a verification, not the process.
func (v *Verifier) survive(ctx context.Context, j verification) {
	if cause := recover(); cause != nil {
		v.count(verifyFailed)
		v.config.Output.Panics.Report(ctx, diagnostics.PanicPreview, cause,
			slog.String("of", j.live.Name), slog.String("decision_id", j.request.ID))
	}
}

// The shortcuts that a mismatch is put down to.
const (
	// shortcutEvaluation: what the rule reads, or the index of a loop, is wrong.
	shortcutEvaluation = "evaluation"
	// shortcutCache: the rules are right today, so that the decision which was cached is
	// not: its key has too little in it, or it was kept for too long.
	shortcutCache = "decision cache"
)

// logMismatch logs which rule decides otherwise by shortcut than from the whole input.
func (v *Verifier) logMismatch(ctx context.Context, j verification, again authz.Decision, c authz.Conditions) {
	rule, path, found := j.live.Policy.Compiled().Mismatch(ctx, j.request, c)
	shortcut := shortcutEvaluation
	if !found {
		shortcut = shortcutCache
	}
	v.config.Output.Logger.LogAttrs(ctx, slog.LevelError, "a decision is not the one that the whole input gives; the policy takes no "+
		"shortcuts any more; this is a bug: please report it with the rule",
		slog.String("policy", j.live.Name), slog.String("etag", j.live.Etag),
		slog.String("rule", rule), slog.String("path", path), slog.String("shortcut", shortcut),
		slog.String("decision_id", j.request.ID), slog.String("decided", j.decision.Result()),
		slog.String("decided_by", j.decision.Rule), slog.String("again", again.Result()), slog.String("again_by", again.Rule))
}
