package child

import (
	"context"
	"fmt"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/wire"
)

// request reads the request of a piece of work, which has its time from now on.
func (l *lane) request(w *work) (q wire.DecisionRequest, cancel context.CancelFunc, err error) {
	q, err = wire.ParseDecisionRequest(w.frame.Payload)
	return q, l.bound(w, q.Timeout), err
}

// bound begins a piece of work that has so much time from now on.
func (l *lane) bound(w *work, timeout time.Duration) (cancel context.CancelFunc) {
	w.ctx, cancel = context.WithTimeout(l.ctx, timeout)
	l.begin(w)
	return cancel
}

// evaluate decides a request by the lane's policy.
func (l *lane) evaluate(w *work) {
	q, cancel, err := l.request(w)
	defer cancel()
	d := authz.Failed(authz.FailureError, "The request cannot be read.")
	switch {
	case err != nil:
	case l.policy == nil:
		d = authz.Failed(authz.FailureError, "The policy has not been compiled.")
	default:
		d = l.decide(w, q)
	}
	if l.ctx.Err() != nil {
		return // nobody waits for it
	}
	l.answer(w.frame, wire.KindDecided, l.encode(d))
}

// decide decides a request. What panics costs that request alone; the parent counts it.
func (l *lane) decide(w *work, q wire.DecisionRequest) (d authz.Decision) {
	defer func() {
		if cause := recover(); cause != nil {
			d = authz.Failed(authz.FailurePanic, "The evaluation panicked.")
		}
	}()
	if l.child.options.Before != nil {
		l.child.options.Before(w.ctx, q)
	}
	r, reading, err := l.child.requests.read(w.ctx, q)
	if err != nil {
		return authz.Unreadable(err)
	}
	defer reading.End()
	if _, ok := q.Asked.(wire.Check); ok && q.Plain {
		l.wholly(w.ctx, r, reading)
	}
	conditions := authz.Conditions{Shadow: true, Plain: q.Plain, Reading: reading, Services: services{l, w.frame}}
	if q.Plain {
		return l.policy.Compiled().Decide(w.ctx, r, conditions)
	}
	return l.policy.Decide(w.ctx, r, conditions)
}

// maxForms is how many forms of decisions a lane keeps.
const maxForms = 1024

// encode returns the payload of a decision, which is good until the next one. The forms of decisions that
// the cache has are kept: a few of them stand for nearly all requests, and each takes some microseconds to make.
func (l *lane) encode(d authz.Decision) []byte {
	form, known := l.forms[d.Rendering()]
	if !known {
		form = formOf(d.WithLeaf(authz.Leaf{}))
		if len(l.forms) >= maxForms {
			clear(l.forms)
		}
		if d.Rendering() != nil {
			l.forms[d.Rendering()] = form
		}
	}
	l.buffer = wire.AppendLeaf(l.buffer[:0], form, d.Leaf())
	return l.buffer
}

// formOf returns the form of a decision. One that cannot be sent is a failure.
func formOf(d authz.Decision) []byte {
	form, err := wire.AppendDecided(nil, d)
	switch {
	case err != nil:
		return formOf(authz.Failed(authz.FailureError, "The decision cannot be sent: "+err.Error()+"."))
	case len(form) > wire.MaxDecided:
		return formOf(authz.Failed(authz.FailureError,
			fmt.Sprintf("The decision has %d bytes; that of an experiment may have %d.", len(form), wire.MaxDecided)))
	}
	return form
}
