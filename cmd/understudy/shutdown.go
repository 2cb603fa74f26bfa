package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/storage"
)

// shutdownConfig is the time that a shutdown may take.
type shutdownConfig struct {
	// drainDelay is how long the ports stay open after readiness is gone.
	drainDelay time.Duration
	// shutdownTimeout is how long all the rest may take.
	shutdownTimeout time.Duration
	// abort ends the process when its time is over, whatever still runs. It is nil where
	// the process is not only this server's, as in tests.
	abort func()
}

// bind declares the flags.
func (c *shutdownConfig) bind(f *pflag.FlagSet) {
	f.DurationVar(&c.shutdownTimeout, "shutdown-timeout", 10*time.Second, "the longest time for the shutdown after the drain delay: requests under way have three quarters of it, and the rest is for exporting what was recorded; the process ends then in any case")
	f.DurationVar(&c.drainDelay, "drain-delay", 0, "how long the ports stay open at shutdown while readiness is gone already, so that no new request comes to a closed port: "+
		"for one of several sidecars, and then longer than the interval in which Envoy or the platform asks for health; a single sidecar needs 0s, for it would be taken out with nobody in its place")
}

// check calls check with each rule and whether it is kept.
func (c *shutdownConfig) check(check rule) {
	check(c.shutdownTimeout > 0, "shutdown-timeout", "it is a duration above zero, such as 10s")
	check(c.drainDelay >= 0, "drain-delay", "it is a duration such as 5s")
}

// run serves until ctx is done or a part fails, then ends the parts in order.
//
// The order is the point. Readiness goes first, so that no new requests come; then the
// ports answer what they have; then the sidecar stops following. What follows the store
// must not stop before: a request that is decided by yesterday's policy is a wrong
// decision.
func (s *server) run(ctx context.Context, ending *lifecycle.Ending) error {
	g, ctx := lifecycle.NewGroup(ctx)
	defer g.Stop()
	// The sidecar outlives the ports, so that what is asked last is decided too.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	s.start(ctx, following, g)

	<-ctx.Done()
	s.log.Info("shutting down")
	s.drain()
	ending.Begin()
	err := s.shutdown(g, ending, stopFollowing)
	parts, cancel := ending.Parts()
	defer cancel()
	return errors.Join(g.Await(parts), err)
}

// start starts the parts that are there. following is the context of the sidecar.
//
// Each part has a name, by which a failure or a part that does not end is reported.
func (s *server) start(ctx, following context.Context, g *lifecycle.Group) {
	if s.sidecar != nil {
		g.Go("sidecar", func() error { return s.sidecar.Run(following) })
		g.Go("authz", func() error { return s.serveAuthz(ctx) })
		if s.authzHTTP != nil {
			g.Go("http-authz", func() error { return serveHTTP(s.authzHTTP, s.listeners["http-authz"]) })
		}
		go s.becomeReady(following)
	}
	s.reservation.run(ctx, g, s.listeners["reservation"])
	if s.admin != nil {
		// Who stores policies asks whether they are kept; the user of a sidecar may not.
		g.Go("store", func() error { storage.WarnOfRisks(ctx, s.store, s.log); return nil })
		g.Go("functions", func() error { storage.KeepFunctions(ctx, s.store, s.log); return nil })
		g.Go("admin", func() error { return serveHTTP(s.adminHTTP, s.listeners["admin"]) })
		if s.authentication != nil {
			g.Go("authentication", func() error { return s.authentication.Run(ctx, s.config.tlsReload) })
		}
		g.Go("settler", func() error { return s.settler.Run(ctx) })
	}
	for _, c := range s.certificates {
		g.Go("certificates", func() error { return c.Run(ctx, s.config.tlsReload) })
	}
	g.Go("health", func() error { return serveHTTP(s.healthHTTP, s.listeners["health"]) })
}

// serveGRPC serves until the server is stopped, which may be before it began.
//
// GracefulStop makes Serve return ErrServerStopped, or nil.
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

// shutdown answers what is under way on all ports, then stops following.
func (s *server) shutdown(g *lifecycle.Group, ending *lifecycle.Ending, stopFollowing func()) error {
	ctx, cancel := ending.Requests()
	defer cancel()
	var errs []error
	if s.sidecar != nil {
		drained := make(chan error, 2)
		go func() { drained <- s.drainHTTPAuthz(ctx) }()
		go func() { drained <- s.reservation.drain(ctx) }()
		s.drainAuthz(ctx, g)
		errs = append(errs, <-drained, <-drained)
	}
	if s.admin != nil {
		s.admin.Drain()
		s.ui.Drain()
		errs = append(errs, drainHTTP(ctx, "admin", s.adminHTTP))
	}
	stopFollowing()
	errs = append(errs, drainHTTP(ctx, "health", s.healthHTTP))
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

// drainAuthz answers the checks under way. Those that take longer than ctx allows are
// canceled, and the group waits for them: gRPC does so for good, and an evaluation need
// not notice that it is canceled.
func (s *server) drainAuthz(ctx context.Context, g *lifecycle.Group) {
	answered := make(chan struct{})
	g.Go("checks under way on the authz port", func() error {
		s.authz.GracefulStop()
		close(answered)
		return nil
	})
	select {
	case <-answered:
	case <-ctx.Done():
		s.log.Warn("calls that are still under way are canceled: three quarters of --shutdown-timeout are over", "port", "authz")
		go s.authz.Stop()
	}
}

// drainHTTP answers the calls under way on a port, and closes the connections of those
// that take longer than ctx allows.
func drainHTTP(ctx context.Context, name string, server *http.Server) error {
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("%s: calls were still under way when three quarters of --shutdown-timeout were over: %w", name, err), server.Close())
	}
	return nil
}
