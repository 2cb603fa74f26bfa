package reservation

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// measure makes the counter. Series of the usual statuses begin at zero, since a rate
// needs a first value before the first event.
func (h *Handler) measure() (err error) {
	h.calls, err = h.config.Meters.Meter("understudy/authz").Int64Counter("understudy.reservation.calls",
		metric.WithDescription("Calls of Blazar's that were answered, by call and HTTP status."))
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		h.calls.Add(context.Background(), 0, labels(e, allowed.status))
		h.calls.Add(context.Background(), 0, labels(e, errToken.status))
		h.calls.Add(context.Background(), 0, labels(e, errBusy.status))
	}
	return nil
}

// count counts a request also if its caller has gone away meanwhile.
func (h *Handler) count(ctx context.Context, e endpoint, status int) {
	h.calls.Add(context.WithoutCancel(ctx), 1, labels(e, status))
}

// labels are bounded: the name of a call, empty for a path that is none, and a status.
func labels(e endpoint, status int) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("call", e.name), attribute.Int("status", status))
}
