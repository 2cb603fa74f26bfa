package sidecar

import (
	"context"
	"time"

	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/decisionlog"
)

// evaluation is what live evaluations share.
type evaluation struct {
	bodies *authz.BodyMemory
	// services calls the services that rules ask.
	services services
	// conditions are those of a live decision, but for its name, its timeout and its turn.
	conditions authz.Conditions
	// turns say which live evaluations go on, and memory ends those that take too much of it.
	turns  *turns
	memory *memoryGuard
}

// Check decides a request by the live policy, within one snapshot. If the policy
// has ACTIVE experiments, it is decided by them afterwards, in shadow; nothing of
// that delays the answer.
func (s *Sidecar) Check(ctx context.Context, r *authz.Request) authz.Decision {
	begin := time.Now()
	snap := s.current.Load()
	if snap == nil {
		d := authz.Failed(authz.FailureNotReady, "No policy has been loaded yet.")
		s.unknown.add(pathNotReady, s.metrics.checked(ctx, "", d, begin))
		s.decisions.Offer(ctx, begin, decisionlog.Decided{Request: r, Decision: d})
		return d
	}
	id := r.Policy
	if id == "" {
		id = s.config.Policy
	}
	name := s.config.Location.Policy(id)
	e := snap.policies[name]
	d, by := s.decide(ctx, e, r)
	if e == nil {
		if d.Default {
			d.Reason = noSuchPolicy(id)
		}
		if !s.config.Policies.Has(id) {
			d, by = authz.Failed(authz.FailureNotFollowed, notFollowed(id)), pathFailed
		}
		s.logMissingPolicy(id, d)
		s.unknown.add(by, s.metrics.checked(ctx, "", d, begin))
		s.decisions.Offer(ctx, begin, decisionlog.Decided{Policy: name, Request: r, Decision: d})
		return d
	}
	e.costs.add(by, s.metrics.checked(ctx, id, d, begin))
	s.decisions.Offer(ctx, begin, decisionlog.Decided{
		Policy: name, Etag: e.live.Etag, Compiled: e.live.Policy.Compiled(), Broken: e.broken, Request: r, Decision: d,
	})
	if d.Failure != authz.FailureCanceled && d.Failure != authz.FailureOverloaded {
		if len(e.experiments) > 0 {
			s.shadow.Offer(ctx, &e.live, e.experiments, r, d)
		}
	}
	s.verifier.Offer(&e.live, r, d)
	return d
}

// decide returns the live decision on a request: the cached one, or what the policy
// decides now; and by which path it was made. The entry is nil if there is no such policy.
func (s *Sidecar) decide(ctx context.Context, e *entry, r *authz.Request) (authz.Decision, path) {
	if e == nil {
		return noPolicy.Evaluate(ctx, r, s.conditions), pathDefault
	}
	if e.broken {
		return authz.Failed(authz.FailureNotReady, "The policy could not be loaded."), pathNotReady
	}
	begin := time.Now()
	search := e.live.Policy.Search(ctx, r)
	if search.Outcome == cache.Hit {
		return search.Decision, pathHit
	}
	conditions := s.conditions
	conditions.Name, conditions.Scheduler = e.live.Name, e.scheduler
	if timeout := s.timeout(e.live.Policy.Compiled(), r); timeout > 0 {
		conditions.Timeout = timeout - time.Since(begin) // it was looked for in this time, too
		if conditions.Timeout <= 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, conditions.Timeout) // which is over
			defer cancel()
			conditions.Timeout = timeout
		}
	}
	d, found := e.live.Policy.EvaluateShared(ctx, r, conditions, search)
	if found {
		return d, pathHit
	}
	if search.Outcome == cache.Miss {
		e.costs.misses.Add(1)
	}
	return d, pathOf(d, search.Outcome)
}

// timeout bounds a live evaluation. Who asks about a reservation waits for the external
// services too; Envoy does not.
func (s *Sidecar) timeout(p *authz.Policy, r *authz.Request) time.Duration {
	timeout := s.config.DecisionTimeout
	if timeout > 0 && r.Reservation != nil {
		timeout += time.Duration(p.Services()) * s.services.client.Timeout()
	}
	return timeout
}

// noPolicy is the compiled policy where there is none.
var noPolicy = cache.NewPolicy(&authz.Policy{})
