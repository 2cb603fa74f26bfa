package extservice

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
	"go.opentelemetry.io/otel/trace/noop"
)

// Config bounds the calls of external services: who may be called, with which
// token, and what a call may cost. A policy names the services; this is what the
// operator of the server has to say about it. The zero value is safe: no tokens, no
// address of this machine, no calls for experiments.
type Config struct {
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
	// at once. Experiments have a quarter of it, next to the live calls. Zero means 64.
	Concurrency int
	// ShadowCalls allows calls for experiments, where the live policy did not ask the
	// same. An experiment never notifies a service of the end of a reservation.
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

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = 2 * time.Second
	}
	if c.Concurrency == 0 {
		c.Concurrency = 64
	}
	if c.Tracer == nil {
		c.Tracer = noop.NewTracerProvider().Tracer("understudy/authz")
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

func (c Config) check() error {
	if c.Timeout < 0 || c.Concurrency < 0 {
		return errors.New("extservice: Config.Timeout and Concurrency are not negative")
	}
	for host, source := range c.Tokens {
		if host == "" || source == nil {
			return fmt.Errorf("extservice: Config.Tokens needs a host and a source; %q has none", host)
		}
	}
	return nil
}

// hostName is the form in which hosts are compared.
func hostName(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

// Client calls external services. It never follows a redirect or a proxy, bounds
// time, size and number of the calls, and refuses addresses when it connects. It is
// safe for concurrent use.
type Client struct {
	config   Config
	http     *http.Client
	bulkhead *bulkhead
	metrics  *metrics
}

// New returns a client that counts its calls with meters and logs when a service begins to
// fail and when it is back. An error is that of a wrong configuration, or of meters.
func New(config Config, meters metric.MeterProvider, log *slog.Logger) (*Client, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics(meters, log)
	if err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Client{
		config:   config,
		http:     newHTTPClient(config),
		bulkhead: newBulkhead(config.Concurrency),
		metrics:  metrics,
	}, nil
}

// Timeout bounds one call.
func (c *Client) Timeout() time.Duration { return c.config.Timeout }

// Reused counts an answer that an experiment took from the live policy, so that no call
// was made.
func (c *Client) Reused(ctx context.Context) { c.metrics.reused(ctx) }

// Close closes the connections that no call uses.
func (c *Client) Close() { c.http.CloseIdleConnections() }
