package child

import (
	"context"
	"fmt"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/wire"
)

// question reads the question of a piece of work, which has its time from now on.
func (l *lane) question(w *work) (q wire.Question, cancel context.CancelFunc, err error) {
	q, err = wire.ParseQuestion(w.frame.Payload)
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
	q, cancel, err := l.question(w)
	defer cancel()
	d := authz.Failed(authz.FailureError, "The question cannot be read.")
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

// decide decides a question. What panics costs that question alone; the parent counts it.
func (l *lane) decide(w *work, q wire.Question) (d authz.Decision) {
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

// encode returns the payload of a decision, which is good until the next one.
func (l *lane) encode(d authz.Decision) []byte {
	payload, err := wire.AppendDecided(l.buffer[:0], d)
	if err != nil {
		d = authz.Failed(authz.FailureError, "The decision cannot be sent: "+err.Error()+".")
		payload, _ = wire.AppendDecided(l.buffer[:0], d)
	}
	if len(payload) > wire.MaxDecided {
		d = authz.Failed(authz.FailureError, fmt.Sprintf("The decision has %d bytes; that of an experiment may have %d.", len(payload), wire.MaxDecided))
		payload, _ = wire.AppendDecided(l.buffer[:0], d)
	}
	l.buffer = payload
	return payload
}
