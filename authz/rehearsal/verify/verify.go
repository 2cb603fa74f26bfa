package verify

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/wire"
)

// verifyEvery is how many decisions by shortcut there are, on average, for one that is
// decided again from the whole input. Which one it is is chance: a counter would meet
// the same ones again and again in traffic that repeats itself, and never the others.
const verifyEvery = 1024

// Config is what a [Verifier] needs.
type Config struct {
	// Live are the live policies in the rehearsal process.
	Live *decisionrequest.LivePolicies
	// Requests makes the messages for requests whose bytes are not known. Zero means a second for one.
	Requests decisionrequest.Maker
	// QueueBytes bounds the memory of the requests that wait to be verified, in bytes. Zero means 64 MiB.
	QueueBytes int
	Output     diagnostics.Output
}

// Verifier decides some live requests again, by OPA from the whole input, without a
// cache. If that gives another decision, or none, a shortcut is
// wrong: that is counted and logged, and the policy takes none any more. It is a check of
// ourselves that a test cannot replace, and nothing that a request has in it may prevent it:
// what does is counted by its reason. It is safe for concurrent use.
type Verifier struct {
	config Config
	// dice draws the decisions that are verified.
	dice func() uint64
	pool *background.Pool[verification]

	// timeout bounds a second decision.
	timeout time.Duration
	counts  *verifications
}

const (
	// verifyQueue is how many decisions may wait to be verified. With the next the oldest
	// one is not: who sends what takes long to verify keeps nothing else from being chosen.
	verifyQueue = 256
	// verifyTime bounds a second decision. It is much longer than a live one may take, and than
	// that of an experiment: it is made without any index, on a process of low priority, and
	// one that ends too early verifies nothing.
	verifyTime = 5 * time.Second
)

// verification is one live decision that is to be decided again.
type verification struct {
	live     *decisionrequest.Live
	request  *authz.Request
	decision authz.Decision
	// bytes is about the memory that the request holds.
	bytes int
}

// New returns a verifier that does nothing until Run. It has one worker. The error is
// that of the meters.
func New(config Config) (*Verifier, error) {
	config.Requests.Timeout = cmp.Or(config.Requests.Timeout, time.Second)
	v := &Verifier{config: config, dice: rand.Uint64, timeout: max(verifyTime, config.Requests.Timeout)}
	most := cmp.Or(config.QueueBytes, 64<<20)
	v.pool = background.NewPool(background.Jobs[verification]{
		Workers: 1, Queue: verifyQueue, Bytes: most, ShedOldest: true,
		// One always fits, however much its sender made of it.
		Size: func(j verification) int { return min(j.bytes, most) },
		Do:   v.verify,
		Shed: func(_ verification, why background.DropReason) { v.counts.add(verifyShed, verifyReason(why)) },
	})
	var err error
	v.counts, err = newVerifications(config.Output.Meters)
	return v, err
}

// Offer hands over a live decision; one in verifyEvery is verified, unless a second one
// may be another by right. It never waits.
func (v *Verifier) Offer(live *decisionrequest.Live, r *authz.Request, d authz.Decision) {
	if v.drawn() && verifiable(live, r, d) && v.config.Live.Available() {
		v.pool.Offer(verification{live, r, d, r.Held()})
	}
}

// drawn reports whether a decision is the one in so many that is decided again.
func (v *Verifier) drawn() bool { return v.dice()%verifyEvery == 0 }

// verifiable reports whether a second decision has to be the same. An evaluation that
// failed says nothing, for it may not fail again.
func verifiable(live *decisionrequest.Live, r *authz.Request, d authz.Decision) bool {
	return !d.Exempt() && r.Reservation == nil && d.Failure.Lasting() && live.Policy.Compiled().Unverified() == ""
}

// Run works until ctx is done, then finishes what waits, for a bounded time. It is called
// once.
func (v *Verifier) Run(ctx context.Context) {
	defer v.config.Live.Close()
	v.pool.Run(ctx)
}

// verify decides a request again.
func (v *Verifier) verify(ctx context.Context, _ *background.Yielder, j verification) {
	defer v.survive(j)
	again, err := v.again(ctx, j)
	if err == nil && again.Failure == authz.FailurePanic {
		v.config.Output.Panics.ReportRehearsal(context.Background(),
			slog.String("of", j.live.Name), slog.String("decision_id", j.request.ID))
	}
	outcome, reason := outcomeOf(again, err)
	v.counts.add(outcome, reason)
	if reason == reasonUndecided || outcome == verifyDone && !authz.SameDecision(j.decision, again) {
		j.live.Policy.Compiled().Distrust()
		v.counts.mismatches.Add(context.Background(), 1)
		v.logMismatch(ctx, j, again)
	}
}

// again returns the decision of the rehearsal process on the whole input.
func (v *Verifier) again(ctx context.Context, j verification) (authz.Decision, error) {
	candidate := v.config.Live.Of(j.live)
	asking := func() (wire.DecisionRequest, error) {
		if err := candidate.Compiled(); err != nil {
			return wire.DecisionRequest{}, err
		}
		return v.request(j)
	}
	ask := func(prepare func() (wire.DecisionRequest, bool), done func(authz.Decision, error)) error {
		return candidate.Decide(supervisor.DecisionRequest{Prepare: prepare, Done: done})
	}
	return await(ctx, asking, ask)
}

// await sends the rehearsal process a request and waits for the answer, until ctx is done.
func await[T any](
	ctx context.Context, asking func() (wire.DecisionRequest, error), ask func(prepare func() (wire.DecisionRequest, bool), done func(T, error)) error,
) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	answers := make(chan answer, 1)
	done := func(value T, err error) { answers <- answer{value, err} }
	prepare := func() (wire.DecisionRequest, bool) {
		q, err := asking()
		if err != nil {
			done(none, err)
		}
		return q, err == nil
	}
	if err := ask(prepare, done); err != nil {
		return none, err
	}
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// survive is deferred: what panics costs a verification, not the process.
func (v *Verifier) survive(j verification) {
	if cause := recover(); cause != nil {
		v.counts.add(verifyFailed, reasonPanic)
		v.report(cause, j)
	}
}

func (v *Verifier) report(cause any, j verification) {
	v.config.Output.Panics.Report(context.Background(), diagnostics.PanicPreview, cause,
		slog.String("of", j.live.Name), slog.String("decision_id", j.request.ID))
}

// The shortcuts that a mismatch is put down to.
const (
	// shortcutEvaluation: our evaluator is wrong.
	shortcutEvaluation = "evaluation"
	// shortcutCache: the rules are right today, so that the decision which was cached is
	// not: the evaluation that made it had asked too little.
	shortcutCache = "decision cache"
)

// logMismatch logs which rule decides otherwise by shortcut than from the whole input.
func (v *Verifier) logMismatch(ctx context.Context, j verification, again authz.Decision) {
	blamed, shortcut := v.blame(ctx, j), shortcutEvaluation
	if blamed.Rule == "" {
		shortcut = shortcutCache
	}
	v.config.Output.Logger.LogAttrs(ctx, slog.LevelError, "a decision is not the one that the whole input gives; the policy takes no "+
		"shortcuts any more; this is a bug: please report it with the rule",
		slog.String("policy", j.live.Name), slog.String("etag", j.live.Etag),
		slog.String("rule", blamed.Rule), slog.String("path", blamed.Path), slog.String("shortcut", shortcut),
		slog.String("decision_id", j.request.ID), slog.String("decided", j.decision.Result()),
		slog.String("decided_by", j.decision.Rule), slog.String("again", again.Result()), slog.String("again_by", again.Rule))
}

// blame asks the rehearsal process which rule it is. That is none if it does not say.
func (v *Verifier) blame(ctx context.Context, j verification) wire.Blamed {
	blamed, _ := await(ctx, func() (wire.DecisionRequest, error) { return v.request(j) }, v.config.Live.Of(j.live).Blame)
	return blamed
}
