package authz

import (
	"context"
	"log/slog"
	"time"

	"understudy/authz/diagnostics"
)

// Conditions are those under which a policy decides a request. The zero value bounds and
// reports nothing, calls no external service, and denies by default.
type Conditions struct {
	// Name is the resource whose chain decides, for logs; empty if that is not known.
	Name string
	// Shadow says that an experiment decides, off the request path. It has no effects.
	Shadow bool
	// Plain says that no shortcut is taken: the whole input is made, and no index of the
	// data is used.
	Plain bool
	// Default is the decision on a check of Envoy's where there is no policy, or one
	// without rules. A reservation is allowed there.
	Default Verdict
	// Timeout bounds the decision. Zero means that its context alone does.
	Timeout time.Duration
	// Reading bounds what reading the request may cost. If it is nil, Bodies does; if that
	// is nil too, nothing does.
	Reading *Reading
	Bodies  *BodyMemory
	// Pacer bounds what long evaluations cost the short ones; nil bounds nothing.
	Pacer Pacer
	// Services calls external services. If it is nil, none is called.
	Services Services
	// NotifyFailed is called with a rule that could not be notified of the end of a
	// reservation, and the decision that it failed in; nil if nobody is to know.
	NotifyFailed func(ctx context.Context, r *Request, rule string, d Decision)
	// Panics reports what panics; nil if none is reported.
	Panics *diagnostics.Panics
}

// Pacer makes long evaluations give way to short ones. It is safe for concurrent use.
type Pacer interface {
	// Pace returns how one decision takes part in that, and the context by which it is
	// evaluated.
	Pace(ctx context.Context) (context.Context, Pace)
}

// Pace is how one decision takes part in pacing. It belongs to the goroutine that makes
// the decision.
type Pace interface {
	// Leave is called when a rule has been evaluated. A later rule may follow.
	Leave()
	// TimedOut is called when an evaluation ran out of time, or was stopped by who paces
	// it. It returns which failure that is, and why.
	TimedOut() (Failure, string)
}

// question is a request as one chain is asked about it.
type question struct {
	Conditions
	request *Request
	// input makes what the chain reads of the input document.
	input inputSource
	// pace is nil if nothing is paced.
	pace Pace
}

// leave says that a rule has been evaluated.
func (q question) leave() {
	if q.pace != nil {
		q.pace.Leave()
	}
}

// TimedOut is the reason of an evaluation that ran out of time.
const TimedOut = "The evaluation ran out of time."

// timedOut is the failure of an evaluation that ran out of time.
func timedOut(p Pace) Decision {
	if p == nil {
		return Failed(FailureDeadline, TimedOut)
	}
	return Failed(p.TimedOut())
}

// about says in a log what was asked: nothing of the request but its ID.
func (q question) about(rule string) []slog.Attr {
	return []slog.Attr{
		slog.String("policy", q.Name), slog.String("rule", rule), slog.String("decision_id", q.request.ID),
	}
}
