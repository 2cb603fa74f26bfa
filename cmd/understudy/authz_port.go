package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/httpauthz"
	"understudy/cmd/understudy/port"
)

// listenPatience is the longest time for which the gRPC port does not listen after the
// start. A sidecar that cannot decide yet is best not there at all: Envoy is refused at
// once and asks another one. Much longer, and it would look like one that hangs.
const listenPatience = 2 * time.Second

// reserveAuthz finds out whether the gRPC port can be bound, and where that is: what is
// wrong with it ends the process at its start. It listens from then on only if the system
// has chosen the port, by which nobody can ask yet, or if it only observes and so refuses
// nobody. A port that is bound and not listened
// on would cost each check Envoy's whole timeout instead of a refusal, and one that is
// given back can be bound again.
//
// A failure here is the only one that the user sees at once; the same failure later, in
// listenLate, ends the process.
func (s *server) reserveAuthz(ctx context.Context) error {
	if err := s.bind(ctx, "authz", s.config.authzAddr); err != nil {
		return err
	}
	if strings.HasSuffix(s.config.authzAddr, ":0") || s.config.observe {
		return nil
	}
	l := s.listeners["authz"]
	delete(s.listeners, "authz")
	return l.Close()
}

// serveAuthz answers on the gRPC port, once there is something to decide by or
// listenPatience is over.
func (s *server) serveAuthz(ctx context.Context) error {
	l := s.listeners["authz"]
	if l == nil {
		var err error
		if l, err = s.listenLate(ctx); l == nil {
			return err
		}
	}
	close(s.listening)
	return serveGRPC(s.authz, l)
}

// listenLate returns nil if ctx ends first.
func (s *server) listenLate(ctx context.Context) (net.Listener, error) {
	if !awaitAtMost(ctx, s.sidecar.Ready(), listenPatience) {
		return nil, nil
	}
	mode, err := parseMode(s.config.authzSocketMode)
	if err != nil {
		return nil, fmt.Errorf("--authz-socket-mode: %w", err)
	}
	l, err := port.Listen(ctx, s.config.authzAddr, mode)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--authz-addr %s: %w", s.config.authzAddr, err), ctx.Err())
	}
	return l, nil
}

// awaitAtMost waits for an event, or for as long as may be waited. It reports false if ctx
// ends first.
func awaitAtMost(ctx context.Context, event <-chan struct{}, patience time.Duration) bool {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-event:
		return true
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// becomeReady sets the gRPC health to serving once there are policies to decide by, and the
// port listens.
func (s *server) becomeReady(ctx context.Context) {
	for _, event := range []<-chan struct{}{s.sidecar.Ready(), s.listening} {
		select {
		case <-ctx.Done():
			return
		case <-event:
		}
	}
	s.authzHealth.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	s.authzHealth.SetServingStatus(authv3.Authorization_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	s.log.Info("ready")
	if status := s.sidecar.Status(); status.Absent != "" {
		s.log.Warn(authz.AbsentDefaultHelp(status.Absent, s.config.verdict()))
	}
}

// newAuthz makes the server of the ext_authz port, with TLS if that has any.
//
// Limits of messages and connections are those of port.Connections. extauthz.ServerOption
// hands a check over without decoding it.
func (s *server) newAuthz() (*grpc.Server, error) {
	options := append(s.config.connections.Options(), extauthz.ServerOption())
	secure, err := s.secure("authz", s.config.authzTLS, "h2")
	if err != nil {
		return nil, err
	}
	if secure != nil {
		refused, err := port.NewRefusals("authz", s.telemetry.Meters, s.log)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(port.Watched(credentials.NewTLS(secure), refused)))
	}
	return grpc.NewServer(options...), nil
}

// authzOptions are how Envoy's requests are read and answered.
func (s *server) authzOptions() ([]extauthz.Option, error) {
	meters, err := extauthz.WithMeters(s.telemetry.Meters)
	if err != nil {
		return nil, err
	}
	options := []extauthz.Option{extauthz.WithPropagator(s.telemetry.Propagator), extauthz.WithPanics(s.panics), meters}
	options = append(options, s.config.onFailure()...)
	options = append(options, extauthz.WithFailureLog(s.log, authz.PolicyID(s.config.Policy)))
	if name := s.config.decisionIDHeader; name != "" {
		header, err := extauthz.WithDecisionIDHeader(name)
		if err != nil {
			return nil, fmt.Errorf("--decision-id-header: %w", err)
		}
		options = append(options, header)
	}
	if s.config.observe {
		options = append(options, extauthz.Observe())
	}
	if s.telemetry.Traces != nil {
		options = append(options, extauthz.WithTracer(s.telemetry.Traces.Tracer("understudy/extauthz")))
	}
	if s.grpcBodies.option != nil {
		options = append(options, s.grpcBodies.option)
	}
	return options, nil
}

const (
	// questionTimeout bounds how long a proxy may take to send one question, with its
	// headers and its body.
	questionTimeout = 10 * time.Second
	// questionHeaders bounds the headers of a question, in bytes; more is answered
	// with 431, a denial. It is above the limit of each proxy as it is shipped.
	questionHeaders = 256 << 10
	// idleTimeout is longer than proxies keep an idle connection, as they are shipped,
	// so that none sends a question on one that is just being closed here.
	idleTimeout = 90 * time.Minute
)

// httpAuthz is how questions over HTTP are read.
func (c *portsConfig) httpAuthz() httpauthz.Config {
	return httpauthz.Config{PathPrefix: c.httpAuthzPathPrefix}
}

// openHTTPAuthz opens the port on which proxies ask over HTTP, if it is wanted.
//
// The timeouts differ from those of the other ports: a question is small and answered at
// once, and a proxy that is refused on an idle connection denies a user's request.
func (s *server) openHTTPAuthz(ctx context.Context, front *extauthz.Server) error {
	if s.config.httpAuthzAddr == "" {
		return nil
	}
	handler, err := httpauthz.New(front, s.config.httpAuthz())
	if err != nil {
		return err
	}
	s.authzHTTP = port.NewHTTP(handler, s.log)
	if err := s.secureHTTP(s.authzHTTP, "http-authz", s.config.httpAuthzTLS); err != nil {
		return err
	}
	s.authzHTTP.ReadTimeout = questionTimeout
	s.authzHTTP.WriteTimeout = 2*questionTimeout + s.config.decisionTimeout
	s.authzHTTP.IdleTimeout = idleTimeout
	s.authzHTTP.MaxHeaderBytes = questionHeaders
	return s.bind(ctx, "http-authz", s.config.httpAuthzAddr)
}

// drainHTTPAuthz answers the questions under way and takes no more.
//
// It is called while the gRPC port drains too: both have the same time.
func (s *server) drainHTTPAuthz(ctx context.Context) error {
	if s.authzHTTP == nil {
		return nil
	}
	return drainHTTP(ctx, "http-authz", s.authzHTTP)
}
