package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/port"
)

// portsConfig is where the process listens and by which TLS: the ports for Envoy, for
// proxies over HTTP, for the admin API and for health. The port for reservations has a
// configuration of its own.
type portsConfig struct {
	// authzAddr is where Envoy asks over gRPC: host:port, or unix:// and a path.
	authzAddr string
	// httpAuthzAddr is where proxies ask over HTTP, in the same forms; empty is nowhere.
	httpAuthzAddr string
	// adminAddr is host:port, on a loopback address unless the operator says otherwise.
	adminAddr string
	// healthAddr is host:port.
	healthAddr string

	// httpAuthzPathPrefix is what Envoy's HTTP service puts before the path of each
	// question. Other proxies ask under a path of their own, by which the two are
	// distinguished.
	httpAuthzPathPrefix string
	// authzSocketMode is octal permissions: who connects to a socket is whoever may write
	// to it.
	authzSocketMode string

	// Only the ports that have client authorities ask for a client's certificate (mTLS).
	authzTLS     port.TLSFiles
	httpAuthzTLS port.TLSFiles
	adminTLS     port.TLSFiles
	// tlsMinVersion is 1.2 or 1.3, for all ports.
	tlsMinVersion string
	// tlsReload is how often files of certificates and tokens are read again.
	tlsReload time.Duration
	// connections bounds what one client may take of the gRPC port.
	connections port.Connections
}

// bind declares the flags.
func (c *portsConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.authzAddr, "authz-addr", "127.0.0.1:9191", "where Envoy asks: host:port (:0 for any port) or unix:///path")
	f.StringVar(&c.httpAuthzAddr, "http-authz-addr", "", "where proxies ask over HTTP, Envoy's HTTP service and forward authentication: host:port or unix:///path (default not at all)")
	f.StringVar(&c.httpAuthzPathPrefix, "http-authz-path-prefix", "/envoy", "the path_prefix of Envoy's HTTP service; / if it has none, which turns forward authentication off")
	f.StringVar(&c.adminAddr, "admin-addr", "127.0.0.1:8181", "where the admin API listens, REST and gRPC: host:port")
	f.StringVar(&c.healthAddr, "health-addr", "127.0.0.1:8282", "where /healthz, /readyz and /metrics are: host:port")
	f.StringVar(&c.authzSocketMode, "authz-socket-mode", "0660", "who may connect to a unix socket, as octal permissions")
	f.StringVar(&c.authzTLS.Cert, "authz-tls-cert", "", "a PEM file with the certificate chain of the ext_authz port; it is read again when it changes")
	f.StringVar(&c.authzTLS.Key, "authz-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.authzTLS.ClientCA, "authz-tls-client-ca", "", "a PEM file with the authorities one of which has to have signed Envoy's certificate (mTLS)")
	f.StringVar(&c.httpAuthzTLS.Cert, "http-authz-tls-cert", "", "a PEM file with the certificate chain of the port for questions over HTTP; it is read again when it changes")
	f.StringVar(&c.httpAuthzTLS.Key, "http-authz-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.httpAuthzTLS.ClientCA, "http-authz-tls-client-ca", "", "a PEM file with the authorities one of which has to have signed the proxy's certificate (mTLS)")
	f.StringVar(&c.adminTLS.Cert, "admin-tls-cert", "", "a PEM file with the certificate chain of the admin API; it is read again when it changes")
	f.StringVar(&c.adminTLS.Key, "admin-tls-key", "", "a PEM file with its key")
	f.StringVar(&c.adminTLS.ClientCA, "admin-tls-client-ca", "", "a PEM file with the authorities of client certificates of the admin API (mTLS), which name their principal; they are required unless tokens are taken too")
	f.StringVar(&c.tlsMinVersion, "tls-min-version", "1.2", "the oldest TLS that is spoken: 1.2, which is what Envoy speaks unless it is configured otherwise, or 1.3")
	f.DurationVar(&c.tlsReload, "tls-reload-interval", 5*time.Second, "how often files of certificates and tokens are looked at")
	c.connections.Bind(f)
}

// check calls check with each rule and whether it is kept. Files of certificates are read
// later, when the ports are opened: their errors name more than a rule could.
func (c *portsConfig) check(check rule) {
	_, err := parseMode(c.authzSocketMode)
	check(err == nil, "authz-socket-mode", "it is octal permissions such as 0660")
	check(validAddress(c.authzAddr) || strings.HasPrefix(c.authzAddr, port.UnixScheme), "authz-addr", "it is host:port or unix:///path")
	check(c.httpAuthzAddr == "" || validAddress(c.httpAuthzAddr) || strings.HasPrefix(c.httpAuthzAddr, port.UnixScheme),
		"http-authz-addr", "it is host:port or unix:///path")
	if err := c.httpAuthz().Validate(); err != nil {
		check(false, "http-authz-path-prefix", err.Error())
	}
	check(validAddress(c.adminAddr), "admin-addr", "it is host:port")
	check(validAddress(c.healthAddr), "health-addr", "it is host:port")
	check(c.authzTLS.Complete(), "authz-tls-cert", "it comes with --authz-tls-key, and --authz-tls-client-ca with both")
	check(c.httpAuthzTLS.Complete(), "http-authz-tls-cert", "it comes with --http-authz-tls-key, and --http-authz-tls-client-ca with both")
	check(c.adminTLS.Complete(), "admin-tls-cert", "it comes with --admin-tls-key, and --admin-tls-client-ca with both")
	check(command.OneOf(c.tlsMinVersion, "1.2", "1.3"), "tls-min-version", "it is 1.2 or 1.3")
	check(c.tlsReload > 0, "tls-reload-interval", "it is a duration above zero, such as 5s")
	c.connections.Validate(check)
}

// parseMode reads the permissions of a socket.
func parseMode(octal string) (os.FileMode, error) {
	mode, err := strconv.ParseUint(octal, 8, 9)
	return os.FileMode(mode), err
}

// minimumTLS is the version of crypto/tls. Without a value it is 1.2.
func (c *portsConfig) minimumTLS() uint16 {
	if c.tlsMinVersion == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// validAddress reports whether an address has the form host:port.
func validAddress(addr string) bool {
	_, port, err := net.SplitHostPort(addr)
	return err == nil && port != ""
}

// loopback reports whether an address can be reached from this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

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

// boundUnknown bounds what callers of a port that is bound may cost of whom nothing is known.
func (s *server) boundUnknown(h *http.Server, name string) error {
	unknown, err := port.NewUnknown(name, s.telemetry.Meters)
	if err != nil {
		return err
	}
	s.listeners[name] = unknown.Bound(h, s.listeners[name])
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
