package verify

import (
	"errors"

	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/wire"
)

const (
	// mostUnread is how much of a request crosses that the policy does not read, in bytes. A
	// decision is verified without a larger body.
	mostUnread = 4 << 20
	// aroundRequest is more than a message has in addition to its request, in bytes.
	aroundRequest = 64 << 10
)

var (
	errPanicked = errors.New("reading the request panicked")
	errTooLarge = errors.New("the request is too large to be decided again")
)

// request has the bytes that were sent, of which the rehearsal process makes the whole input and
// takes no shortcut.
func (v *Verifier) request(j verification) (q wire.DecisionRequest, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			v.report(cause, j)
			err = errPanicked
		}
	}()
	q = wire.DecisionRequest{ID: j.request.ID, Time: j.request.Time, Timeout: v.timeout, Plain: true}
	sent := j.sent()
	switch {
	case len(sent) > wire.MaxDecisionRequest-aroundRequest:
		return q, errTooLarge
	case sent != "":
		q.Asked = wire.Check(sent)
	default:
		q.Asked, err = v.config.Requests.Document(j.request)
	}
	return q, err
}

// sent are the bytes that Envoy sent; of a large request without a body that the policy does not
// read. They are empty if there are none.
func (j verification) sent() string {
	if sent := decisionrequest.Sent(j.request, true); len(sent) <= mostUnread {
		return sent
	}
	return decisionrequest.Sent(j.request, j.live.Policy.Compiled().MayReadBody())
}
