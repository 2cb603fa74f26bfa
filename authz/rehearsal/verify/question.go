package verify

import (
	"errors"

	"understudy/authz/rehearsal/question"
	"understudy/authz/rehearsal/wire"
)

const (
	// mostUnread is how much of a request crosses that the policy does not read, in bytes. A
	// decision is verified without a larger body.
	mostUnread = 4 << 20
	// aroundRequest is more than a question has beside its request, in bytes.
	aroundRequest = 64 << 10
)

var (
	errPanicked = errors.New("reading the request panicked")
	errTooLarge = errors.New("the request is too large to be decided again")
)

// question is the request as it was sent, of which the rehearsal process makes the whole input and
// takes no shortcut.
func (v *Verifier) question(j verification) (q wire.Question, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			v.report(cause, j)
			err = errPanicked
		}
	}()
	q = wire.Question{ID: j.request.ID, Time: j.request.Time, Timeout: v.timeout, Plain: true}
	sent := j.sent()
	switch {
	case len(sent) > wire.MaxQuestion-aroundRequest:
		return q, errTooLarge
	case sent != "":
		q.Asked = wire.Check(sent)
	default:
		q.Asked, err = v.config.Questions.Document(j.request)
	}
	return q, err
}

// sent are the bytes that Envoy sent; of a large request without a body that the policy does not
// read. They are empty if there are none.
func (j verification) sent() string {
	if sent := question.Sent(j.request, true); len(sent) <= mostUnread {
		return sent
	}
	return question.Sent(j.request, j.live.Policy.Compiled().MayReadBody())
}
