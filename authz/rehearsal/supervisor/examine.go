package supervisor

import (
	"errors"
	"fmt"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/wire"
	"understudy/rego/coverage"
	"understudy/rego/explain"
)

// What is asked here are examinations.

// Trace asks the candidate what happens to its rules when it evaluates the one at a path,
// without waiting. done is called as that of a Question, but also with the error of an evaluation.
func (c *Candidate) Trace(path string, x Examination, done func(explain.Trace, error)) error {
	about := func() []byte { return wire.Marshal(wire.TraceRequest{Path: path}) }
	return c.examine(wire.KindTrace, about, x, func(answer []byte, err error) {
		var traced wire.Traced
		err = readAnswer(answer, err, &traced, &traced.Failed)
		done(traced.Trace, err)
	})
}

// examine asks the candidate about a request for something else than a decision. about is called when the
// question was prepared.
func (c *Candidate) examine(kind wire.Kind, about func() []byte, x Examination, done func([]byte, error)) error {
	return c.offer(&task{
		kind: kind, examination: &x, done: done,
		prepare: func() ([]byte, bool) { return encode(about, x.Prepare, func(err error) { done(nil, err) }) },
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
// Question.
func (c *Candidate) Again(x Examination, call func(wire.Call) wire.Answer, done func(authz.Decision, error)) error {
	t := c.deciding(Question{Prepare: x.Prepare, Call: call, Done: done})
	t.examination = &x
	return c.offer(t)
}

// Cover asks the candidate what happens to targets when it evaluates a request, without waiting. about is
// asked for them, in the form of [Targets], when the question was prepared. done is called as that of a
// Question, but also with the error of an evaluation; seen has what happened to each target.
func (c *Candidate) Cover(about func() []byte, x Examination, done func(seen []coverage.Seen, err error)) error {
	return c.examine(wire.KindCover, about, x, func(answer []byte, err error) {
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
// second, without waiting. It is an examination that is kept. done is called as that of a Question.
func (c *Candidate) Changes(live *authz.Packed, candidate *adminpb.Policy, done func(coverage.Changes, error)) error {
	prepare := func() ([]byte, bool) {
		request, err := diffOf(live, candidate)
		if err != nil {
			done(coverage.Changes{}, fmt.Errorf("encoding the policies: %w", err))
			return nil, false
		}
		return wire.Marshal(request), true
	}
	kept := &Examination{Kept: func() bool { return true }}
	return c.offer(&task{kind: wire.KindDiff, examination: kept, prepare: prepare, done: func(answer []byte, err error) {
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
