package authz

import (
	"context"

	"understudy/authz/diagnostics"
)

// notify tells each filter that a reservation ends. Whatever they say, it ends: the
// answer is always that it may (Blazar's on-end). What fails is logged and counted.
func (p *Policy) notify(ctx context.Context, q question) Decision {
	if !p.NoOp() && !p.exempts(q.request) {
		for _, rule := range p.rules {
			d := rule.tell(ctx, q)
			q.pace.leave()
			// A rule that says nothing about ends is undefined for them.
			if d.Failure != "" && d.Failure != FailureUndefined && !q.shadow {
				q.external.untold(ctx, q.request.ID, rule.id, d)
			}
		}
	}
	return pass
}

// tell asks the rule's filter. A panic is a failure, of this rule alone.
func (r rule) tell(ctx context.Context, q question) (d Decision) {
	defer func() {
		if cause := recover(); cause != nil {
			q.panics.Report(ctx, diagnostics.PanicNotification, cause, q.about(r.id)...)
			d = failed(FailurePanic, "The notification panicked.")
		}
	}()
	return r.filter.check(ctx, q)
}
