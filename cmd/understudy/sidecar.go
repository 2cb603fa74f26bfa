package main

import (
	"understudy/authz"
	"understudy/authz/decisionlog"
	"understudy/authz/rehearsal"
	"understudy/authz/sidecar"
)

// newSidecar makes the sidecar as it is configured.
func (s *server) newSidecar() (*sidecar.Sidecar, error) {
	return sidecar.New(sidecar.Config{
		Feed:            s.store,
		Scope:           authz.Scope{Location: authz.Location(s.config.Location), Policies: s.config.Policies},
		Policy:          authz.PolicyID(s.config.Policy),
		Node:            s.config.node,
		Observing:       s.config.observe,
		Default:         s.config.effect(),
		DecisionTimeout: s.config.decisionTimeout,
		Experiments: sidecar.Experiments{
			Rehearsal: s.rehearsals,
			Preview:   s.config.preview.bounds(),
			Recorder:  rehearsal.NewRecorder(s.telemetry.Logs, s.config.preview.which),
		},
		Cache:        s.config.cacheSize(),
		BodyMemory:   s.config.bodyMemory,
		External:     s.external(),
		DecisionLog:  s.decisionLog(),
		SnapshotFile: s.config.SnapshotFile,
		Logger:       s.log,
		Meters:       s.telemetry.Meters,
	})
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
