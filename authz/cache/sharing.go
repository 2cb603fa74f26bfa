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
	// underWay :: node that was missing → the evaluation.
	underWay map[id]*evaluation
}

// evaluation is one that others may wait for.
type evaluation struct {
	// done is closed when it is over.
	done chan struct{}
}

// join returns the evaluation that was begun at a missing node and is under way, or begins one, which is
// the caller's own to end.
func (e *evaluations) join(missing id) (one *evaluation, own bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if one := e.underWay[missing]; one != nil {
		return one, false
	}
	if e.underWay == nil {
		e.underWay = make(map[id]*evaluation)
	}
	one = &evaluation{done: make(chan struct{})}
	e.underWay[missing] = one
	return one, true
}

// end ends an evaluation of the caller's own.
func (e *evaluations) end(missing id, one *evaluation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.underWay, missing)
	close(one.done)
}

// wait waits until an evaluation is over, ctx is done, or it takes too long.
func (one *evaluation) wait(ctx context.Context) {
	timer := time.NewTimer(longestShare)
	defer timer.Stop()
	select {
	case <-one.done:
	case <-ctx.Done():
	case <-timer.C:
	}
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
	one, own := p.evaluations.join(s.missing)
	if own {
		defer p.evaluations.end(s.missing, one)
		return p.Evaluate(ctx, r, c), false
	}
	one.wait(ctx)
	if d, outcome := p.Find(ctx, r); outcome == Hit {
		return d, true
	}
	return p.Evaluate(ctx, r, c), false
}
