package supervisor

import (
	"errors"
	"fmt"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/explain"
)

// What is asked here are examinations.

// ErrUnlisted says that the process does not know in what the policies differ: [RemotePolicy.Items] has it find out.
var ErrUnlisted = errors.New("it is not known yet in what the policies differ")

// Trace asks the policy what happens to its rules when it evaluates the one at a path, and if data is set, which places
// of data make a difference to the live policy, without waiting. done is called as that of a DecisionRequest, but also
// with the error of an evaluation, or ErrUnlisted.
func (p *RemotePolicy) Trace(path string, data bool, x Examination, done func(explain.Trace, error)) error {
	about := func() []byte { return wire.Marshal(wire.TraceRequest{Path: path, Data: data}) }
	return p.examine(wire.KindTrace, about, x, func(answer []byte, err error) {
		var traced wire.Traced
		if err = readAnswer(answer, err, &traced, &traced.Failed); traced.Unlisted {
			err = ErrUnlisted
		}
		done(traced.Trace, err)
	})
}

// examine asks the candidate about a request for something else than a decision. about is called when the
// request was prepared.
func (p *RemotePolicy) examine(kind wire.Kind, about func() []byte, x Examination, done func([]byte, error)) error {
	prepare := func() (wire.DecisionRequest, bool) {
		q, ok := x.Prepare()
		if ok {
			q.About = about()
		}
		return q, ok
	}
	return p.offer(&task{
		kind: kind, examination: &x, done: done,
		prepare: func() ([]byte, bool) { return encode(prepare, func(err error) { done(nil, err) }) },
	})
}

// readAnswer reads an answer, if there is one. failed is its field that says why what was
// asked for could not be done.
func readAnswer(answer []byte, err error, into any, failed *string) error {
	if err == nil {
		err = wire.Unmarshal(answer, into)
	}
	if err == nil && *failed != "" {
		err = errors.New(*failed)
	}
	return err
}

// Again asks the candidate for a decision that is not compared, without waiting. done is called as that of a
// DecisionRequest.
func (p *RemotePolicy) Again(x Examination, call func(wire.Call) wire.Answer, done func(authz.Decision, error)) error {
	t := p.deciding(DecisionRequest{Prepare: x.Prepare, Call: call, Done: done})
	t.examination = &x
	return p.offer(t)
}

// Show asks the candidate what a request shows of the items in which it and a live policy differ, without
// waiting: those of the last answer to [RemotePolicy.Items]. about is asked for what is to be found out when the
// request was prepared, in the form of [Pending]. done is called as that of a DecisionRequest, but also with the
// error of an evaluation.
func (p *RemotePolicy) Show(about func() []byte, x Examination, done func(wire.Shown, error)) error {
	return p.examine(wire.KindShow, about, x, func(answer []byte, err error) {
		var shown wire.Shown
		err = readAnswer(answer, err, &shown, &shown.Failed)
		done(shown, err)
	})
}

// Pending returns the form in which Show takes of which items of a list something may be new.
func Pending(digest, items []byte) []byte {
	return wire.Marshal(wire.ShowRequest{Digest: digest, Pending: items})
}

// itemsTime bounds a comparison of two policies.
const itemsTime = 10 * time.Second

// Items asks in what the candidate differs from a live policy, without waiting. It is an examination that is
// kept. done is called as that of a DecisionRequest.
func (p *RemotePolicy) Items(live *authz.Packed, done func(wire.Listed, error)) error {
	prepare := func() ([]byte, bool) {
		policy, err := live.Policy()
		if err == nil {
			var source []byte
			if source, err = marshal(policy); err == nil {
				return wire.Marshal(wire.ItemsRequest{Live: source, Timeout: itemsTime}), true
			}
		}
		done(wire.Listed{}, fmt.Errorf("encoding the policy: %w", err))
		return nil, false
	}
	kept := &Examination{Kept: func() bool { return true }}
	return p.offer(&task{kind: wire.KindItems, examination: kept, prepare: prepare, done: func(answer []byte, err error) {
		var listed wire.Listed
		err = readAnswer(answer, err, &listed, &listed.Failed)
		done(listed, err)
	}})
}
