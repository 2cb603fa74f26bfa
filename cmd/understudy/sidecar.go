package main

import (
	"context"

	grpchealth "google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"understudy/authz"
	"understudy/authz/decisionlog"
	"understudy/authz/extauthz"
	"understudy/authz/rehearsal"
	"understudy/authz/sidecar"
	"understudy/cmd/understudy/storage"
)

// openAuthz makes the sidecar and the server that Envoy asks, and reserves its port.
//
// The health service says NOT_SERVING for each name from the first moment on: grpc-go's
// begins with SERVING, and an Envoy that asks early would send requests to a sidecar
// without policies. Reflection is on, so that grpcurl works against a sidecar in trouble.
func (s *server) openAuthz(ctx context.Context, st storage.Store) error {
	var err error
	s.sidecar, err = sidecar.New(sidecar.Config{
		Feed:            st,
		Location:        authz.Location(s.config.Location),
		Policy:          authz.PolicyID(s.config.Policy),
		Node:            s.config.node,
		Observing:       s.config.observe,
		Default:         s.config.verdict(),
		DecisionTimeout: s.config.decisionTimeout,
		Rehearsal:       s.rehearsals,
		Preview:         s.config.preview.bounds(),
		RecentRequests:  s.config.rehearsal.requests,
		Recorder:        rehearsal.NewRecorder(s.telemetry.Logs, s.config.preview.which),
		Cache:           s.config.cacheSize(),
		BodyMemory:      s.config.bodyMemory,
		External:        s.external(),
		DecisionLog:     s.decisionLog(),
		SnapshotFile:    s.config.SnapshotFile,
		Logger:          s.log,
		Meters:          s.telemetry.Meters,
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

// decisionLog returns how the sidecar logs its decisions.
func (s *server) decisionLog() decisionlog.Config {
	c := s.config.decisionLog
	labels := map[string]string{"version": version}
	for name, value := range c.Labels {
		labels[name] = value
	}
	var sample *float64
	if c.Sample < 1 {
		sample = &c.Sample
	}
	return decisionlog.Config{
		Provider: s.telemetry.Decisions, Labels: labels, Show: c.Show,
		Sample: sample, Queue: c.Queue, QueueBytes: c.QueueBytes, EventBytes: c.EventBytes,
	}
}
