package rehearsal

import (
	"context"
	"sync/atomic"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/examine"
	"understudy/authz/rehearsal/supervisor"
)

// Candidate is a policy of an experiment, which the rehearsal process compiles and
// evaluates. It is safe for concurrent use; Close ends it.
type Candidate struct {
	// name is the resource name of the experiment.
	name string
	side examine.Candidate
	// shadow has the metrics of the experiment until the candidate is closed.
	shadow  *Shadow
	metrics *experimentMetrics
	// bytes is the memory of the requests that wait for the candidate.
	bytes  atomic.Int64
	closed atomic.Bool
	coin   coin
}

// NewCandidate begins to compile the policy of an experiment. name is its resource name.
func (s *Shadow) NewCandidate(name string, source *adminpb.Policy) *Candidate {
	c := &Candidate{name: name, shadow: s, metrics: s.metrics.open(name)}
	c.side.Source, c.side.Exempted = source, authz.NewExemptions(source)
	if s.config.Process != nil {
		c.side.Remote = s.config.Process.NewRemotePolicy(source, supervisor.Options{
			Name: name, Keeps: true, Queue: s.config.Limits.Queue, ExaminationBytes: s.config.Limits.ExaminationBytes(),
		})
	}
	return c
}

// Ready is closed when it is known whether the policy compiles.
func (c *Candidate) Ready() <-chan struct{} {
	if c.side.Remote == nil {
		return closed
	}
	return c.side.Remote.Ready()
}

// closed is a channel that is closed.
var closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Err returns why the policy does not compile, once it is ready.
func (c *Candidate) Err() error {
	if c.side.Remote == nil {
		return nil
	}
	_, err := c.side.Remote.Facts()
	return err
}

// Source is the policy.
func (c *Candidate) Source() *adminpb.Policy { return c.side.Source }

// Close ends the candidate, and the series of its experiment if that has no other one. What
// waits for it is dropped and counted before Close returns.
func (c *Candidate) Close() {
	if c.closed.Swap(true) {
		return
	}
	if c.side.Remote != nil {
		c.side.Remote.Close()
	}
	if c.shadow.work.Err() == nil { // at the end of the process, the last export has all counts
		c.shadow.metrics.close(c.name)
	}
}

// noRules decides where there are none, and about the end of a reservation, of which an
// experiment notifies nobody.
var noRules = &authz.Policy{}

// find returns the decision on a request if nobody need be asked for it.
func (c *Candidate) find(ctx context.Context, r *authz.Request, byDefault authz.Effect) (authz.Decision, bool) {
	switch {
	case r.Operation == authz.OperationOnEnd, len(c.side.Source.GetRules()) == 0:
		return noRules.Decide(ctx, r, authz.Conditions{Shadow: true, Default: byDefault}), true
	case c.side.Exempted.Cover(r):
		return c.side.Exempted.Decision(), true
	}
	return authz.Decision{}, false
}
