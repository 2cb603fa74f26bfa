package decisionrequest

import (
	"context"
	"net/url"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/wire"
	"understudy/rego"
)

// Maker makes requests. It is safe for concurrent use.
type Maker struct {
	// Timeout bounds an evaluation, and reading a request for it.
	Timeout time.Duration
	// Bodies bounds what reading requests again may cost.
	Bodies *authz.BodyMemory
}

// Of makes the message for a request, for a policy that reads its body or does not. The error is why there is no
// document now, as that of a Source.
func (m Maker) Of(r *authz.Request, body bool) (q wire.DecisionRequest, err error) {
	q = wire.DecisionRequest{ID: r.ID, Time: r.Time, Timeout: m.Timeout}
	if sent := Sent(r, body); sent != "" {
		q.Asked = wire.Check(sent)
		return q, nil
	}
	q.Asked, err = m.Document(r)
	return q, err
}

// Sent is the CheckRequest of which a request was made, for who reads its body or does not; empty if
// there is none.
func Sent(r *authz.Request, body bool) string {
	if r.Sent == nil {
		return ""
	}
	return r.Sent.CheckRequest(body)
}

// Document makes the input document of a request, within the bounds of reading off the request
// path. A request that can have none crosses as such.
func (m Maker) Document(r *authz.Request) (wire.Document, error) {
	ctx, cancel := context.WithTimeout(context.Background(), m.Timeout)
	defer cancel()
	reading := m.Bodies.ReadOffPath(ctx, r)
	defer reading.End()
	out := wire.Document{Facts: wire.FactsOf(r)}
	input, err := r.Input(reading)
	if err == nil {
		out.Input, err = rego.AppendInput(make([]byte, 0, 1024), input)
	} else if d := authz.Unreadable(err); d.Failure.OfRequest() {
		out.Unreadable, err = &authz.BadRequest{Reason: d.Reason, Failure: d.Failure}, nil
	}
	return out, err
}

// Answers answers calls of external services by ask.
func Answers(ask func(to *url.URL, body []byte) authz.ServiceReply) func(wire.Call) wire.Answer {
	return func(call wire.Call) wire.Answer {
		to, err := url.Parse(call.URL)
		if err != nil {
			return wire.Answer{Outcome: uint8(authz.ServiceFailed)}
		}
		reply := ask(to, call.Body)
		return wire.Answer{Outcome: uint8(reply.Outcome), Message: reply.Message}
	}
}

// KnownAnswers answers calls about a request that is decided once more: as the live policy was answered the
// first time.
func KnownAnswers(r *authz.Request) func(wire.Call) wire.Answer {
	return Answers(func(to *url.URL, body []byte) authz.ServiceReply { return authz.KnownReply(r, to, body) })
}
