package main

import "understudy/admin/audit"

// openAudit returns what records the changes through the admin API; nil if there is nowhere to
// send that to.
func (s *server) openAudit() (*audit.Recorder, error) {
	to := s.telemetry.Audit
	if to == nil {
		return nil, nil
	}
	return audit.New(audit.Config{
		Logs: to, Places: to, Required: s.config.audit.Required(), Node: s.config.node,
		Meters: s.telemetry.Meters, Propagator: s.telemetry.Propagator,
	})
}
