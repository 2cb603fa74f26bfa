package authz

import (
	"context"
	"reflect"
)

// verifyEvery is how many decisions by shortcut there are for one that is decided
// again from the whole input.
const verifyEvery = 1024

// verify decides a request again, beside the traffic, from its whole input, with
// nothing remembered and nothing of the data indexed, in the time that an experiment
// has. If that is another decision, a shortcut is wrong: that is counted and logged, and
// the policy takes none any more. It is a check of ourselves that a test cannot replace.
// An evaluation that failed says nothing, for it may not fail again.
func (s *shadow) verify(ctx context.Context, job rehearsal) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	p := job.entry.live.policy
	again := p.run(ctx, question{
		request: job.request, name: job.entry.live.name, input: job.request.Input, shadow: true, plain: true, panics: s.owner.panics,
	})
	if !lasting(again.Failure) || sameDecision(job.live, again) {
		return
	}
	p.distrusted.Store(true)
	s.owner.metrics.mismatched()
	s.owner.log.Error("a decision is not the one that the whole input gives; the policy takes no shortcuts any more",
		"policy", string(job.entry.name), "decision_id", job.request.ID, "decided", job.live.Result(), "again", again.Result())
}

// sameDecision compares all that a client, an upstream and a record can tell.
func sameDecision(a, b Decision) bool {
	return a.Failure == b.Failure && a.Verdict == b.Verdict && a.Rule == b.Rule && a.Reason == b.Reason &&
		a.Plain == b.Plain && sameAnswer(a, b) && reflect.DeepEqual(a.Metadata, b.Metadata)
}

// dueForVerification reports whether a decision is the one in so many that is decided
// again.
func (s *Sidecar) dueForVerification(e *entry, r *Request, d Decision) bool {
	p := e.live.policy
	if p.NoOp() || !p.deterministic || d.exempt || r.Reservation != nil || !lasting(d.Failure) || p.distrusted.Load() {
		return false
	}
	return s.shortcuts.Add(1)%verifyEvery == 0
}
