package main

import (
	"context"
	"errors"
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
}

// bind declares the flags.
func (c *shutdownConfig) bind(f *pflag.FlagSet) {
	f.DurationVar(&c.shutdownTimeout, "shutdown-timeout", 10*time.Second, "the longest time for requests under way at shutdown, after the drain delay")
	f.DurationVar(&c.drainDelay, "drain-delay", 0, "how long the ports stay open at shutdown while readiness is gone already, so that no new request comes to a closed port: "+
		"for one of several sidecars, and then longer than the interval in which Envoy or the platform asks for health; a single sidecar needs 0s, for it would be taken out with nobody in its place")
}

func (c *shutdownConfig) check(check rule) {
	check(c.shutdownTimeout > 0, "shutdown-timeout", "it is a duration above zero, such as 10s")
	check(c.drainDelay >= 0, "drain-delay", "it is a duration such as 5s")
}

// run serves until ctx is done or a part fails, then lets go in order.
func (s *server) run(ctx context.Context) error {
	g, ctx := lifecycle.NewGroup(ctx)
	defer g.Stop()
	// The sidecar outlives the ports, so that what is asked last is decided too.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	if s.sidecar != nil {
		g.Go("sidecar", func() error { return s.sidecar.Run(following) })
		g.Go("authz", func() error { return s.serveAuthz(ctx) })
		if s.authzHTTP != nil {
			g.Go("http-authz", func() error { return serveHTTP(s.authzHTTP, s.listeners["http-authz"]) })
		}
		go s.becomeReady(following)
	}
	s.reservation.run(ctx, g, s.listeners["reservation"])
	g.Go("store", func() error { storage.WarnOfRisks(ctx, s.store, s.log); return nil })
	if s.admin != nil {
		g.Go("admin", func() error { return serveHTTP(s.adminHTTP, s.listeners["admin"]) })
	}
	for _, c := range s.certificates {
		g.Go("certificates", func() error { return c.Run(ctx, s.config.tlsReload) })
	}
	g.Go("health", func() error { return serveHTTP(s.healthHTTP, s.listeners["health"]) })

	<-ctx.Done()
	s.log.Info("shutting down")
	err := s.shutdown(context.WithoutCancel(ctx), stopFollowing)
	return errors.Join(g.Await(), err)
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
