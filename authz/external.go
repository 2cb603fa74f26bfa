package authz

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// ExternalConfig bounds the calls of external services: who may be called, with which
// token, and what a call may cost. A policy names the services; this is what the
// operator of the server has to say about it. The zero value is safe: no tokens, no
// address of this machine, no calls for experiments.
type ExternalConfig struct {
	// Tokens :: host, or host:port, of a service → the token that it is sent as
	// X-Auth-Token. A host without a port is that host at any port. No other host ever
	// gets a token. A token goes over TLS alone, for it is the policy that chooses the
	// scheme: over http:// its service is not called, unless its key begins so too.
	Tokens map[string]TokenSource
	// AllowHosts are hosts that may be on this machine or its link (loopback and
	// link-local addresses). Instance metadata stays refused.
	AllowHosts []string
	// AllowAddresses are addresses that may be called although they would be refused.
	AllowAddresses []netip.Prefix
	// Timeout bounds one call, from the resolution of the name to the last byte of the
	// answer. Zero means two seconds.
	Timeout time.Duration
	// Concurrency is the number of calls under way to one service; what is beyond fails
	// at once. Experiments have a quarter of it, beside the live calls. Zero means 64.
	Concurrency int
	// ShadowCalls allows calls for experiments, where the live policy did not ask the
	// same. The end of a reservation is never told for an experiment.
	ShadowCalls bool
	// Resolver resolves names. Nil means the system's.
	Resolver *net.Resolver
	// RootCAs are the authorities that services are trusted by. Nil means the system's.
	RootCAs *x509.CertPool
	// Tracer makes a span of each call. Nil means none.
	Tracer trace.Tracer
}

// TokenSource returns the present token for a service. It is called for each call and
// has to be safe for concurrent use. An error fails the call; it is not logged.
type TokenSource func() (string, error)

func (c ExternalConfig) withDefaults() ExternalConfig {
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	if c.Concurrency == 0 {
		c.Concurrency = 64
	}
	if c.Tracer == nil {
		c.Tracer = noTracer
	}
	hosts := make([]string, len(c.AllowHosts))
	for i, host := range c.AllowHosts {
		hosts[i] = hostName(host)
	}
	tokens := make(map[string]TokenSource, len(c.Tokens))
	for host, source := range c.Tokens {
		tokens[hostName(host)] = source
	}
	c.AllowHosts, c.Tokens = hosts, tokens
	return c
}

func (c ExternalConfig) check() error {
	if c.Timeout < 0 || c.Concurrency < 0 {
		return errors.New("authz: ExternalConfig.Timeout and Concurrency are not negative")
	}
	for host, source := range c.Tokens {
		if host == "" || source == nil {
			return fmt.Errorf("authz: ExternalConfig.Tokens needs a host and a source; %q has none", host)
		}
	}
	return nil
}

// hostName is the form in which hosts are compared.
func hostName(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// external calls external services. It never follows a redirect or a proxy, bounds
// time, size and number of the calls, and refuses addresses when it connects. It is
// safe for concurrent use. A nil external calls nobody.
type external struct {
	config   ExternalConfig
	client   *http.Client
	bulkhead *bulkhead
	metrics  *externalMetrics
	log      *slog.Logger
}

// newExternal returns the client of a sidecar.
func newExternal(config ExternalConfig, meters metric.MeterProvider, log *slog.Logger) (*external, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	metrics, err := newExternalMetrics(meters, log)
	if err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &external{
		config:   config,
		client:   newExternalClient(config),
		bulkhead: newBulkhead(config.Concurrency),
		metrics:  metrics,
		log:      log,
	}, nil
}

// ask returns the answer to a call. For an experiment, that is the answer that the
// live policy got to the same call, if there is one.
func (e *external) ask(ctx context.Context, q question, c call) answer {
	if e == nil {
		return answer{outcome: callNotCalled}
	}
	key := c.key()
	if q.shadow {
		if known, ok := q.request.answers.find(key); ok {
			e.metrics.reused(ctx)
			return known
		}
		if !e.config.ShadowCalls {
			return answer{outcome: callNotCalled}
		}
	}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, q.request.span(trace.SpanContext{}))
	}
	a := e.call(ctx, c, q.shadow)
	q.request.answers.keep(key, a)
	return a
}

// untold logs and counts that a rule could not be told of the end of a reservation,
// by the decision that it failed in.
func (e *external) untold(ctx context.Context, id, rule string, d Decision) {
	if e == nil {
		return
	}
	e.metrics.untold(ctx, d.Failure)
	e.log.Warn("a rule could not be told of the end of a reservation",
		"decision_id", id, "rule", rule, "failure", string(d.Failure))
}

// close lets go of the connections that no call uses.
func (e *external) close() { e.client.CloseIdleConnections() }
