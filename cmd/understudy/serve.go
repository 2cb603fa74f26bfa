package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"understudy/admin"
	"understudy/admin/policyfile"
	"understudy/authz"
	"understudy/authz/diagnostics"
	"understudy/authz/extauthz"
)

// serve runs everything that the configuration enables until ctx is done.
// announce, if not nil, gets the bound addresses once all ports are open.
// Preview records go to console too, if that is not nil.
func serve(
	ctx context.Context, c config, console sdklog.Exporter, stderr io.Writer, announce func(map[string]string),
) (err error) {
	logger := newLogger(c, stderr)
	// net/http tells the standard logger what came unasked on a connection, and quotes it.
	log.SetOutput(io.Discard)
	grpcLog.Store(logger)
	closers := &closers{}
	defer func() {
		flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.shutdownTimeout)
		defer cancel()
		err = errors.Join(err, closers.close(flush, logger))
	}()

	st, err := openStore(c)
	if err != nil {
		return err
	}
	closers.add("the store", func(context.Context) error { return st.Close() })
	if err := mayStart(ctx, c, st, logger); err != nil {
		return err
	}

	tel, err := newTelemetry(ctx, c, console, logger, closers)
	if err != nil {
		return err
	}
	s := &server{
		config: c, log: logger, telemetry: tel, store: st, bound: make(map[string]string), listening: make(chan struct{}),
	}
	if s.panics, err = diagnostics.NewPanics(logger, tel.meters); err != nil {
		return err
	}
	if err := s.open(ctx, st); err != nil {
		return errors.Join(err, s.closeListeners())
	}
	logger.Info("understudy is listening", "version", version, "authz", s.bound["authz"], "http_authz", s.bound["http-authz"],
		"reservation", s.bound["reservation"], "admin", s.bound["admin"], "health", s.bound["health"])
	logger.Info("settings", "store", redacted(c.store), "location", c.location, "policy", c.policy, "node", c.node,
		"default_decision", c.defaultDecision, "exporting", tel.exporting)
	if c.observe {
		logger.Warn("observing: decisions are made and recorded, and none is enforced; every request is answered OK (--observe)")
	}
	if announce != nil {
		announce(s.bound)
	}
	return s.run(ctx)
}

func newLogger(c config, w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.level()}
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// server is everything that listens in one process.
type server struct {
	config    config
	log       *slog.Logger
	telemetry *telemetry
	store     store
	panics    *diagnostics.Panics
	// bound :: authz, http-authz, reservation, admin, health → address.
	bound map[string]string

	sidecar     *authz.Sidecar
	authz       *grpc.Server
	authzHealth *grpchealth.Server
	authzHTTP   *http.Server // nil if nobody asks over HTTP
	reservation *reservationPort
	admin       *admin.Server
	adminHTTP   *http.Server
	health      *health
	healthHTTP  *http.Server

	listeners map[string]net.Listener
	// listening is closed when the gRPC port listens.
	listening chan struct{}
	// certificates are those of the ports that speak TLS.
	certificates []*certificates
}

// open makes the parts that are enabled and binds their ports.
func (s *server) open(ctx context.Context, st store) error {
	s.listeners = make(map[string]net.Listener)
	if s.config.enabled("authz") {
		if err := s.openAuthz(ctx, st); err != nil {
			return err
		}
		if err := s.openReservations(ctx); err != nil {
			return err
		}
	}
	if s.config.enabled("admin") {
		if err := s.openAdmin(ctx, st); err != nil {
			return err
		}
	}
	if err := s.bind(ctx, "health", s.config.healthAddr); err != nil {
		return err
	}
	s.health = &health{config: s.config, bound: s.bound, sidecar: s.sidecar, listening: s.listening, metrics: s.telemetry.page}
	s.healthHTTP = newHTTP(s.health.handler(), s.log)
	// Nothing on it takes a body or lasts long.
	s.healthHTTP.ReadTimeout, s.healthHTTP.WriteTimeout = headerTimeout, answerTimeout
	return nil
}

func (s *server) bind(ctx context.Context, name, addr string) error {
	mode, err := parseMode(s.config.authzSocketMode)
	if err != nil {
		return fmt.Errorf("--authz-socket-mode: %w", err)
	}
	l, err := listen(ctx, addr, mode)
	if err != nil {
		return fmt.Errorf("--%s-addr %s: %w", name, addr, err)
	}
	s.listeners[name] = l
	s.bound[name] = addressOf(l)
	return nil
}

func (s *server) closeListeners() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func (s *server) openAuthz(ctx context.Context, st store) error {
	var err error
	s.sidecar, err = authz.NewSidecar(authz.Config{
		Feed:            st,
		Location:        authz.Location(s.config.location),
		Policy:          authz.PolicyID(s.config.policy),
		Node:            s.config.node,
		Observing:       s.config.observe,
		Default:         s.config.verdict(),
		DecisionTimeout: s.config.decisionTimeout,
		Preview:         s.config.preview.bounds(),
		Recorder:        authz.NewRecorder(s.telemetry.logs, s.config.preview.which),
		Memory:          s.config.memory(),
		BodyMemory:      s.config.bodyMemory,
		External:        s.external(),
		DecisionLog:     s.telemetry.decisionLog(s.config.decisionLog),
		SnapshotFile:    s.config.snapshotFile,
		Logger:          s.log,
		Meters:          s.telemetry.meters,
	})
	if err != nil {
		return err
	}
	options, err := s.authzOptions()
	if err != nil {
		return err
	}
	if s.authz, err = s.newAuthz(); err != nil {
		return err
	}
	front := extauthz.New(s.sidecar, options...)
	extauthz.Register(s.authz, front)
	s.authzHealth = grpchealth.NewServer()
	// It would begin as serving.
	s.authzHealth.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(s.authz, s.authzHealth)
	reflection.Register(s.authz)
	if err := s.openHTTPAuthz(ctx, front); err != nil {
		return err
	}
	return s.reserveAuthz(ctx)
}

// secure makes the TLS of a port with what ALPN offers, nil if it has none.
func (s *server) secure(port string, files tlsFiles, protocols ...string) (*tls.Config, error) {
	if !files.given() {
		return nil, nil
	}
	c, err := newCertificates(port, files, s.config.minimumTLS(), protocols, s.log)
	if err != nil {
		return nil, err
	}
	if err := c.observe(s.telemetry.meters); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	s.certificates = append(s.certificates, c)
	return c.config(), nil
}

func (s *server) openAdmin(ctx context.Context, st store) error {
	var err error
	if s.admin, err = admin.NewServer(admin.Config{
		Store: st, Logger: s.log, Panics: s.panics, RequirePassingTests: s.config.requirePassingTests, Hosts: s.config.restHosts(),
		MaxPolicySize: s.config.maxPolicySize,
	}); err != nil {
		return err
	}
	handler, err := s.adminHandler()
	if err != nil {
		return err
	}
	s.adminHTTP = newHTTP(usualPace.handler(handler), s.log)
	if err := s.secureHTTP(s.adminHTTP, "admin", s.config.adminTLS); err != nil {
		return err
	}
	return s.bind(ctx, "admin", s.config.adminAddr)
}

// adminHandler is the admin API and, beside it, the Policyfile API, whose paths
// without an organization are about the project of this location.
func (s *server) adminHandler() (http.Handler, error) {
	rest, err := s.admin.Handler()
	if err != nil {
		return nil, err
	}
	api, err := policyfile.New(policyfile.Config{
		Admin:            s.admin,
		Project:          strings.Split(s.config.location, "/")[1],
		TrustRevisionIDs: s.config.policyfileRevisionIDs == "trust",
		Logger:           s.log,
		Panics:           s.panics,
	})
	if err != nil {
		return nil, err
	}
	return api.Handler(rest), nil
}

// run serves until ctx is done or a part fails, then lets go in order.
func (s *server) run(ctx context.Context) error {
	g, ctx := newGroup(ctx)
	defer g.cancel()
	// The sidecar outlives the ports, so that what is asked last is decided too.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	if s.sidecar != nil {
		g.run("sidecar", func() error { return s.sidecar.Run(following) })
		g.run("authz", func() error { return s.serveAuthz(ctx) })
		if s.authzHTTP != nil {
			g.run("http-authz", func() error { return serveHTTP(s.authzHTTP, s.listeners["http-authz"]) })
		}
		go s.becomeReady(following)
	}
	s.reservation.run(ctx, g, s.listeners["reservation"])
	g.run("store", func() error { warnOfRisks(ctx, s.store, s.log); return nil })
	if s.admin != nil {
		g.run("admin", func() error { return serveHTTP(s.adminHTTP, s.listeners["admin"]) })
	}
	for _, c := range s.certificates {
		g.run("certificates", func() error { return c.run(ctx, s.config.tlsReload) })
	}
	g.run("health", func() error { return serveHTTP(s.healthHTTP, s.listeners["health"]) })

	<-ctx.Done()
	s.log.Info("shutting down")
	err := s.shutdown(context.WithoutCancel(ctx), stopFollowing)
	g.wait.Wait()
	return errors.Join(g.err, err)
}

// serveGRPC serves until the server is stopped, which may be before it began.
func serveGRPC(s *grpc.Server, l net.Listener) error {
	if err := s.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// serveHTTP speaks TLS if the server has a configuration for it.
func serveHTTP(s *http.Server, l net.Listener) error {
	serve := s.Serve
	if s.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.ServeTLS(l, "", "") }
	}
	if err := serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shutdown takes the process out of the traffic first, then answers what is under
// way, then stops following.
func (s *server) shutdown(ctx context.Context, stopFollowing func()) error {
	s.drain()
	ctx, cancel := context.WithTimeout(ctx, s.config.shutdownTimeout)
	defer cancel()
	var errs []error
	if s.sidecar != nil {
		drained := make(chan error, 2)
		go func() { drained <- s.drainHTTPAuthz(ctx) }()
		go func() { drained <- s.reservation.drain(ctx) }()
		stopGracefully(ctx, s.authz)
		errs = append(errs, <-drained, <-drained)
	}
	if s.admin != nil {
		s.admin.Drain()
		errs = append(errs, s.adminHTTP.Shutdown(ctx))
	}
	stopFollowing()
	errs = append(errs, s.healthHTTP.Shutdown(ctx))
	return errors.Join(errs...)
}

// drain says that the process is not ready any more, and leaves others the time to
// see it: until then they still send requests here, which are answered.
func (s *server) drain() {
	s.health.draining.Store(true)
	if s.sidecar != nil {
		s.authzHealth.Shutdown()
	}
	if s.config.drainDelay > 0 {
		s.log.Info("not ready any more; the ports stay open for a while", "delay", s.config.drainDelay)
		time.Sleep(s.config.drainDelay)
	}
}

// stopGracefully answers the calls under way, and gives up on those that take
// longer than ctx allows.
func stopGracefully(ctx context.Context, rpc *grpc.Server) {
	stop := context.AfterFunc(ctx, rpc.Stop)
	defer stop()
	rpc.GracefulStop()
}
