package child

import (
	"context"

	"understudy/authz"
	"understudy/authz/rehearsal/wire"
	"understudy/rego"
)

// mostUnread is how much memory reading a body may take that the policy does not read, in
// bytes: some thousand values. A decision is verified without a larger one.
const mostUnread = 4 << 20

// wholly has a request that was read of bytes make its whole input, of which no shortcut is
// taken. It may lack what the policy does not read of a body: whether there is a form that it can be read in,
// and what that takes, is up to who sends it.
func (l *lane) wholly(ctx context.Context, r *authz.Request, reading *authz.ReadBudget) {
	whole, without := r.Source, r.WithoutBody
	r.Source = func(*authz.ReadBudget) (rego.Input, error) {
		policy := l.policy.Compiled()
		if policy.MayRead("parsed_body") {
			return whole(reading)
		}
		some := l.child.requests.verifying.ReadOffPath(ctx, r).AtMost(mostUnread)
		defer some.End()
		if input, err := whole(some); err == nil {
			return input, nil
		}
		return without(reading, policy.MayRead("truncated_body"))
	}
}

// blame finds the rule whose shortcut is wrong.
func (l *lane) blame(w *work) {
	q, cancel, err := l.request(w)
	defer cancel()
	var out wire.Blamed
	if err == nil && l.policy != nil {
		out = l.blamed(w.ctx, q)
	}
	l.answer(w.frame, wire.KindBlamed, wire.Marshal(out))
}

// blamed finds it by two requests that stand for the one that is asked about. It is none if that
// cannot be read.
func (l *lane) blamed(ctx context.Context, q wire.DecisionRequest) (out wire.Blamed) {
	if _, ok := q.Asked.(wire.Check); !ok {
		return out // there is no other input than the whole
	}
	whole, wholeReading, err := l.child.requests.read(ctx, q)
	if err != nil {
		return out
	}
	defer wholeReading.End()
	l.wholly(ctx, whole, wholeReading)
	asked, reading, err := l.child.requests.read(ctx, q)
	if err != nil {
		return out
	}
	defer reading.End()
	out.Rule, out.Path = l.policy.Compiled().Blame(ctx, whole, asked, reading)
	return out
}
