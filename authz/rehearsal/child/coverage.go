package child

import (
	"bytes"
	"errors"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/coverage"
)

// diff compares two policies, of which the lane keeps nothing.
func (l *lane) diff(w *work) {
	var asked wire.DiffRequest
	live, candidate := &adminpb.Policy{}, &adminpb.Policy{}
	err := wire.Unmarshal(w.frame.Payload, &asked)
	cancel := l.bound(w, asked.Timeout)
	defer cancel()
	if err == nil {
		err = errors.Join(proto.Unmarshal(asked.Live, live), proto.Unmarshal(asked.Candidate, candidate))
	}
	var out wire.Diffed
	if err == nil {
		out.Changes, err = authz.Changes(w.ctx, live, candidate)
	}
	if err != nil {
		out = wire.Diffed{Failed: err.Error()}
	}
	l.answer(w.frame, wire.KindDiffed, wire.Marshal(out))
}

// watched are targets, and the text that they were sent as: it is the same for many
// questions.
type watched struct {
	text    []byte
	targets []coverage.Target
}

// read reads the targets of a request.
func (t *watched) read(text []byte) ([]coverage.Target, error) {
	if t.text != nil && bytes.Equal(t.text, text) {
		return t.targets, nil
	}
	var asked wire.CoverRequest
	if err := wire.Unmarshal(text, &asked); err != nil {
		return nil, err
	}
	t.text, t.targets = bytes.Clone(text), asked.Targets
	return t.targets, nil
}

// cover evaluates the lane's policy and watches targets.
func (l *lane) cover(w *work) {
	about, q, err := wire.ParseAbout(w.frame.Payload)
	cancel := l.bound(w, q.Timeout)
	defer cancel()
	var out wire.Covered
	if err == nil {
		out.Seen, err = l.covered(w, q, about)
	}
	if l.ctx.Err() != nil {
		return // nobody waits for it
	}
	if err != nil {
		out = wire.Covered{Failed: err.Error()}
	}
	l.answer(w.frame, wire.KindCovered, wire.Marshal(out))
}

// covered returns what happened to the targets. A panic costs this one alone.
func (l *lane) covered(w *work, q wire.Question, about []byte) (seen []coverage.Seen, err error) {
	defer func() {
		if recover() != nil {
			seen, err = nil, errPanicked
		}
	}()
	targets, err := l.watched.read(about)
	if err != nil {
		return nil, err
	}
	if l.policy == nil {
		return nil, errNotCompiled
	}
	r, reading, err := l.child.requests.read(w.ctx, q)
	if err != nil {
		return nil, err
	}
	defer reading.End()
	tracer := coverage.NewTracer(targets)
	if err := l.policy.Compiled().Cover(w.ctx, reading, r, tracer); err != nil {
		return nil, err
	}
	return tracer.Seen(), nil
}
