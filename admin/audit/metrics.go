package audit

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// fate is what became of an event.
type fate string

// The fates.
const (
	// written: it is in the queue.
	written fate = "written"
	// dropped: there was no slot.
	dropped fate = "dropped"
	// refused: there was no slot, and the call was not made.
	refused fate = "refused"
	// folded: a later event about calls like it counts it.
	folded fate = "folded"
)

// counts counts the events by their fates.
type counts struct {
	events metric.Int64Counter
	fates  map[fate]metric.MeasurementOption
}

// newCounts returns counts of zero.
func newCounts(meters metric.MeterProvider) (*counts, error) {
	events, err := meters.Meter("understudy/admin").Int64Counter("understudy.audit.events", metric.WithUnit("{event}"),
		metric.WithDescription("Events of the audit log, by outcome: written, dropped (the queue was full), refused (so the call was not made), folded (into a later event: refused credentials, and calls that change nothing and are alike)."))
	if err != nil {
		return nil, err
	}
	c := &counts{events: events, fates: make(map[fate]metric.MeasurementOption)}
	for _, f := range []fate{written, dropped, refused, folded} {
		c.fates[f] = metric.WithAttributeSet(attribute.NewSet(attribute.String("outcome", string(f))))
		events.Add(context.Background(), 0, c.fates[f]) // an alert on a rise needs the zero
	}
	return c, nil
}

// add counts events.
func (c *counts) add(ctx context.Context, f fate, n int) { c.events.Add(ctx, int64(n), c.fates[f]) }
