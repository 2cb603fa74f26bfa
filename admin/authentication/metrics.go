package authentication

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"understudy/admin/access"
	"understudy/admin/authentication/oidc"
)

// outcome is how an authentication ended, as a metric label.
type outcome string

// The outcomes. Those of tokens of an issuer are in package oidc.
const (
	outcomeOK          outcome = "ok"
	outcomeMissing     outcome = "missing"
	outcomeUnknown     outcome = "unknown"
	outcomeMalformed   outcome = "malformed"
	outcomeExpired     outcome = "expired"
	outcomeRevoked     outcome = "revoked"
	outcomeUnavailable outcome = "unavailable"
)

// metrics counts authentications.
type metrics struct{ count metric.Int64Counter }

// newMetrics makes the counters.
func newMetrics(c Config) (*metrics, error) {
	provider := c.Meters
	if provider == nil {
		provider = noop.NewMeterProvider()
	}
	meter := provider.Meter("understudy/authentication")
	if err := errors.Join(observeFailures(meter, c), observeExpiry(meter, c)); err != nil {
		return nil, err
	}
	count, err := meter.Int64Counter("understudy.authentications",
		metric.WithDescription("Requests to the admin port by how they were authenticated (method) and how that ended (outcome)."))
	if err != nil {
		return nil, err
	}
	return &metrics{count}, nil
}

// observeFailures makes the counter of what could not be read again.
func observeFailures(meter metric.Meter, c Config) error {
	_, err := meter.Int64ObservableCounter("understudy.authentication.refresh_failures",
		metric.WithDescription("How often the token files (source token_file), the file of revoked principals (revoked_file) or the keys of an issuer (source issuer, with its URL as issuer) could not be read; those before stay."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if c.Tokens != nil {
				o.Observe(c.Tokens.Failures(), metric.WithAttributes(attribute.String("source", "token_file")))
			}
			if c.Revoked != nil {
				o.Observe(c.Revoked.Failures(), metric.WithAttributes(attribute.String("source", "revoked_file")))
			}
			for _, i := range c.Issuers {
				o.Observe(i.Failures(), metric.WithAttributes(attribute.String("source", "issuer"), attribute.String("issuer", i.URL())))
			}
			return nil
		}))
	return err
}

// observeExpiry makes the gauge of when a token expires. It has no names: anybody who reaches the health port can read it.
func observeExpiry(meter metric.Meter, c Config) error {
	_, err := meter.Int64ObservableGauge("understudy.authentication.token.expiry", metric.WithUnit("s"),
		metric.WithDescription("When the first name of the token files has no valid token any more, in seconds of Unix time; the log has the names. Absent if no token expires."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			if c.Tokens == nil {
				return nil
			}
			if expiry := c.Tokens.Expiry(); !expiry.IsZero() {
				o.Observe(expiry.Unix())
			}
			return nil
		}))
	return err
}

// add counts one authentication.
func (m *metrics) add(ctx context.Context, method access.Method, err error) {
	if method == "" {
		method = "none"
	}
	m.addOutcome(ctx, method, outcomeOf(err))
}

// addOutcome counts one authentication that ended in a way.
func (m *metrics) addOutcome(ctx context.Context, method access.Method, o outcome) {
	m.count.Add(ctx, 1, metric.WithAttributes(attribute.String("method", string(method)), attribute.String("outcome", string(o))))
}

// outcomeOf returns how an error of identify is counted.
func outcomeOf(err error) outcome {
	var bad refusal
	var refused *oidc.Refusal
	switch {
	case err == nil:
		return outcomeOK
	case errors.As(err, &bad):
		return bad.outcome
	case errors.As(err, &refused):
		return outcome(refused.Outcome)
	}
	return outcomeUnavailable
}
