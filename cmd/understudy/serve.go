package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"strings"

	sdklog "go.opentelemetry.io/otel/sdk/log"

	"understudy/authz/diagnostics"
	"understudy/authz/rehearsal/supervisor"
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
	logger.Info("settings", "store", storage.Redacted(c.Store), "location", c.Location, "policy", c.Policy, "policies", strings.Join(c.Policies, ","), "node", c.node,
		"default_decision", c.defaultDecision, "exporting", s.telemetry.Exporting)
	if c.observe {
		logger.Warn("observing: decisions are made and recorded, and none is enforced; every request is answered OK (--observe)")
	}
	if announce != nil {
		announce(s.bound)
	}
	return s.run(ctx, ending)
}

// part is one of the things that the process serves: a port, or two, with what answers there. It
// is opened once, and served if all parts could be opened.
type part interface {
	// open makes what answers, and binds the port.
	open(ctx context.Context) error
	// serve starts the goroutines of the part in the group, until ctx is done or the part is
	// drained. following lasts until the ports are drained.
	serve(ctx, following context.Context, g *lifecycle.Group)
	// drain answers the calls under way, as long as ctx lasts, and takes no more.
	drain(ctx context.Context, g *lifecycle.Group) error
}

// server is everything that listens in one process, and what its parts have in common.
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
	// grpcBodies is how Envoy's requests are read, here and in the rehearsal process.
	grpcBodies grpcBodies
	// rehearsals is the process in which all is compiled and evaluated that is not live.
	rehearsals *supervisor.Supervisor
	*ports
	// parts are those that are enabled; health is apart, since it is there to the end.
	parts  []part
	health *healthPort
}

// newServer opens the store, starts telemetry and binds the ports, of which none is served
// yet. What has to be closed at the end goes to closers, also if it fails.
func newServer(
	ctx context.Context, c config, console sdklog.Exporter, logger *slog.Logger, closers *lifecycle.Closers,
) (*server, error) {
	c.Sidecar = !c.enabled("admin")
	st, certificates, err := c.openStore(ctx, logger, closers)
	if err != nil {
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
	s := &server{config: c, log: logger, telemetry: tel, store: st, ports: newPorts(c.portsConfig, tel.Meters, logger)}
	if s.panics, err = diagnostics.NewPanics(logger, tel.Meters); err != nil {
		return nil, err
	}
	if c.enabled("authz") && c.descriptorSet != "" {
		if s.grpcBodies, err = readGRPCBodies(c.descriptorSet); err != nil {
			return nil, err
		}
	}
	if err := s.followCertificates(certificates); err != nil {
		return nil, err
	}
	if err := s.startRehearsals(closers); err != nil {
		return nil, err
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// openStore opens the store, and returns the files of certificates of its connections; nil if
// there are none.
func (c *config) openStore(
	ctx context.Context, log *slog.Logger, closers *lifecycle.Closers,
) (storage.Store, *port.ClientCertificates, error) {
	certificates, err := storage.Certificates(c.Config, log)
	if err != nil {
		return nil, nil, err
	}
	st, err := storage.Open(c.Config, certificates)
	if err != nil {
		return nil, nil, err
	}
	closers.Add("the store", func(context.Context) error { return st.Close() })
	return st, certificates, c.mayStart(ctx, st, log)
}

// open makes the parts that are enabled and binds their ports.
func (s *server) open(ctx context.Context) error {
	s.health = &healthPort{server: s}
	if s.config.enabled("authz") {
		s.health.authz = &authzPort{server: s, listening: make(chan struct{})}
		s.parts = append(s.parts, s.health.authz)
		if s.config.reservations.on() {
			s.parts = append(s.parts, &reservationPort{server: s, authz: s.health.authz})
		}
	}
	if s.config.enabled("admin") {
		s.health.admin = &adminPort{server: s}
		s.parts = append(s.parts, s.health.admin)
	}
	for _, p := range s.parts {
		if err := p.open(ctx); err != nil {
			return err
		}
	}
	return s.health.open(ctx)
}

// mayStart returns the error of a store that refuses this process, unless it can decide
// by saved policies.
func (c *config) mayStart(ctx context.Context, st storage.Store, log *slog.Logger) error {
	if c.enabled("authz") {
		return storage.MayStart(ctx, c.Config, st, log)
	}
	return storage.Refusal(ctx, st)
}
