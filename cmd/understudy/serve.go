package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"

	sdklog "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/grpc"
	grpchealth "google.golang.org/grpc/health"

	"understudy/admin/authentication"
	"understudy/admin/authentication/browser"
	"understudy/admin/authentication/revocation"
	"understudy/admin/rest"
	"understudy/admin/settler"
	"understudy/admin/ui"
	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/sidecar"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/storage"
	"understudy/cmd/understudy/telemetry"
)

// serve runs everything that the configuration enables until ctx is done.
// announce, if not nil, gets the bound addresses once all ports are open.
// Preview records go to console too, if that is not nil.
//
// It returns when everything has ended, or when the time for that is over: --drain-delay
// and --shutdown-timeout. The error is what failed first, joined with what did not end.
// All ports are bound before any is served, so that one that is in use ends the start.
func serve(
	ctx context.Context, c config, console sdklog.Exporter, stderr io.Writer, announce func(map[string]string),
) (err error) {
	logger := c.newLogger(stderr)
	// net/http logs to the standard logger what came unasked on a connection, and quotes it.
	log.SetOutput(io.Discard)
	telemetry.LogGRPC(logger)
	closers, ending := &lifecycle.Closers{}, lifecycle.NewEnding(c.shutdownTimeout, c.abort)
	defer func() {
		err = errors.Join(err, closers.Close(ending, logger))
		ending.Over()
	}()

	s, err := newServer(ctx, c, console, logger, closers)
	if err != nil {
		return err
	}
	logger.Info("understudy is listening", "version", version, "authz", s.bound["authz"], "http_authz", s.bound["http-authz"],
		"reservation", s.bound["reservation"], "admin", s.bound["admin"], "health", s.bound["health"])
	logger.Info("settings", "store", storage.Redacted(c.Store), "location", c.Location, "policy", c.Policy, "node", c.node,
		"default_decision", c.defaultDecision, "exporting", s.telemetry.Exporting)
	if c.observe {
		logger.Warn("observing: decisions are made and recorded, and none is enforced; every request is answered OK (--observe)")
	}
	if announce != nil {
		announce(s.bound)
	}
	return s.run(ctx, ending)
}

// server is everything that listens in one process.
type server struct {
	// config is what the flags say. It does not change.
	config config
	// log writes to standard error; standard output is for records and the decision log.
	log *slog.Logger
	// telemetry is never nil; without OTEL_* variables it exports nothing.
	telemetry *telemetry.Telemetry
	// store is shared by both halves: the admin API writes it, the sidecar follows it.
	store storage.Store
	// panics counts and logs what panicked. One request may fail by a bug, and no other
	// one.
	panics *diagnostics.Panics
	// bound :: authz, http-authz, reservation, admin, health → address.
	bound map[string]string

	// grpcBodies is how Envoy's requests are read, here and in the rehearsal process.
	grpcBodies grpcBodies
	// rehearsals is the process in which all is compiled and evaluated that is not live.
	rehearsals *supervisor.Supervisor

	// The sidecar and its ports, nil unless authz is enabled.
	sidecar *sidecar.Sidecar
	// The port for Envoy, all nil unless authz is enabled.
	authz       *grpc.Server
	authzHealth *grpchealth.Server
	authzHTTP   *http.Server // nil if nobody asks over HTTP
	// reservation is nil unless reservations are served.
	reservation *reservationPort
	// The admin API, nil unless admin is enabled.
	admin *rest.API
	ui    *ui.UI
	// authentication finds who asks the admin API; nil if nothing is configured for that.
	authentication *authentication.Authenticator
	// revoked are refused by the admin API; nil if there is no such file.
	revoked *revocation.List
	// login gives browsers a session below /ui/; nil as authentication is.
	login     *browser.Login
	adminHTTP *http.Server
	// settler keeps the evidence in the store; nil unless admin is enabled.
	settler *settler.Settler
	// The health port is always there: it is how a platform sees either half.
	health     *health
	healthHTTP *http.Server

	// listeners :: as bound → what is bound and not yet served.
	listeners map[string]net.Listener
	// listening is closed when the gRPC port listens.
	listening chan struct{}
	// certificates are those of the ports that speak TLS.
	certificates []*port.Certificates
}

// newServer opens the store, starts telemetry and binds the ports, of which none is served
// yet. What has to be closed at the end goes to closers, also if it fails.
func newServer(
	ctx context.Context, c config, console sdklog.Exporter, logger *slog.Logger, closers *lifecycle.Closers,
) (*server, error) {
	c.Sidecar = !c.enabled("admin")
	st, err := storage.Open(c.Config)
	if err != nil {
		return nil, err
	}
	closers.Add("the store", func(context.Context) error { return st.Close() })
	if err := c.mayStart(ctx, st, logger); err != nil {
		return nil, err
	}

	observed := telemetry.Config{Version: version, Node: c.node, DecisionLog: c.decisionLog, Console: console}
	if c.enabled("admin") {
		observed.Audit = &c.audit
	}
	tel, err := telemetry.New(ctx, observed, logger, closers)
	if err != nil {
		return nil, err
	}
	s := &server{
		config: c, log: logger, telemetry: tel, store: st, bound: make(map[string]string), listening: make(chan struct{}),
	}
	if s.panics, err = diagnostics.NewPanics(logger, tel.Meters); err != nil {
		return nil, err
	}
	if c.enabled("authz") && c.descriptorSet != "" {
		if s.grpcBodies, err = readGRPCBodies(c.descriptorSet); err != nil {
			return nil, err
		}
	}
	if err := s.startRehearsals(closers); err != nil {
		return nil, err
	}
	if err := s.open(ctx, st); err != nil {
		return nil, errors.Join(err, s.closeListeners())
	}
	return s, nil
}

// open makes the parts that are enabled and binds their ports.
func (s *server) open(ctx context.Context, st storage.Store) error {
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
	s.health = &health{config: s.config, bound: s.bound, sidecar: s.sidecar, revoked: s.revoked, listening: s.listening, metrics: s.telemetry.Page}
	s.healthHTTP = port.NewHTTP(s.health.handler(), s.log)
	// Nothing on it takes a body or lasts long.
	s.healthHTTP.ReadTimeout, s.healthHTTP.WriteTimeout = port.HeaderTimeout, port.AnswerTimeout
	return s.boundUnknown(s.healthHTTP, "health") // and nobody is asked who it is
}

// bind opens a port, and notes where it is: with :0 the system chooses. Its errors name
// the flag.
func (s *server) bind(ctx context.Context, name, addr string) error {
	mode, err := parseMode(s.config.authzSocketMode)
	if err != nil {
		return fmt.Errorf("--authz-socket-mode: %w", err)
	}
	l, err := port.Listen(ctx, addr, mode)
	if err != nil {
		return fmt.Errorf("--%s-addr %s: %w", name, addr, err)
	}
	s.listeners[name] = l
	s.bound[name] = port.AddressOf(l)
	return nil
}

// closeListeners gives ports back that are bound and not served, after a start that
// failed.
func (s *server) closeListeners() error {
	var errs []error
	for _, l := range s.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// mayStart returns the error of a store that refuses this process, unless it can decide
// by saved policies.
func (c *config) mayStart(ctx context.Context, st storage.Store, log *slog.Logger) error {
	if c.enabled("authz") {
		return storage.MayStart(ctx, c.Config, st, log)
	}
	return storage.Refusal(ctx, st)
}
