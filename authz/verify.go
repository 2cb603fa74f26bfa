package authz

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"reflect"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// verifyEvery is how many decisions by shortcut there are, on average, for one that is
// decided again from the whole input. Which one it is is chance: a counter would meet
// the same ones again and again in traffic that repeats itself, and never the others.
const verifyEvery = 1024

// verification says what became of a decision that was to be decided again. It is a
// metric label.
type verification string

const (
	// verifyDone: both decisions are there and were compared.
	verifyDone verification = "done"
	// verifyShed: there was no room for it beside the traffic.
	verifyShed verification = "shed"
	// verifyFailed: the second decision could not be made, which says nothing about the
	// first.
	verifyFailed verification = "failed"
)

func (v verification) Attributes() []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String("outcome", string(v))}
}

// verify decides a request again, beside the traffic, from its whole input, with
// nothing remembered and nothing of the data indexed, in the time that an experiment
// has. If that is another decision, a shortcut is wrong: that is counted and logged, and
// the policy takes none any more. It is a check of ourselves that a test cannot replace.
// An evaluation that failed says nothing, for it may not fail again.
func (s *shadow) verify(ctx context.Context, job rehearsal, reading *Reading) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	p := job.entry.live.policy
	q := question{
		request: job.request, name: job.entry.live.name, input: job.request.Input, reading: reading, shadow: true, plain: true, panics: s.owner.panics,
	}
	again := p.run(ctx, q)
	if !lasting(again.Failure) {
		s.owner.metrics.verified(verifyFailed)
		return
	}
	s.owner.metrics.verified(verifyDone)
	if sameDecision(job.live, again) {
		return
	}
	p.distrusted.Store(true)
	s.owner.metrics.mismatched()
	rule, path, shortcut := s.blame(ctx, p, q)
	s.owner.log.LogAttrs(ctx, slog.LevelError, "a decision is not the one that the whole input gives; the policy takes no "+
		"shortcuts any more; this is a bug: please report it with the rule",
		slog.String("policy", string(job.entry.name)), slog.String("etag", job.entry.live.etag),
		slog.String("rule", rule), slog.String("path", path), slog.String("shortcut", shortcut),
		slog.String("decision_id", job.request.ID), slog.String("decided", job.live.Result()),
		slog.String("decided_by", job.live.Rule), slog.String("again", again.Result()), slog.String("again_by", again.Rule))
}

// The shortcuts that a mismatch is put down to.
const (
	// shortcutEvaluation: what the rule reads, or the index of a loop, is wrong.
	shortcutEvaluation = "evaluation"
	// shortcutCache: the rules are right today, so that the decision which was cached is
	// not: its key has too little in it, or it was kept for too long.
	shortcutCache = "decision cache"
)

// blame finds the rule that decides otherwise by shortcut than from the whole input, with
// its Rego path. If there is none, the decision cache is wrong.
func (s *shadow) blame(ctx context.Context, p *Policy, plain question) (rule, path, shortcut string) {
	quick := plain
	quick.plain = false
	if projection := plain.request.project(p.reads); projection != nil {
		quick.input = projection.document
	}
	for _, r := range p.rules {
		if sameDecision(r.filter.check(ctx, quick), r.filter.check(ctx, plain)) {
			continue
		}
		if f, ok := r.filter.(regoFilter); ok {
			path = f.path
		}
		return r.id, path, shortcutEvaluation
	}
	return "", "", shortcutCache
}

// sameDecision compares all that a client, an upstream and a record can tell.
func sameDecision(a, b Decision) bool {
	return a.Failure == b.Failure && a.Verdict == b.Verdict && a.Rule == b.Rule && a.Reason == b.Reason &&
		a.Plain == b.Plain && sameAnswer(a, b) && reflect.DeepEqual(a.Metadata, b.Metadata)
}

// dueForVerification reports whether a decision is the one in so many that is decided
// again.
func (s *Sidecar) dueForVerification(e *entry, r *Request, d Decision) bool {
	if d.exempt || r.Reservation != nil || !lasting(d.Failure) || e.live.policy.unverified() != "" {
		return false
	}
	return s.dice()%verifyEvery == 0
}

// unverified returns why no decision of a policy is ever decided again; empty if some
// are. It is a metric label.
func (p *Policy) unverified() string {
	switch {
	case p.NoOp():
		return "no_rules"
	case p.services > 0:
		return "external_service"
	case !p.deterministic:
		return "not_deterministic"
	case p.distrusted.Load():
		return "mismatch"
	}
	return ""
}

// dice is what verification is drawn by.
func dice() uint64 { return rand.Uint64() }

// observeUnverified registers the gauge of the policies that are never verified.
func observeUnverified(meter metric.Meter, s *Sidecar) error {
	gauge, err := meter.Int64ObservableGauge("understudy.verification.excluded",
		metric.WithDescription("1 for each live policy whose decisions are never verified, by policy and reason: external_service and "+
			"not_deterministic (a second decision may be another by right), mismatch (no shortcuts are taken any more), no_rules."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		snap := s.current.Load()
		if snap == nil {
			return nil
		}
		for name, e := range snap.policies {
			if why := e.live.policy.unverified(); why != "" {
				o.ObserveInt64(gauge, 1, metric.WithAttributes(attribute.String("policy", string(name.id())), attribute.String("reason", why)))
			}
		}
		return nil
	}, gauge)
	return err
}
