package authz

import (
	"context"

	"go.opentelemetry.io/otel/metric"
)

// observingKey is the attribute of a preview record that says that nobody enforces the
// decision it calls live.
const observingKey = "understudy.observing"

// observeObserving makes the gauge that says whether decisions are enforced: it is there
// in any case, so that an alert need not tell 0 from a sidecar that is away.
func observeObserving(meter metric.Meter, observing bool) error {
	var value int64
	if observing {
		value = 1
	}
	_, err := meter.Int64ObservableGauge("understudy.observing",
		metric.WithDescription("1 if decisions are made and not enforced (serve --observe)."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(value)
			return nil
		}))
	return err
}
