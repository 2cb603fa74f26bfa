package port

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"google.golang.org/grpc/credentials"

	"understudy/authz/diagnostics"
)

// refusalsEvery is the least time between two lines about refused handshakes of a port:
// anyone who reaches it can cause any number.
const refusalsEvery = time.Minute

// refusals counts and logs the TLS handshakes of one port that failed. Who asks does not
// see why: with TLS 1.3 a client whose certificate is refused takes the handshake for a
// good one. It is safe for concurrent use.
type refusals struct {
	port string
	// count is understudy.tls.handshake.failures.
	count metric.Int64Counter
	// warn logs one line a minute; verbose gets what is of interest at DEBUG only.
	warn    *diagnostics.LimitedLog
	verbose *slog.Logger
}

// NewRefusals makes the counter of a port. Each reason is there from the start, at 0, so
// that an alert can be written on it before it happens.
func NewRefusals(port string, provider metric.MeterProvider, log *slog.Logger) (*refusals, error) {
	count, err := provider.Meter("understudy/tls").Int64Counter("understudy.tls.handshake.failures",
		metric.WithDescription("TLS handshakes that failed, by port and reason."))
	if err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	r := &refusals{port, count, diagnostics.NewLimitedLog(log, 1, refusalsEvery), log}
	for _, known := range handshakeReasons {
		r.add(known.reason, 0)
	}
	return r, nil
}

// add counts handshakes.
func (r *refusals) add(reason string, n int64) {
	r.count.Add(context.Background(), n, metric.WithAttributes(attribute.String("port", r.port), attribute.String("reason", reason)))
}

// The reasons that say nothing about certificates: a probe that only connects, and what
// nothing else says.
const (
	reasonClosed = "closed"
	reasonOther  = "other"
)

// handshakeReasons :: what the error of crypto/tls contains → the reason, a metric label.
// net/http hands these errors on as text alone. The first that fits counts.
var handshakeReasons = []struct{ text, reason string }{
	{"didn't provide a certificate", "no_client_certificate"},
	{"has expired or is not yet valid", "client_certificate_expired"},
	{"signed by unknown authority", "unknown_authority"},
	{"incompatible key usage", "client_certificate_usage"},
	{"failed to verify certificate", "client_certificate"},
	{"unsupported versions", "version"},
	{"no cipher suite", "cipher"},
	{"does not look like a TLS handshake", "not_tls"},
	{"client sent an HTTP request to an HTTPS server", "not_tls"},
	{"application protocol", "alpn"},
	{"ALPN", "alpn"},
	{"remote error", "refused_by_client"},
	{"timeout", "timeout"},
	{"EOF", reasonClosed},
	{"connection reset", reasonClosed},
	{"", reasonOther},
}

// handshakeReason returns the first reason that fits a text.
func handshakeReason(text string) string {
	for _, known := range handshakeReasons {
		if strings.Contains(text, known.text) {
			return known.reason
		}
	}
	return reasonOther
}

// refused notes a handshake that failed. A connection that was closed without one is what
// a probe does, and not warned of.
func (r *refusals) refused(peer, why string) {
	reason := handshakeReason(why)
	r.add(reason, 1)
	if reason == reasonClosed {
		r.verbose.Debug("a TLS handshake was broken off", "port", r.port, "peer", peer, "error", why)
		return
	}
	r.warn.Log(context.Background(), slog.LevelWarn, "a TLS handshake failed; see understudy_tls_handshake_failures_total for how many",
		slog.String("port", r.port), slog.String("reason", reason), slog.String("peer", peer), slog.String("error", why))
}

// handshakes are credentials that note who is refused; gRPC logs nothing about it.
type handshakes struct {
	credentials.TransportCredentials
	refusals *refusals
}

// Watched returns credentials that note who is refused.
func Watched(c credentials.TransportCredentials, r *refusals) credentials.TransportCredentials {
	return handshakes{c, r}
}

// ServerHandshake implements credentials.TransportCredentials.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		h.refusals.refused(raw.RemoteAddr().String(), err.Error())
	}
	return conn, info, err
}

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.refusals}
}

// handshakeFailed begins what net/http logs of a handshake that failed; the peer, a
// colon and the error follow.
const handshakeFailed = "http: TLS handshake error from "

// Write takes a line that net/http logs: refusals are the ErrorLog of a server.
func (r *refusals) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	if about, ok := strings.CutPrefix(text, handshakeFailed); ok {
		peer, why, _ := strings.Cut(about, ": ")
		r.refused(peer, why)
	} else {
		r.verbose.Debug(text)
	}
	return len(line), nil
}
