package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"net/http"

	"understudy/cmd/understudy/port"
)

// secureHTTP gives a server the TLS of its port, if that has any.
func (s *server) secureHTTP(h *http.Server, name string, files port.TLSFiles) error {
	var err error
	if h.TLSConfig, err = s.secure(name, files, "h2", "http/1.1"); err != nil || h.TLSConfig == nil {
		return err
	}
	r, err := port.NewRefusals(name, s.telemetry.Meters, s.log)
	if err != nil {
		return err
	}
	h.ErrorLog = log.New(r, "", 0)
	return nil
}

// secure makes the TLS of a port with what ALPN offers, nil if it has none.
func (s *server) secure(name string, files port.TLSFiles, protocols ...string) (*tls.Config, error) {
	if !files.Given() {
		return nil, nil
	}
	c, err := port.NewCertificates(name, files, s.config.minimumTLS(), protocols, s.log)
	if err != nil {
		return nil, err
	}
	if err := c.Observe(s.telemetry.Meters); err != nil {
		return nil, fmt.Errorf("making the metrics: %w", err)
	}
	s.certificates = append(s.certificates, c)
	return c.Config(), nil
}
