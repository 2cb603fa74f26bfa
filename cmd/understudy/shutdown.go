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
func (s *server) run(ctx context.Context, ending *lifecycle.Shutdown) error {
	g, ctx := lifecycle.NewGroup(ctx)
	defer g.Stop()
	// The sidecar outlives the ports, so that what is asked last is decided too.
	following, stopFollowing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopFollowing()
	s.start(ctx, following, g)

	<-ctx.Done()
	s.log.Info("shutting down")
	s.leave()
	ending.Begin()
	err := s.shutdown(g, ending, stopFollowing)
	parts, cancel := ending.Parts()
	defer cancel()
	return errors.Join(g.Await(parts), err)
}

// start starts the parts. following is the context of the sidecar.
//
// Each goroutine has a name, by which a failure or one that does not end is reported.
func (s *server) start(ctx, following context.Context, g *lifecycle.Group) {
	for _, p := range s.parts {
		p.serve(ctx, following, g)
	}
	s.follow(ctx, g)
	s.health.serve(ctx, following, g)
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

// shutdown answers what is under way on all ports, which have the same time, then stops
// following. Health goes last.
func (s *server) shutdown(g *lifecycle.Group, ending *lifecycle.Shutdown, stopFollowing func()) error {
	ctx, cancel := ending.Requests()
	defer cancel()
	drained := make(chan error, len(s.parts))
	for _, p := range s.parts {
		go func() { drained <- p.drain(ctx, g) }()
	}
	var errs []error
	for range s.parts {
		errs = append(errs, <-drained)
	}
	stopFollowing()
	errs = append(errs, s.health.drain(ctx, g))
	return errors.Join(errs...)
}

// leave says that the process is not ready any more, and leaves others the time to
// see it: until then they still send requests here, which are answered.
func (s *server) leave() {
	s.health.leave()
	if s.config.drainDelay > 0 {
		s.log.Info("not ready any more; the ports stay open for a while", "delay", s.config.drainDelay)
		time.Sleep(s.config.drainDelay)
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
