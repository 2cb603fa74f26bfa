package sidecar

import (
	"context"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/authz"
	"understudy/authz/extservice"
)

// services are the external services as a policy's rules see them.
type services struct{ client *extservice.Client }

func (s services) Call(ctx context.Context, to *url.URL, body []byte, shadow bool) authz.ServiceReply {
	a := s.client.Call(ctx, to, body, shadow)
	switch {
	case a.Outcome == extservice.OutcomePass:
		return authz.ServiceReply{Outcome: authz.ServicePasses}
	case a.Outcome.Denies():
		return authz.ServiceReply{Outcome: authz.ServiceDenies, Message: a.Message}
	case a.Outcome == extservice.OutcomeNotCalled:
		return authz.ServiceReply{Outcome: authz.ServiceNotCalled}
	case a.Outcome == extservice.OutcomeCanceled:
		return authz.ServiceReply{Outcome: authz.ServiceCanceled}
	}
	return authz.ServiceReply{Outcome: authz.ServiceFailed}
}

func (s services) Reused(ctx context.Context) { s.client.Reused(ctx) }

// notifyFailed logs and counts that a rule could not be notified of the end of a
// reservation, by the decision that it failed in.
func (s *Sidecar) notifyFailed(ctx context.Context, r *authz.Request, rule string, d authz.Decision) {
	s.metrics.notifyFailures.Add(ctx, 1, metric.WithAttributes(attribute.String("failure", string(d.Failure))))
	s.log.Warn("a rule could not be notified of the end of a reservation",
		"decision_id", r.ID, "rule", rule, "failure", string(d.Failure))
}
