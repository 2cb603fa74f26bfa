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

// RemotePolicy is a policy that is compiled and evaluated by the rehearsal process: that of an
// experiment, or a live one whose decisions are verified. It is safe for concurrent use.
type RemotePolicy struct {
	lane *lane

	once  sync.Once
	ready chan struct{}
	facts authz.Facts
	err   error
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
	// Queue is the number of requests that may wait. Zero means 4096.
	Queue int
	// ExaminationBytes bounds the memory of the requests that wait to be examined, by all candidates. One that
	// comes then has those of its candidate make room. Zero means 8 MiB.
	ExaminationBytes int
}

// NewRemotePolicy begins to compile a policy.
func (s *Supervisor) NewRemotePolicy(p *adminpb.Policy, options Options) *RemotePolicy {
	c := &RemotePolicy{ready: make(chan struct{})}
	source, err := marshal(p)
	if err != nil {
		c.resolve(authz.Facts{}, fmt.Errorf("encoding the policy: %w", err))
		return c
	}
	l, err := s.newLane(laneOptions{
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
func (p *RemotePolicy) Ready() <-chan struct{} { return p.ready }

// Facts returns what is known of the policy, once it is ready. The error is that of a policy
// that does not compile.
func (p *RemotePolicy) Facts() (authz.Facts, error) { return p.facts, p.err }

// ReadsBody reports whether the policy may read the body of a request. As long as that is not known it may.
func (p *RemotePolicy) ReadsBody() bool {
	if p == nil {
		return true
	}
	select {
	case <-p.ready:
		return p.err != nil || p.facts.ReadsBody
	default:
		return true
	}
}

// Waiting is how many requests wait. A nil RemotePolicy has none.
func (p *RemotePolicy) Waiting() int {
	if p == nil || p.lane == nil {
		return 0
	}
	p.lane.s.mu.Lock()
	defer p.lane.s.mu.Unlock()
	return len(p.lane.queue)
}

// Compiled waits until it is known whether the policy compiles, and returns why it does not.
func (p *RemotePolicy) Compiled() error {
	<-p.ready
	return p.err
}

func (p *RemotePolicy) resolve(facts authz.Facts, err error) {
	p.once.Do(func() {
		p.facts, p.err = facts, err
		close(p.ready)
	})
}

// compiled is called after each compilation, of which there is one in each child. The first
// one counts.
func (p *RemotePolicy) compiled(answer []byte, err error) {
	if err != nil {
		p.resolve(authz.Facts{}, refusal(err, "Compiling the policy fails: "))
		return
	}
	var answered wire.Compiled
	if err := wire.Unmarshal(answer, &answered); err != nil {
		p.resolve(authz.Facts{}, err)
		return
	}
	if err := answered.Refused.Err(); err != nil {
		p.resolve(authz.Facts{}, err)
		return
	}
	p.resolve(answered.Facts, nil)
}

// DecisionRequest is what a candidate is asked about a request.
type DecisionRequest struct {
	// Prepare makes the request off the request path. It reports false if there is none to
	// ask: then Done is not called.
	Prepare func() (wire.DecisionRequest, bool)
	// Call answers a call of an external service; nil answers none.
	Call func(wire.Call) wire.Answer
	// Done is called once with the decision, or with why there is none: one of the errors of
	// this package, or a *CrashError. It must not wait.
	Done func(authz.Decision, error)
}

// offer adds a task to the lane. A nil RemotePolicy is of a process that was never there.
func (p *RemotePolicy) offer(t *task) error {
	switch {
	case p == nil:
		return ErrUnavailable
	case p.lane == nil:
		return p.err
	}
	return p.lane.offer(t)
}

// Decide asks the candidate for a decision, without waiting. The error says why it is not
// asked; Done is not called then.
func (p *RemotePolicy) Decide(q DecisionRequest) error { return p.offer(p.deciding(q)) }

// deciding is the task to decide.
func (p *RemotePolicy) deciding(q DecisionRequest) *task {
	return &task{
		kind: wire.KindEvaluate, call: q.Call,
		prepare: func() ([]byte, bool) { return encode(q.Prepare, func(err error) { q.Done(unsent(err), nil) }) },
		done: func(answer []byte, err error) {
			var d authz.Decision
			if err == nil {
				d, err = p.answers.parse(answer)
			}
			q.Done(d, err)
		},
	}
}

// Blame asks the candidate which rule decides otherwise by shortcut than without, without
// waiting. done is called as that of a DecisionRequest; the rule is empty if there is none, or the
// request is not asked about by its bytes.
func (p *RemotePolicy) Blame(prepare func() (wire.DecisionRequest, bool), done func(wire.Blamed, error)) error {
	return p.offer(&task{
		kind:    wire.KindBlame,
		prepare: func() ([]byte, bool) { return encode(prepare, func(err error) { done(wire.Blamed{}, err) }) },
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

// encode makes the payload of a request. What cannot be sent is the end of it.
func encode(prepare func() (wire.DecisionRequest, bool), failed func(error)) ([]byte, bool) {
	request, ok := prepare()
	if !ok {
		return nil, false
	}
	payload, err := wire.AppendDecisionRequest(nil, request)
	if err == nil && len(payload) > wire.MaxDecisionRequest {
		err = fmt.Errorf("the request has %d bytes; an experiment may read %d", len(payload), wire.MaxDecisionRequest)
	}
	if err != nil {
		failed(err)
		return nil, false
	}
	return payload, true
}

// Close ends the candidate: what waits for it is ended with ErrChanged before Close returns,
// and what is under way is cancelled. A nil RemotePolicy is closed already.
func (p *RemotePolicy) Close() {
	if p == nil {
		return
	}
	if p.lane != nil {
		p.lane.end(ErrChanged)
	}
	p.resolve(authz.Facts{}, ErrChanged)
}
