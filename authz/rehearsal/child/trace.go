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
		out.Trace, err = l.traced(w, q, asked.Path)
	}
	if l.ctx.Err() != nil {
		return // nobody waits for it
	}
	if err != nil {
		out = wire.Traced{Failed: err.Error()}
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
)

// traced makes the trace. A panic costs this one alone.
func (l *lane) traced(w *work, q wire.DecisionRequest, path string) (t explain.Trace, err error) {
	defer func() {
		if recover() != nil {
			t, err = explain.Trace{}, errPanicked
		}
	}()
	if l.policy == nil {
		return explain.Trace{}, errNotCompiled
	}
	r, reading, err := l.child.requests.read(w.ctx, q)
	if err != nil {
		return explain.Trace{}, err
	}
	defer reading.End()
	return l.policy.Compiled().Trace(w.ctx, reading, r, path)
}
