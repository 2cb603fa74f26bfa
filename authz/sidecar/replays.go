package sidecar

import (
	"context"
	"slices"
	"sync"
	"time"

	"understudy/authz"
	"understudy/authz/rehearsal"
	"understudy/authz/rehearsal/recent"
)

// replays has what is replayed for experiments that become ACTIVE: requests that were decided
// before. It is safe for concurrent use; nil keeps nothing.
type replays struct {
	requests *recent.Requests

	mu sync.Mutex
	// seen :: experiment and content → when it was ACTIVE last, as long as there may be requests
	// from before: they were compared or replayed, and are not again if it is started anew.
	seen map[seenKey]time.Time
}

// seenKey is a content of an experiment.
type seenKey struct{ uid, etag string }

// seenOf returns the key of an experiment of an entry.
func (e *entry) seenOf(x *rehearsal.Experiment) seenKey {
	return seenKey{uid: e.experiment(x.Name).GetUid(), etag: x.Etag}
}

// newReplays returns nil for zero requests.
func newReplays(requests int) *replays {
	if requests <= 0 {
		return nil
	}
	return &replays{requests: recent.New(requests), seen: make(map[seenKey]time.Time)}
}

// keep offers a request with the live decision on it to the sample.
func (p *replays) keep(e *entry, r *authz.Request, d authz.Decision) {
	if p != nil && !e.broken {
		p.requests.Offer(recent.Version{Policy: e.live.Name, Etag: e.live.Etag}, r, d)
	}
}

// of returns what is to be replayed for an experiment of an entry that has just compiled: what
// the present version of the live policy has decided before the experiment was there.
func (p *replays) of(e *entry, begun pendingExperiment) []*recent.Request {
	if p == nil || e.broken {
		return nil
	}
	p.mu.Lock()
	after := p.seen[e.seenOf(begun.experiment)]
	p.mu.Unlock()
	return p.requests.Of(recent.Version{Policy: e.live.Name, Etag: e.live.Etag}, after, begun.since)
}

// follow ends what nothing can be replayed of any more, and notes which experiments are not
// ACTIVE any more.
func (p *replays) follow(before, next *snapshot) {
	if p == nil || before == nil {
		return
	}
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, e := range before.policies {
		after := next.policies[name]
		if after == nil {
			after = &entry{}
		}
		if after.live.Etag != e.live.Etag {
			p.requests.Forget(recent.Version{Policy: string(name), Etag: after.live.Etag})
		}
		for _, x := range e.experiments {
			if !e.isPending(x) && !after.has(x.Candidate) {
				p.seen[e.seenOf(x)] = now
			}
		}
	}
	for key, at := range p.seen {
		if now.Sub(at) > recent.KeepTime {
			delete(p.seen, key)
		}
	}
}

// isPending reports whether it is not known yet if an experiment compiles.
func (e *entry) isPending(x *rehearsal.Experiment) bool {
	return slices.ContainsFunc(e.pending, func(p pendingExperiment) bool { return p.experiment == x })
}

// has reports whether an experiment of the entry is decided by a candidate.
func (e *entry) has(c *rehearsal.Candidate) bool {
	return slices.ContainsFunc(e.experiments, func(x *rehearsal.Experiment) bool { return x.Candidate == c })
}

// run ends what was kept for too long, until ctx is done.
func (p *replays) run(ctx context.Context) {
	if p != nil {
		p.requests.Run(ctx)
	}
}
