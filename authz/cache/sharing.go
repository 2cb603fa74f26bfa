package cache

import (
	"context"
	"sync"
	"time"

	"understudy/authz"
)

// longestShare is how long an evaluation of an equal request is waited for.
const longestShare = time.Second

// evaluations are those of requests that are being decided, so that equal ones are decided
// once. The zero value has none. It is safe for concurrent use.
type evaluations struct {
	mu sync.Mutex
	// underWay :: node that was missing → what is closed when the evaluation is over.
	underWay map[id]chan struct{}
}

// begin begins an evaluation at a missing node, which the caller has to end. If one is under way, it returns what is
// closed when that is over.
func (e *evaluations) begin(missing id) (underWay <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if over := e.underWay[missing]; over != nil {
		return over
	}
	if e.underWay == nil {
		e.underWay = make(map[id]chan struct{})
	}
	e.underWay[missing] = make(chan struct{})
	return nil
}

// end ends an evaluation of the caller's own.
func (e *evaluations) end(missing id) {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.underWay[missing])
	delete(e.underWay, missing)
}

// EvaluateShared is [Policy.Evaluate] of a request whose decision was not found, unless one is being
// decided that is equal in all that was asked so far: then that decision is waited for, once, and looked
// for again. After a commit the requests that come most come many at a time, and are evaluated once. It
// reports whether the decision was found. One that is not kept is nobody else's: each request gets its
// own.
func (p *Policy) EvaluateShared(ctx context.Context, r *authz.Request, c authz.Conditions, s Search) (d authz.Decision, found bool) {
	if s.Outcome != Miss {
		return p.Evaluate(ctx, r, c), false
	}
	underWay := p.evaluations.begin(s.missing)
	if underWay == nil {
		defer p.evaluations.end(s.missing)
		return p.Evaluate(ctx, r, c), false
	}
	ctxWait, stop := context.WithTimeout(ctx, longestShare)
	defer stop()
	select {
	case <-underWay:
	case <-ctxWait.Done():
	}
	if d, outcome := p.Find(ctx, r); outcome == Hit {
		return d, true
	}
	return p.Evaluate(ctx, r, c), false
}
