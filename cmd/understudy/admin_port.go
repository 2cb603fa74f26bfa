package main

import (
	"context"
	"net/http"
	"strings"

	"understudy/admin"
	"understudy/admin/policyfile"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/storage"
)

func (s *server) openAdmin(ctx context.Context, st storage.Store) error {
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
	s.adminHTTP = port.NewHTTP(port.UsualPace.Handler(handler), s.log)
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
		Project:          strings.Split(s.config.Location, "/")[1],
		TrustRevisionIDs: s.config.policyfileRevisionIDs == "trust",
		Logger:           s.log,
		Panics:           s.panics,
	})
	if err != nil {
		return nil, err
	}
	return api.Handler(rest), nil
}
