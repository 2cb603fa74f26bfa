package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/httpauthz"
	"understudy/authz/sidecar"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/port"
)

// listenPatience is the longest time for which the gRPC port does not listen after the
// start. A sidecar that cannot decide yet is best not there at all: Envoy is refused at
// once and asks another one. Much longer, and it would look like one that hangs.
const listenPatience = 2 * time.Second

// authzConfig is where Envoy asks over gRPC, and proxies over HTTP.
type authzConfig struct {
	// authzAddr is where Envoy asks over gRPC: host:port, or unix:// and a path.
	authzAddr string
	// httpAuthzAddr is where proxies ask over HTTP, in the same forms; empty is nowhere.
	httpAuthzAddr string
	// httpAuthzPathPrefix is what Envoy's HTTP service puts before the path of each
	// check. Other proxies ask under a path of their own, by which the two are
	// distinguished.
	httpAuthzPathPrefix string
	// Only the ports that have client authorities ask for a client's certificate (mTLS).
	authzTLS     port.TLSFiles
	httpAuthzTLS port.TLSFiles
	// connections bounds what one client may take of the gRPC port.
	connections port.Connections
}

// bind declares the flags.
func (c *authzConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.authzAddr, "authz-addr", "127.0.0.1:9191", "where Envoy asks: host:port (:0 for any port) or unix:///path")
	f.StringVar(&c.httpAuthzAddr, "http-authz-addr", "", "where proxies ask over HTTP, Envoy's HTTP service and forward authentication: host:port or unix:///path (default not at all)")
	f.StringVar(&c.httpAuthzPathPrefix, "http-authz-path-prefix", "/envoy", "the path_prefix of Envoy's HTTP service; / if it has none, which turns forward authentication off")
	f.StringVar(&c.authzTLS.Cert, "authz-tls-cert", "", "a PEM file with the certificate chain of the ext_authz port; it is read again when it changes")
	f.StringVar(&c.authzTLS.Key, "authz-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.authzTLS.ClientCA, "authz-tls-client-ca", "", "a PEM file with the authorities one of which has to have signed Envoy's certificate (mTLS)")
	f.StringVar(&c.httpAuthzTLS.Cert, "http-authz-tls-cert", "", "a PEM file with the certificate chain of the port for checks over HTTP; it is read again when it changes")
	f.StringVar(&c.httpAuthzTLS.Key, "http-authz-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.httpAuthzTLS.ClientCA, "http-authz-tls-client-ca", "", "a PEM file with the authorities one of which has to have signed the proxy's certificate (mTLS)")
	c.connections.Bind(f)
}

// check calls check with each rule and whether it is kept.
func (c *authzConfig) check(check rule) {
	check(validAddress(c.authzAddr) || strings.HasPrefix(c.authzAddr, port.UnixScheme), "authz-addr", "it is host:port or unix:///path")
	check(c.httpAuthzAddr == "" || validAddress(c.httpAuthzAddr) || strings.HasPrefix(c.httpAuthzAddr, port.UnixScheme),
		"http-authz-addr", "it is host:port or unix:///path")
	if err := c.httpAuthz().Validate(); err != nil {
		check(false, "http-authz-path-prefix", err.Error())
	}
	check(c.authzTLS.Complete(), "authz-tls-cert", "it comes with --authz-tls-key, and --authz-tls-client-ca with both")
	check(c.httpAuthzTLS.Complete(), "http-authz-tls-cert", "it comes with --http-authz-tls-key, and --http-authz-tls-client-ca with both")
	c.connections.Validate(check)
}

// httpAuthz is how checks over HTTP are read.
func (c *authzConfig) httpAuthz() httpauthz.Config {
	return httpauthz.Config{PathPrefix: c.httpAuthzPathPrefix}
}

// authzPort is the port that Envoy asks over gRPC, that for checks over HTTP, and the sidecar
// that decides for both. It implements part.
type authzPort struct {
	*server
	sidecar *sidecar.Sidecar
	grpc    *grpc.Server
	health  *grpchealth.Server
	http    *http.Server // nil if nobody asks over HTTP
	// listening is closed when the gRPC port listens.
	listening chan struct{}
}

// open makes the sidecar and its servers, binds the port for HTTP and reserves that for gRPC.
//
// The health service says NOT_SERVING for each name from the first moment on: grpc-go's
// begins with SERVING, and an Envoy that asks early would send requests to a sidecar
// without policies. Reflection is on, so that grpcurl works against a sidecar in trouble.
func (p *authzPort) open(ctx context.Context) error {
	var err error
	if p.sidecar, err = p.newSidecar(); err != nil {
		return err
	}
	options, err := p.options()
	if err != nil {
		return err
	}
	calls := port.NewUnfinishedCalls(p.log)
	if p.grpc, err = p.newGRPC(calls); err != nil {
		return err
	}
	services := calls.Server(p.grpc)
	front := extauthz.New(p.sidecar, options...)
	extauthz.Register(services, front)
	p.health = grpchealth.NewServer()
	// It would begin as serving.
	p.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(services, p.health)
	reflection.Register(services)
	if err := p.openHTTP(ctx, front); err != nil {
		return err
	}
	return p.reserve(ctx)
}

// serve has the sidecar follow the store, and answers on both ports.
func (p *authzPort) serve(ctx, following context.Context, g *lifecycle.Group) {
	g.Go("sidecar", func() error { return p.sidecar.Run(following) })
	g.Go("authz", func() error { return p.serveGRPC(ctx) })
	if p.http != nil {
		g.Go("http-authz", func() error { return serveHTTP(p.http, p.listeners["http-authz"]) })
	}
	go p.becomeReady(following)
}

// drain answers the checks under way on both ports, which have the same time.
func (p *authzPort) drain(ctx context.Context, g *lifecycle.Group) error {
	drained := make(chan error, 1)
	go func() { drained <- p.drainHTTP(ctx) }()
	p.drainGRPC(ctx, g)
	return <-drained
}

// reserve finds out whether the gRPC port can be bound, and where that is: what is
// wrong with it ends the process at its start. It listens from then on only if the system
// has chosen the port, by which nobody can ask yet, or if it only observes and so refuses
// nobody. A port that is bound and not listened
// on would cost each check Envoy's whole timeout instead of a refusal, and one that is
// given back can be bound again.
//
// A failure here is the only one that the user sees at once; the same failure later, in
// listenLate, ends the process.
func (p *authzPort) reserve(ctx context.Context) error {
	if err := p.bind(ctx, "authz", p.config.authzAddr); err != nil {
		return err
	}
	if strings.HasSuffix(p.config.authzAddr, ":0") || p.config.observe {
		return nil
	}
	l := p.listeners["authz"]
	delete(p.listeners, "authz")
	return l.Close()
}

// serveGRPC answers on the gRPC port, once there is something to decide by or
// listenPatience is over.
func (p *authzPort) serveGRPC(ctx context.Context) error {
	l := p.listeners["authz"]
	if l == nil {
		var err error
		if l, err = p.listenLate(ctx); l == nil {
			return err
		}
	}
	close(p.listening)
	return serveGRPC(p.grpc, l)
}

// listenLate returns nil if ctx ends first.
func (p *authzPort) listenLate(ctx context.Context) (net.Listener, error) {
	if !awaitAtMost(ctx, p.sidecar.Ready(), listenPatience) {
		return nil, nil
	}
	l, err := p.listen(ctx, "authz", p.config.authzAddr)
	if err != nil {
		return nil, errors.Join(err, ctx.Err())
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
func (p *authzPort) becomeReady(ctx context.Context) {
	for _, event := range []<-chan struct{}{p.sidecar.Ready(), p.listening} {
		select {
		case <-ctx.Done():
			return
		case <-event:
		}
	}
	p.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
	p.health.SetServingStatus(authv3.Authorization_ServiceDesc.ServiceName, grpc_health_v1.HealthCheckResponse_SERVING)
	p.log.Info("ready")
	if status := p.sidecar.Status(); status.Absent != "" {
		p.log.Warn(authz.AbsentDefaultHelp(status.Absent, p.config.effect()))
	}
}

// newGRPC makes the server of the ext_authz port, with TLS if that has any.
//
// Limits of messages and connections are those of port.Connections. extauthz.ServerOption
// hands a check over without decoding it.
func (p *authzPort) newGRPC(calls *port.UnfinishedCalls) (*grpc.Server, error) {
	options := append(p.config.connections.Options(), extauthz.ServerOption(), calls.Option())
	secure, err := p.secure("authz", p.config.authzTLS, "h2")
	if err != nil {
		return nil, err
	}
	if secure != nil {
		refused, err := port.NewRefusals("authz", p.telemetry.Meters, p.log)
		if err != nil {
			return nil, err
		}
		options = append(options, grpc.Creds(port.Watched(credentials.NewTLS(secure), refused)))
	}
	return grpc.NewServer(options...), nil
}

// options are how Envoy's requests are read and answered.
func (p *authzPort) options() ([]extauthz.Option, error) {
	meters, err := extauthz.WithMeters(p.telemetry.Meters)
	if err != nil {
		return nil, err
	}
	options := []extauthz.Option{extauthz.WithPropagator(p.telemetry.Propagator), extauthz.WithPanics(p.panics), meters}
	options = append(options, p.config.onFailure()...)
	options = append(options, extauthz.WithFailureLog(p.log, authz.PolicyID(p.config.Policy)))
	if name := p.config.decisionIDHeader; name != "" {
		header, err := extauthz.WithDecisionIDHeader(name)
		if err != nil {
			return nil, fmt.Errorf("--decision-id-header: %w", err)
		}
		options = append(options, header)
	}
	if p.config.observe {
		options = append(options, extauthz.Observe())
	}
	if key := p.config.tokenPayload; key != "" {
		options = append(options, extauthz.WithTokenPayload(key))
	}
	if p.config.allowsDuplicateKeys() {
		options = append(options, extauthz.WithDuplicateKeys())
	}
	if p.telemetry.Traces != nil {
		options = append(options, extauthz.WithTracer(p.telemetry.Traces.Tracer("understudy/extauthz")))
	}
	if p.grpcBodies.option != nil {
		options = append(options, p.grpcBodies.option)
	}
	return options, nil
}

const (
	// checkTimeout bounds how long a proxy may take to send one check, with its
	// headers and its body.
	checkTimeout = 10 * time.Second
	// checkHeaders bounds the headers of a check, in bytes; more is answered
	// with 431, a denial. It is above the limit of each proxy as it is shipped.
	checkHeaders = 256 << 10
	// idleTimeout is longer than proxies keep an idle connection, as they are shipped,
	// so that none sends a check on one that is just being closed here.
	idleTimeout = 90 * time.Minute
)

// openHTTP opens the port on which proxies ask over HTTP, if it is wanted.
//
// The timeouts differ from those of the other ports: a check is small and answered at
// once, and a proxy that is refused on an idle connection denies a user's request.
func (p *authzPort) openHTTP(ctx context.Context, front *extauthz.Server) error {
	if p.config.httpAuthzAddr == "" {
		return nil
	}
	handler, err := httpauthz.New(front, p.config.httpAuthz())
	if err != nil {
		return err
	}
	p.http = port.NewHTTP(handler, p.log)
	if err := p.secureHTTP(p.http, "http-authz", p.config.httpAuthzTLS); err != nil {
		return err
	}
	p.http.ReadTimeout = checkTimeout
	p.http.WriteTimeout = 2*checkTimeout + p.config.decisionTimeout
	p.http.IdleTimeout = idleTimeout
	p.http.MaxHeaderBytes = checkHeaders
	return p.bind(ctx, "http-authz", p.config.httpAuthzAddr)
}

// drainHTTP answers the checks under way and takes no more.
//
// It is called while the gRPC port drains too: both have the same time.
func (p *authzPort) drainHTTP(ctx context.Context) error {
	if p.http == nil {
		return nil
	}
	return drainHTTP(ctx, "http-authz", p.http)
}

// drainGRPC answers the checks under way. Those that take longer than ctx allows are
// canceled, and the group waits for them: gRPC does so for good, and an evaluation need
// not notice that it is canceled.
func (p *authzPort) drainGRPC(ctx context.Context, g *lifecycle.Group) {
	answered := make(chan struct{})
	g.Go("checks under way on the authz port", func() error {
		p.grpc.GracefulStop()
		close(answered)
		return nil
	})
	select {
	case <-answered:
	case <-ctx.Done():
		p.log.Warn("calls that are still under way are canceled: three quarters of --shutdown-timeout are over", "port", "authz")
		go p.grpc.Stop()
	}
}
