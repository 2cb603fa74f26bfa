package authz

import (
	"context"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// lookups counts how often the decision on a live request was remembered, and how often
// it had to be made although the policy remembers. Its entry hands it on to the next
// version of the policy, so that it only grows. It is safe for concurrent use; a nil
// one counts nothing.
type lookups struct{ hits, misses atomic.Int64 }

func (l *lookups) count(hit bool) {
	switch {
	case l == nil:
	case hit:
		l.hits.Add(1)
	default:
		l.misses.Add(1)
	}
}

// observeLookups registers the counter of all policies that remember. Its labels are
// those of the snapshot.
func observeLookups(meter metric.Meter, s *Sidecar) error {
	counter, err := meter.Int64ObservableCounter("understudy.decisions.remembered",
		metric.WithDescription("Live requests that were looked up among the decisions of their policy, by policy and outcome: "+
			"hit or miss. A policy that is not remembered has none."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		snap := s.current.Load()
		if snap == nil {
			return nil
		}
		for name, e := range snap.policies {
			if p := e.live.policy; p == nil || p.memory == nil {
				continue
			}
			policy := attribute.String("policy", string(name.id()))
			o.ObserveInt64(counter, e.lookups.hits.Load(), metric.WithAttributes(policy, attribute.String("outcome", "hit")))
			o.ObserveInt64(counter, e.lookups.misses.Load(), metric.WithAttributes(policy, attribute.String("outcome", "miss")))
		}
		return nil
	}, counter)
	return err
}
