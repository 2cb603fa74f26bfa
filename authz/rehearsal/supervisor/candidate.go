package supervisor

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/wire"
)

// Candidate is a policy that is compiled and evaluated by the rehearsal process: that of an
// experiment, or a live one whose decisions are verified. It is safe for concurrent use.
type Candidate struct {
	lane *lane

	settle sync.Once
	ready  chan struct{}
	facts  authz.Facts
	err    error
	// answers has what the process has answered.
	answers answers
}

// Options say how a candidate is asked.
type Options struct {
	// Name is that of the resource, for logs.
	Name string
	// Keeps says that the process stays while the candidate is there.
	Keeps bool
	// Suspension is for how long it is not asked after it has ended the process again and again.
	// Zero means until it is closed.
	Suspension time.Duration
	// Queue is the number of questions that may wait. Zero means 4096.
	Queue int
	// ExaminationBytes bounds the memory of the requests that wait to be examined, by all candidates. One that
	// comes then has those of its candidate make room. Zero means 8 MiB.
	ExaminationBytes int
}

// NewCandidate begins to compile a policy.
func (s *Supervisor) NewCandidate(p *adminpb.Policy, options Options) *Candidate {
	c := &Candidate{ready: make(chan struct{})}
	source, err := marshal(p)
	if err != nil {
		c.resolve(authz.Facts{}, fmt.Errorf("encoding the policy: %w", err))
		return c
	}
	l, err := s.newLane(&lane{
		name: options.Name, source: source, compiled: c.compiled, keeps: options.Keeps, suspension: options.Suspension,
		room: cmp.Or(options.Queue, defaultQueue), examinationBytes: int64(cmp.Or(options.ExaminationBytes, defaultExaminationBytes)),
	})
	if err != nil {
		c.resolve(authz.Facts{}, err)
		return c
	}
	c.lane = l
	return c
}

// Ready is closed when it is known whether the policy compiles.
func (c *Candidate) Ready() <-chan struct{} { return c.ready }

// Facts returns what is known of the policy, once it is ready. The error is that of a policy
// that does not compile.
func (c *Candidate) Facts() (authz.Facts, error) { return c.facts, c.err }

// ReadsBody reports whether the policy may read the body of a request. As long as that is not known it may.
func (c *Candidate) ReadsBody() bool {
	if c == nil {
		return true
	}
	select {
	case <-c.ready:
		return c.err != nil || c.facts.ReadsBody
	default:
		return true
	}
}

// Waiting is how many questions wait. A nil Candidate has none.
func (c *Candidate) Waiting() int {
	if c == nil || c.lane == nil {
		return 0
	}
	c.lane.s.mu.Lock()
	defer c.lane.s.mu.Unlock()
	return len(c.lane.queue)
}

// Compiled waits until it is known whether the policy compiles, and returns why it does not.
func (c *Candidate) Compiled() error {
	<-c.ready
	return c.err
}

func (c *Candidate) resolve(facts authz.Facts, err error) {
	c.settle.Do(func() {
		c.facts, c.err = facts, err
		close(c.ready)
	})
}

// compiled is called after each compilation, of which there is one in each child. The first
// one counts.
func (c *Candidate) compiled(answer []byte, err error) {
	if err != nil {
		c.resolve(authz.Facts{}, refusal(err, "Compiling the policy fails: "))
		return
	}
	var answered wire.Compiled
	if err := wire.Unmarshal(answer, &answered); err != nil {
		c.resolve(authz.Facts{}, err)
		return
	}
	if err := answered.Refused.Err(); err != nil {
		c.resolve(authz.Facts{}, err)
		return
	}
	c.resolve(answered.Facts, nil)
}

// Question is what a candidate is asked about a request.
type Question struct {
	// Prepare makes the question off the request path. It reports false if there is none to
	// ask: then Done is not called.
	Prepare func() (wire.Question, bool)
	// Call answers a call of an external service; nil answers none.
	Call func(wire.Call) wire.Answer
	// Done is called once with the decision, or with why there is none: one of the errors of
	// this package, or a *Guilt. It must not wait.
	Done func(authz.Decision, error)
}

// offer adds a task to the lane. A nil Candidate is of a process that was never there.
func (c *Candidate) offer(t *task) error {
	switch {
	case c == nil:
		return ErrUnavailable
	case c.lane == nil:
		return c.err
	}
	return c.lane.offer(t)
}

// Decide asks the candidate for a decision, without waiting. The error says why it is not
// asked; Done is not called then.
func (c *Candidate) Decide(q Question) error { return c.offer(c.deciding(q)) }

// deciding is the task to decide.
func (c *Candidate) deciding(q Question) *task {
	return &task{
		kind: wire.KindEvaluate, call: q.Call,
		prepare: func() ([]byte, bool) { return encode(nil, q.Prepare, func(err error) { q.Done(unsent(err), nil) }) },
		done: func(answer []byte, err error) {
			var d authz.Decision
			if err == nil {
				d, err = c.answers.parse(answer)
			}
			q.Done(d, err)
		},
	}
}

// Blame asks the candidate which rule decides otherwise by shortcut than without, without
// waiting. done is called as that of a Question; the rule is empty if there is none, or the
// request is not asked about by its bytes.
func (c *Candidate) Blame(prepare func() (wire.Question, bool), done func(wire.Blamed, error)) error {
	return c.offer(&task{
		kind:    wire.KindBlame,
		prepare: func() ([]byte, bool) { return encode(nil, prepare, func(err error) { done(wire.Blamed{}, err) }) },
		done: func(answer []byte, err error) {
			var blamed wire.Blamed
			if err == nil {
				err = wire.Unmarshal(answer, &blamed)
			}
			done(blamed, err)
		},
	})
}

// unsent is the decision on a request that cannot be sent.
func unsent(err error) authz.Decision {
	return authz.Failed(authz.FailureError, "The evaluation failed: "+err.Error()+".")
}

// encode makes the payload of a question, and of what it is about, which is nil for a
// decision. What cannot be sent is the end of it.
func encode(about func() []byte, prepare func() (wire.Question, bool), failed func(error)) ([]byte, bool) {
	question, ok := prepare()
	if !ok {
		return nil, false
	}
	payload, err := make([]byte, 0, 512+size(question.Asked)), error(nil)
	if about != nil {
		payload, err = wire.AppendAbout(payload, about(), question)
	} else {
		payload, err = wire.AppendQuestion(payload, question)
	}
	if err == nil && len(payload) > wire.MaxQuestion {
		err = fmt.Errorf("the request has %d bytes; an experiment may read %d", len(payload), wire.MaxQuestion)
	}
	if err != nil {
		failed(err)
		return nil, false
	}
	return payload, true
}

// size is how many bytes a request takes, but for what all of them have.
func size(asked wire.Asked) int {
	switch asked := asked.(type) {
	case wire.Check:
		return len(asked)
	case wire.Document:
		return len(asked.Input)
	}
	return 0
}

// Close ends the candidate: what waits for it is ended with ErrChanged before Close returns,
// and what is under way is cancelled. A nil Candidate is closed already.
func (c *Candidate) Close() {
	if c == nil {
		return
	}
	if c.lane != nil {
		c.lane.end(ErrChanged)
	}
	c.resolve(authz.Facts{}, ErrChanged)
}
