package sidecar

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/cache"
)

// path is how a live decision was made; its text is a metric label.
type path uint8

const (
	// pathHit: it was in the decision cache.
	pathHit path = iota
	// pathMiss: it was not, and the policy was evaluated.
	pathMiss
	// pathNotCached: the policy was evaluated, because decisions of this policy or on such a
	// request are never cached.
	pathNotCached
	// pathDefault: there is no policy, or it has no rules.
	pathDefault
	// pathFailed: the evaluation did not end with a decision of the policy, such as by an error
	// or the deadline. A rule that is undefined is a decision.
	pathFailed
	// pathNotReady: nothing could be asked yet, or the policy never compiled.
	pathNotReady
	paths
)

var pathNames = [paths]string{"hit", "miss", "not_cached", "default", "failed", "not_ready"}

// pathOf returns the path by which a policy made a decision after looking in its cache.
func pathOf(d authz.Decision, outcome cache.Outcome) path {
	switch {
	case d.Default:
		return pathDefault
	case !d.Failure.Lasting():
		return pathFailed
	case outcome == cache.Miss:
		return pathMiss
	}
	return pathNotCached
}

// costs are what the live decisions of one policy have cost, by the path on which they were
// made. They are kept here, and observed, because a series of the SDK would not end with its
// policy, and would cost each hit a search for its labels. It is safe for concurrent use.
type costs struct {
	by [paths]cost
	// misses is how often a decision was not found in the cache, whatever came after it.
	misses atomic.Int64
}

// cost is a number of decisions, and the time from the call of Check until there was one.
type cost struct{ decisions, nanoseconds atomic.Int64 }

// add adds a decision. The time is that which the histogram of checks has measured.
func (c *costs) add(by path, took time.Duration) {
	c.by[by].decisions.Add(1)
	c.by[by].nanoseconds.Add(int64(took))
}

// hits is how many decisions were found in the cache.
func (c *costs) hits() int64 { return c.by[pathHit].decisions.Load() }

// observeCosts registers what live decisions cost. A policy has series of the paths that were
// taken, at most six, and they end with it.
func observeCosts(meter metric.Meter, s *Sidecar) error {
	decisions, err := meter.Int64ObservableCounter("understudy.decisions",
		metric.WithDescription("Live decisions, by policy and the path on which they were made: hit (from the decision cache), miss (evaluated), "+
			"not_cached (evaluated, and never cached), default (no policy or no rules), failed (an error, a deadline), not_ready."))
	if err != nil {
		return err
	}
	seconds, err := meter.Float64ObservableCounter("understudy.decision.time", metric.WithUnit("s"),
		metric.WithDescription("Time that live decisions took, in all, by policy and the path on which they were made."))
	if err != nil {
		return err
	}
	observe := func(o metric.Observer, policy authz.PolicyID, c *costs) {
		for w := range c.by {
			n := c.by[w].decisions.Load()
			if n == 0 {
				continue
			}
			labels := metric.WithAttributes(attribute.String("policy", string(policy)), attribute.String("way", pathNames[w]))
			o.ObserveInt64(decisions, n, labels)
			o.ObserveFloat64(seconds, time.Duration(c.by[w].nanoseconds.Load()).Seconds(), labels)
		}
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		observe(o, "", &s.unknown)
		if snap := s.current.Load(); snap != nil {
			for name, e := range snap.policies {
				observe(o, name.ID(), e.costs)
			}
		}
		return nil
	}, decisions, seconds)
	return err
}
