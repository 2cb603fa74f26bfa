package authz

import (
	"context"
	"log/slog"
	"time"

	"understudy/authz/diagnostics"
	"understudy/rego"
)

// Conditions are those under which a policy decides a request. The zero value bounds and
// reports nothing, calls no external service, and denies by default.
type Conditions struct {
	// Name is the resource whose chain decides, for logs; empty if that is not known.
	Name string
	// Shadow says that an experiment decides, off the request path. It has no effects.
	Shadow bool
	// Plain says that no shortcut is taken: OPA alone decides, by the whole input.
	Plain bool
	// Default is the decision on a check of Envoy's where there is no policy, or one
	// without rules. A reservation is allowed there.
	Default Effect
	// Timeout bounds the decision, without the time for which a Scheduler lets it wait. Zero
	// means that its context alone does.
	Timeout time.Duration
	// Reading bounds what reading the request may cost. If it is nil, Bodies does; if that
	// is nil too, nothing does.
	Reading *ReadBudget
	Bodies  *BodyMemory
	// Scheduler says when the decision may go on; nil means always.
	Scheduler Scheduler
	// Services calls external services. If it is nil, none is called.
	Services Services
	// Learned is called with what was learned of the request and the decision that was made of it, and returns
	// that decision. Nil means that nothing is written down. The record is right until it returns.
	Learned func(rego.Record, Decision) Decision
	// NotifyFailed is called with a rule that could not be notified of the end of a
	// reservation, and the decision that it failed in; nil if nobody is to know.
	NotifyFailed func(ctx context.Context, r *Request, rule string, d Decision)
	// Panics reports what panics; nil if none is reported.
	Panics *diagnostics.Panics
}

// Scheduler bounds how many decisions are evaluated at a time. It is safe for concurrent use.
type Scheduler interface {
	// Slot returns the slot of the decision on a request, and the context by which
	// it is evaluated. That ends when the decision has taken timeout, zero for no bound: the
	// time for which it waited for others is not counted.
	Slot(ctx context.Context, r *Request, timeout time.Duration) (context.Context, Slot)
}

// Slot has one decision wait for its turns, and counts its time. It belongs to the goroutine that makes the decision.
type Slot interface {
	// Enter returns when a rule may be evaluated, or with the error of the decision's context.
	Enter() error
	// Leave is called when a rule has been evaluated. A later rule may follow.
	Leave()
	// Outside is called before the decision waits for somebody else. It returns the context to
	// wait with, and what is called afterwards. That time is counted.
	Outside() (context.Context, context.CancelFunc)
	// TimedOut is called when an evaluation ran out of time, or was stopped by the scheduler of
	// it. It returns which failure that is, and why.
	TimedOut() (Failure, string)
}

// evaluation is a request as one chain is asked about it.
type evaluation struct {
	Conditions
	request *Request
	// asks is how the request is asked for; nil if it is there as a document alone, which input
	// makes.
	asks  *rego.Evaluation
	input inputSource
	// required are places of the input that have to be readable, whether they are asked for or not.
	required []string
	// unreadable is why the request cannot be asked for; nil if it can.
	unreadable error
	// slot is nil if nothing is scheduled.
	slot Slot
}

// enter waits until a rule may be evaluated.
func (q evaluation) enter() error {
	if q.slot == nil {
		return nil
	}
	return q.slot.Enter()
}

// outside is called before somebody else is waited for, with the context of the decision.
func (q evaluation) outside(ctx context.Context) (context.Context, context.CancelFunc) {
	if q.slot == nil {
		return ctx, func() {}
	}
	return q.slot.Outside()
}

// leave says that a rule has been evaluated.
func (q evaluation) leave() {
	if q.slot != nil {
		q.slot.Leave()
	}
}

// TimedOut is the reason of an evaluation that ran out of time.
const TimedOut = "The evaluation ran out of time."

// timedOut is the failure of an evaluation that ran out of time.
func timedOut(p Slot) Decision {
	if p == nil {
		return Failed(FailureDeadline, TimedOut)
	}
	return Failed(p.TimedOut())
}

// about says in a log what was asked: nothing of the request but its ID.
func (q evaluation) about(rule string) []slog.Attr {
	return []slog.Attr{
		slog.String("policy", q.Name), slog.String("rule", rule), slog.String("decision_id", q.request.ID),
	}
}
