package decisionrequest

import (
	"slices"
	"sync"
	"time"

	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/rehearsal/supervisor"
)

// Live is a live policy under the name and etag that records name it by. It is immutable.
type Live struct {
	// Name is the resource name of the policy.
	Name string
	Etag string
	// Policy is nil if it did not compile.
	Policy *cache.Policy
	// Source is what was compiled.
	Source *authz.Packed
}

// maxLivePolicies is how many live policies are kept compiled in the rehearsal process: each
// takes some of its memory.
const maxLivePolicies = 16

// suspension is for how long a live policy is not asked that has ended the rehearsal process
// again and again: what does that may be requests, and who sends them must not keep its
// decisions from being verified for good.
const suspension = 10 * time.Minute

// LivePolicies are the live policies that the rehearsal process has compiled, those asked
// last first: for their decisions to be verified, and compared with those of experiments in
// more detail. They are safe for concurrent use.
type LivePolicies struct {
	process *supervisor.Supervisor
	// examinationBytes are those of their options.
	examinationBytes int

	mu     sync.Mutex
	known  []livePolicy
	closed bool
}

type livePolicy struct {
	name      string
	policy    *cache.Policy
	candidate *supervisor.RemotePolicy
}

// NewLivePolicies returns live policies for a rehearsal process, which may be nil: then
// there are none. examinationBytes are those of [supervisor.Options].
func NewLivePolicies(process *supervisor.Supervisor, examinationBytes int) *LivePolicies {
	return &LivePolicies{process: process, examinationBytes: examinationBytes}
}

// Available reports whether there is a process.
func (p *LivePolicies) Available() bool { return p.process != nil }

// Of returns the live policy in the rehearsal process; nil if there is no process, no
// more, or the policy cannot be unpacked. Another version of the policy takes the place of the
// one before.
func (p *LivePolicies) Of(live *Live) *supervisor.RemotePolicy {
	candidate, gone := p.of(live)
	gone.Close() // what waited for it may ask for another one
	return candidate
}

// of returns the policy, and what it takes the place of.
func (p *LivePolicies) of(live *Live) (candidate, gone *supervisor.RemotePolicy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.closed {
		return nil, nil
	}
	i := slices.IndexFunc(p.known, func(known livePolicy) bool { return known.name == live.Name })
	if i >= 0 && p.known[i].policy == live.Policy {
		one := p.known[i]
		p.known = slices.Insert(slices.Delete(p.known, i, i+1), 0, one)
		return one.candidate, nil
	}
	source, err := live.Source.Policy()
	if err != nil {
		return nil, nil
	}
	if i < 0 && len(p.known) >= maxLivePolicies {
		i = len(p.known) - 1
	}
	if i >= 0 {
		gone = p.known[i].candidate
		p.known = slices.Delete(p.known, i, i+1)
	}
	candidate = p.process.NewRemotePolicy(source, supervisor.Options{
		Name: live.Name + " (live)", Suspension: suspension, ExaminationBytes: p.examinationBytes,
	})
	p.known = slices.Insert(p.known, 0, livePolicy{live.Name, live.Policy, candidate})
	return candidate, gone
}

// Close ends all of them.
func (p *LivePolicies) Close() {
	p.mu.Lock()
	all := p.known
	p.known, p.closed = nil, true
	p.mu.Unlock()
	for _, known := range all {
		known.candidate.Close()
	}
}
