package supervisor

import (
	"errors"
	"fmt"
	"slices"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/coverage"
	"understudy/rego/explain"
)

// What is asked here is about decisions, and none itself: it waits behind all decisions of
// its lane.

// Idle reports whether the process has nothing to do but what is asked here, and may use more
// of the processors for that.
func (s *Supervisor) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session == nil || s.session.paused || s.session.scarce {
		return false
	}
	for _, l := range s.lanes {
		if hasDecisions(l.underWay) || hasDecisions(l.queue) {
			return false
		}
	}
	return true
}

// hasDecisions reports whether there is more in a part of a lane than what waits behind all
// decisions.
func hasDecisions(tasks []*task) bool {
	return slices.ContainsFunc(tasks[:min(len(tasks), window)], func(t *task) bool { return !t.last })
}

// Trace asks the candidate what happens to its rules when it evaluates the one at a path,
// without waiting and behind all decisions. done is called as that of a Question, but also
// with the error of an evaluation.
func (c *Candidate) Trace(path string, prepare func() (wire.Question, bool), done func(explain.Trace, error)) error {
	about := wire.Marshal(wire.TraceRequest{Path: path})
	return c.ask(wire.KindTrace, about, prepare, func(answer []byte, err error) {
		var traced wire.Traced
		err = readAnswer(answer, err, &traced, &traced.Failed)
		done(traced.Trace, err)
	})
}

// ask asks the candidate about a request for something else than a decision, behind all
// decisions.
func (c *Candidate) ask(kind wire.Kind, about []byte, prepare func() (wire.Question, bool), done func([]byte, error)) error {
	return c.offer(&task{
		kind: kind, last: true, done: done,
		prepare: func() ([]byte, bool) { return encode(about, prepare, func(err error) { done(nil, err) }) },
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

// Cover asks the candidate what happens to targets when it evaluates a request, without
// waiting and behind all decisions. about is that of [Targets]. done is called as that of a
// Question, but also with the error of an evaluation; seen has what happened to each target.
func (c *Candidate) Cover(about []byte, prepare func() (wire.Question, bool), done func(seen []coverage.Seen, err error)) error {
	return c.ask(wire.KindCover, about, prepare, func(answer []byte, err error) {
		var covered wire.Covered
		err = readAnswer(answer, err, &covered, &covered.Failed)
		done(covered.Seen, err)
	})
}

// Targets returns the form in which Cover takes targets.
func Targets(targets []coverage.Target) []byte {
	return wire.Marshal(wire.CoverRequest{Targets: targets})
}

// diffTime bounds a comparison of two policies.
const diffTime = 10 * time.Second

// Changes asks which rules only one of the policies has, of which the candidate's is the
// second, without waiting and behind all decisions. done is called as that of a Question.
func (c *Candidate) Changes(live *authz.Packed, candidate *adminpb.Policy, done func(coverage.Changes, error)) error {
	prepare := func() ([]byte, bool) {
		request, err := diffOf(live, candidate)
		if err != nil {
			done(coverage.Changes{}, fmt.Errorf("encoding the policies: %w", err))
			return nil, false
		}
		return wire.Marshal(request), true
	}
	return c.offer(&task{kind: wire.KindDiff, last: true, prepare: prepare, done: func(answer []byte, err error) {
		var diffed wire.Diffed
		err = readAnswer(answer, err, &diffed, &diffed.Failed)
		done(diffed.Changes, err)
	}})
}

// diffOf is the question what differs between two policies.
func diffOf(live *authz.Packed, candidate *adminpb.Policy) (wire.DiffRequest, error) {
	request := wire.DiffRequest{Timeout: diffTime}
	policy, err := live.Policy()
	if err != nil {
		return request, err
	}
	if request.Live, err = marshal(policy); err != nil {
		return request, err
	}
	request.Candidate, err = marshal(candidate)
	return request, err
}
