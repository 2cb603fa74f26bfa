package reservation

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// measure makes the counter of calls, visible from the beginning where it matters.
func (h *Handler) measure() (err error) {
	h.calls, err = h.config.Meters.Meter("understudy/authz").Int64Counter("understudy.reservation.calls",
		metric.WithDescription("Calls of Blazar's that were answered, by call and HTTP status."))
	if err != nil {
		return err
	}
	for _, c := range calls {
		h.calls.Add(context.Background(), 0, labels(c, allowed.status))
		h.calls.Add(context.Background(), 0, labels(c, errToken.status))
		h.calls.Add(context.Background(), 0, labels(c, errBusy.status))
	}
	return nil
}

func (h *Handler) count(ctx context.Context, c call, status int) {
	h.calls.Add(context.WithoutCancel(ctx), 1, labels(c, status))
}

// labels are bounded: the name of a call, empty for a path that is none, and a status.
func labels(c call, status int) metric.MeasurementOption {
	return metric.WithAttributes(attribute.String("call", c.name), attribute.Int("status", status))
}
