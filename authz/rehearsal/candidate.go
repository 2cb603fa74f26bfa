package rehearsal

import (
	"context"
	"sync/atomic"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/rehearsal/supervisor"
)

// Candidate is a policy of an experiment, which the rehearsal process compiles and
// evaluates. What it has decided is cached here, so that a request whose decision is known
// never gets there. It is safe for concurrent use; Close ends it.
type Candidate struct {
	// name is the resource name of the experiment.
	name     string
	source   *adminpb.Policy
	exempted authz.Exemptions
	remote   *supervisor.Candidate
	// shadow has the tally in its metrics until the candidate is closed.
	shadow *Shadow
	tally  *tally
	// known is nil until the policy has compiled.
	known atomic.Pointer[known]
	// settled is closed when known is set, or never will be.
	settled chan struct{}
	// bytes is the memory of the requests that wait for the candidate.
	bytes  atomic.Int64
	closed atomic.Bool
	// unexamined is set when an examination ended the rehearsal process: there are no more.
	unexamined atomic.Bool
	// pair is the coverage of the pair that the candidate is in; nil before the first request.
	pair atomic.Pointer[pairCoverage]
}

// known is what is known of a policy that has compiled.
type known struct {
	reads *authz.ReadSet
	// cache is nil if decisions cannot be cached, or are not to be.
	cache *cache.Cache
}

// NewCandidate begins to compile the policy of an experiment. name is its resource name.
// cached is the number of decisions to cache; negative means none.
func (s *Shadow) NewCandidate(name string, source *adminpb.Policy, cached int) *Candidate {
	c := &Candidate{
		name: name, source: source, exempted: authz.NewExemptions(source),
		shadow: s, tally: s.metrics.open(name), settled: make(chan struct{}),
	}
	if s.config.Process == nil {
		close(c.settled)
		return c
	}
	c.remote = s.config.Process.NewCandidate(source, supervisor.Options{Name: name, Keeps: true, Queue: s.config.Limits.Queue})
	go c.settle(cached)
	return c
}

// settle waits until it is known whether the policy compiles.
func (c *Candidate) settle(cached int) {
	defer close(c.settled)
	<-c.remote.Ready()
	facts, err := c.remote.Facts()
	if err != nil {
		return
	}
	// No calls of built-ins that the experiment chose are made in this process, not even to
	// look for its decision.
	k := &known{reads: authz.NewReadSet(facts.Reads.WithoutCalls())}
	if facts.Cacheable && !facts.NoRules && !k.reads.Whole() && cached > 0 {
		// The error is that of a size that is none.
		k.cache, _ = cache.New(k.reads, cached)
	}
	c.known.Store(k)
}

// Ready is closed when it is known whether the policy compiles.
func (c *Candidate) Ready() <-chan struct{} { return c.settled }

// Err returns why the policy does not compile, once it is ready.
func (c *Candidate) Err() error {
	if c.remote == nil {
		return nil
	}
	_, err := c.remote.Facts()
	return err
}

// Source is the policy.
func (c *Candidate) Source() *adminpb.Policy { return c.source }

// Cache returns the decisions that are cached; nil if none are.
func (c *Candidate) Cache() *cache.Cache {
	if k := c.known.Load(); k != nil {
		return k.cache
	}
	return nil
}

// Close ends the candidate, and the series of its experiment if that has no other one. What
// waits for it is dropped and counted before Close returns.
func (c *Candidate) Close() {
	if c.closed.Swap(true) {
		return
	}
	if c.remote != nil {
		c.remote.Close()
	}
	if c.shadow.work.Err() == nil { // at the end of the process, the last export has all counts
		c.shadow.metrics.close(c.name)
	}
}

// noRules decides where there are none, and about the end of a reservation, of which an
// experiment notifies nobody.
var noRules = &authz.Policy{}

// find returns the decision on a request if nobody need be asked for it.
func (c *Candidate) find(ctx context.Context, r *authz.Request, byDefault authz.Verdict) (authz.Decision, bool) {
	switch {
	case r.Operation == authz.OperationOnEnd, len(c.source.GetRules()) == 0:
		return noRules.Decide(ctx, r, authz.Conditions{Shadow: true, Default: byDefault}), true
	case c.exempted.Cover(r):
		return c.exempted.Decision(), true
	}
	d, outcome := c.Cache().Find(ctx, r)
	return d, outcome == cache.Hit
}
