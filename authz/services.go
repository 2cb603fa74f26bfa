package authz

import (
	"context"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz/extservice"
)

// services are the external services as a policy's rules see them.
type services struct{ client *extservice.Client }

func (s services) Call(ctx context.Context, to *url.URL, body []byte, shadow bool) ServiceReply {
	a := s.client.Call(ctx, to, body, shadow)
	switch {
	case a.Outcome == extservice.OutcomePass:
		return ServiceReply{Outcome: ServicePasses}
	case a.Outcome.Denies():
		return ServiceReply{Outcome: ServiceDenies, Message: a.Message}
	case a.Outcome == extservice.OutcomeNotCalled:
		return ServiceReply{Outcome: ServiceNotCalled}
	case a.Outcome == extservice.OutcomeCanceled:
		return ServiceReply{Outcome: ServiceCanceled}
	}
	return ServiceReply{Outcome: ServiceFailed}
}

func (s services) Reused(ctx context.Context) { s.client.Reused(ctx) }

// notifyFailed logs and counts that a rule could not be notified of the end of a
// reservation, by the decision that it failed in.
func (s *Sidecar) notifyFailed(ctx context.Context, r *Request, rule string, d Decision) {
	s.metrics.notifyFailures.Add(ctx, 1, metric.WithAttributes(attribute.String("failure", string(d.Failure))))
	s.log.Warn("a rule could not be notified of the end of a reservation",
		"decision_id", r.ID, "rule", rule, "failure", string(d.Failure))
}
