package child

import (
	"errors"

	"understudy/authz/rehearsal/wire"
	"understudy/rego/explain"
)

// trace evaluates a rule of the lane's policy with a trace.
func (l *lane) trace(w *work) {
	var asked wire.TraceRequest
	q, cancel, err := l.request(w)
	defer cancel()
	if err == nil {
		err = wire.Unmarshal(q.About, &asked)
	}
	var out wire.Traced
	if err == nil {
		out.Trace, err = l.traced(w, q, asked)
	}
	if l.ctx.Err() != nil {
		return // nobody waits for it
	}
	if err != nil {
		out = wire.Traced{Failed: err.Error(), Unlisted: errors.Is(err, errUnlisted)}
	}
	payload := wire.Marshal(out)
	for len(payload) > wire.MaxTraced {
		out.Trace.Rules = out.Trace.Rules[:len(out.Trace.Rules)/2]
		payload = wire.Marshal(out)
	}
	l.answer(w.frame, wire.KindTraced, payload)
}

var (
	errNotCompiled = errors.New("the policy has not been compiled")
	errPanicked    = errors.New("the evaluation panicked")
	errUnlisted    = errors.New("it is not known yet in what the policies differ")
)

// traced makes the trace. A panic costs this one alone.
func (l *lane) traced(w *work, q wire.DecisionRequest, asked wire.TraceRequest) (t explain.Trace, err error) {
	defer func() {
		if recover() != nil {
			t, err = explain.Trace{}, errPanicked
		}
	}()
	switch {
	case l.policy == nil:
		return explain.Trace{}, errNotCompiled
	case asked.Data && l.judge == nil:
		return explain.Trace{}, errUnlisted
	}
	r, reading, err := l.child.requests.read(w.ctx, q)
	if err != nil {
		return explain.Trace{}, err
	}
	defer reading.End()
	if t, err = l.policy.Compiled().Trace(w.ctx, reading, r, asked.Path); err == nil && asked.Data {
		t.Data, err = l.judge.Data(w.ctx, reading, r)
	}
	return t, err
}
