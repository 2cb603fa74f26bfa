package main

import (
	"context"
	"time"

	"understudy/authz/extauthz"
	"understudy/authz/extauthz/httpauthz"
	"understudy/cmd/understudy/port"
)

const (
	// questionTimeout bounds how long a proxy may take to send one question, with its
	// headers and its body.
	questionTimeout = 10 * time.Second
	// questionHeaders bounds the headers of a question, in bytes; more is answered
	// with 431, a denial. It is above the limit of each proxy as it is shipped.
	questionHeaders = 256 << 10
	// idleTimeout is longer than proxies keep an idle connection, as they are shipped,
	// so that none sends a question on one that is just being closed here.
	idleTimeout = 90 * time.Minute
)

// httpAuthz is how questions over HTTP are read.
func (c *portsConfig) httpAuthz() httpauthz.Config {
	return httpauthz.Config{PathPrefix: c.httpAuthzPathPrefix}
}

// openHTTPAuthz opens the port on which proxies ask over HTTP, if it is wanted.
//
// The timeouts differ from those of the other ports: a question is small and answered at
// once, and a proxy that is refused on an idle connection denies a user's request.
func (s *server) openHTTPAuthz(ctx context.Context, front *extauthz.Server) error {
	if s.config.httpAuthzAddr == "" {
		return nil
	}
	handler, err := httpauthz.New(front, s.config.httpAuthz())
	if err != nil {
		return err
	}
	s.authzHTTP = port.NewHTTP(handler, s.log)
	if err := s.secureHTTP(s.authzHTTP, "http-authz", s.config.httpAuthzTLS); err != nil {
		return err
	}
	s.authzHTTP.ReadTimeout = questionTimeout
	s.authzHTTP.WriteTimeout = 2*questionTimeout + s.config.decisionTimeout
	s.authzHTTP.IdleTimeout = idleTimeout
	s.authzHTTP.MaxHeaderBytes = questionHeaders
	// net/http would answer `OPTIONS *` with 200 by itself, which is an allow.
	s.authzHTTP.DisableGeneralOptionsHandler = true
	return s.bind(ctx, "http-authz", s.config.httpAuthzAddr)
}

// drainHTTPAuthz answers the questions under way and takes no more.
//
// It is called while the gRPC port drains too: both have the same time.
func (s *server) drainHTTPAuthz(ctx context.Context) error {
	if s.authzHTTP == nil {
		return nil
	}
	return drainHTTP(ctx, "http-authz", s.authzHTTP)
}
