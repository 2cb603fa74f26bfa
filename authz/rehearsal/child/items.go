package child

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/change"
)

// judge finds out what requests show of the items of the lane's policy and a live one.
type judge struct {
	*authz.Judge
	// live keeps the live policy for others.
	live *compiled
}

// items compares the lane's policy with a live one.
func (l *lane) items(w *work) {
	var asked wire.ItemsRequest
	err := wire.Unmarshal(w.frame.Payload, &asked)
	cancel := l.bound(w, asked.Timeout)
	defer cancel()
	if err == nil {
		err = l.compare(w, asked.Live)
	}
	var out wire.Listed
	if err != nil {
		out.Failed = err.Error()
	} else {
		out.Digest, out.Conditions = l.judge.List.Digest, l.judge.List.Conditions()
	}
	l.answer(w.frame, wire.KindListed, wire.Marshal(out))
}

// compare makes the lane's judge. A panic costs this one alone.
func (l *lane) compare(w *work, live []byte) (err error) {
	l.judge = nil
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	if l.compiled == nil {
		return errNotCompiled
	}
	of, err := l.child.policies.compile(w.ctx, live)
	if err != nil {
		return err
	}
	made, err := authz.NewJudge(w.ctx, of.source, l.compiled.source, of.policy, l.compiled.policy)
	if err != nil {
		return err
	}
	l.judge = &judge{made, of}
	return nil
}

// differing compares two policies that are given, of which the lane keeps nothing.
func (l *lane) differing(w *work) {
	var asked wire.CompareRequest
	live, candidate := &adminpb.Policy{}, &adminpb.Policy{}
	err := wire.Unmarshal(w.frame.Payload, &asked)
	cancel := l.bound(w, asked.Time)
	defer cancel()
	if err == nil {
		err = errors.Join(proto.Unmarshal(asked.Live, live), proto.Unmarshal(asked.Candidate, candidate))
	}
	var list *change.List
	if err == nil {
		items := authz.Items
		if asked.Effective {
			items = authz.EffectiveItems
		}
		list, err = items(w.ctx, live, candidate)
	}
	l.answer(w.frame, wire.KindCompared, compared(list, err))
}

// compared is the payload of an answer.
func compared(list *change.List, err error) []byte {
	if err != nil {
		return wire.Marshal(wire.Compared{Refused: refused(err)})
	}
	payload := wire.Marshal(wire.Compared{List: *list})
	if len(payload) > wire.MaxCompared {
		return wire.Marshal(wire.Compared{Refused: &wire.Refused{Text: fmt.Sprintf("The items have %d bytes.", len(payload))}})
	}
	return payload
}

// show finds out what a request shows of the items.
func (l *lane) show(w *work) {
	q, cancel, err := l.request(w)
	defer cancel()
	var out wire.Shown
	if err == nil {
		out, err = l.shown(w, q)
	}
	if l.ctx.Err() != nil {
		return // nobody waits for it
	}
	if err != nil {
		out = wire.Shown{Failed: err.Error()}
	}
	l.answer(w.frame, wire.KindShown, wire.Marshal(out))
}

// errOtherList says that a request is about other policies than the lane's judge.
var errOtherList = errors.New("the items are those of another live policy")

// shown returns what was shown. A panic costs this one alone.
func (l *lane) shown(w *work, q wire.DecisionRequest) (out wire.Shown, err error) {
	defer func() {
		if recover() != nil {
			out, err = wire.Shown{}, errPanicked
		}
	}()
	var asked wire.ShowRequest
	switch err := wire.Unmarshal(q.About, &asked); {
	case err != nil:
		return out, err
	case l.judge == nil:
		return wire.Shown{Unlisted: true}, nil
	case !bytes.Equal(asked.Digest, l.judge.List.Digest):
		return out, errOtherList
	}
	r, reading, err := l.child.requests.read(w.ctx, q)
	if err != nil {
		return out, err
	}
	defer reading.End()
	pending := func(item int) bool { return item/8 < len(asked.Pending) && asked.Pending[item/8]&(1<<(item%8)) != 0 }
	shown, err := l.judge.Examine(w.ctx, reading, r, pending)
	for item, what := range shown {
		out.Items, out.What = append(out.Items, item), append(out.What, what)
	}
	return out, err
}
