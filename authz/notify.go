package authz

import (
	"context"

	"understudy/authz/diagnostics"
)

// notify notifies each filter of the end of a reservation. Whatever they say, it ends: the
// answer is always that it may (Blazar's on-end). What fails is logged and counted.
func (p *Policy) notify(ctx context.Context, q question) Decision {
	if !p.NoOp() && !p.exempts(q.request) {
		for _, rule := range p.rules {
			d := rule.notify(ctx, q)
			q.pace.leave()
			// A rule that says nothing about ends is undefined for them.
			if d.Failure != "" && d.Failure != FailureUndefined && !q.shadow && q.notifyFailed != nil {
				q.notifyFailed(ctx, q.request, rule.id, d)
			}
		}
	}
	return pass
}

// notify asks the rule's filter. A panic is a failure, of this rule alone.
func (r rule) notify(ctx context.Context, q question) (d Decision) {
	defer func() {
		if cause := recover(); cause != nil {
			q.panics.Report(ctx, diagnostics.PanicNotification, cause, q.about(r.id)...)
			d = failed(FailurePanic, "The notification panicked.")
		}
	}()
	return r.filter.check(ctx, q)
}
