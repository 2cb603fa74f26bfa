package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/metric"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/lifecycle"
	"understudy/cmd/understudy/port"
)

// portsConfig is what all ports have in common; where each is, its own part says.
type portsConfig struct {
	// authzSocketMode is octal permissions: who connects to a socket is anyone who may write
	// to it.
	authzSocketMode string
	// tlsMinVersion is 1.2 or 1.3, for all ports.
	tlsMinVersion string
	// tlsReload is how often files of certificates and tokens are read again.
	tlsReload time.Duration
}

// bind declares the flags.
func (c *portsConfig) bind(f *pflag.FlagSet) {
	f.StringVar(&c.authzSocketMode, "authz-socket-mode", "0660", "who may connect to a unix socket, as octal permissions")
	f.StringVar(&c.tlsMinVersion, "tls-min-version", "1.2", "the oldest TLS that is spoken: 1.2, which is what Envoy speaks unless it is configured otherwise, or 1.3")
	f.DurationVar(&c.tlsReload, "tls-reload-interval", 5*time.Second, "how often files of certificates and tokens are looked at")
}

// check calls check with each rule and whether it is kept. Files of certificates are read
// later, when the ports are opened: their errors name more than a rule could.
func (c *portsConfig) check(check rule) {
	_, err := parseMode(c.authzSocketMode)
	check(err == nil, "authz-socket-mode", "it is octal permissions such as 0660")
	check(command.OneOf(c.tlsMinVersion, "1.2", "1.3"), "tls-min-version", "it is 1.2 or 1.3")
	check(c.tlsReload > 0, "tls-reload-interval", "it is a duration above zero, such as 5s")
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

// ports are what the process has bound, and what that speaks TLS by.
type ports struct {
	settings portsConfig
	log      *slog.Logger
	meters   metric.MeterProvider
	// bound :: authz, http-authz, reservation, admin, health → address.
	bound map[string]string
	// listeners :: as bound → what is bound and not yet served.
	listeners map[string]net.Listener
	// storeCertificates are the files of connections to the store; nil if there are none.
	storeCertificates *port.ClientCertificates
	// certificates are storeCertificates, and the files of the ports that speak TLS.
	certificates []certificates
}

// certificates are files that are read again at an interval, and have metrics.
type certificates interface {
	Run(ctx context.Context, every time.Duration) error
	Observe(meters metric.MeterProvider) error
}

func newPorts(settings portsConfig, meters metric.MeterProvider, log *slog.Logger) *ports {
	return &ports{settings: settings, log: log, meters: meters, bound: make(map[string]string), listeners: make(map[string]net.Listener)}
}

// bind opens a port, and notes where it is: with :0 the system chooses. Its errors name
// the flag.
func (p *ports) bind(ctx context.Context, name, addr string) error {
	l, err := p.listen(ctx, name, addr)
	if err != nil {
		return err
	}
	p.listeners[name] = l
	p.bound[name] = port.AddressOf(l)
	return nil
}

// listen opens a port.
func (p *ports) listen(ctx context.Context, name, addr string) (net.Listener, error) {
	mode, err := parseMode(p.settings.authzSocketMode)
	if err != nil {
		return nil, fmt.Errorf("--authz-socket-mode: %w", err)
	}
	l, err := port.Listen(ctx, addr, mode)
	if err != nil {
		return nil, fmt.Errorf("--%s-addr %s: %w", name, addr, err)
	}
	return l, nil
}

// close gives ports back that are bound and not served, after a start that failed.
func (p *ports) close() error {
	var errs []error
	for _, l := range p.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// follow reads the files of certificates again until ctx is done.
func (p *ports) follow(ctx context.Context, g *lifecycle.Group) {
	for _, c := range p.certificates {
		g.Go("certificates", func() error { return c.Run(ctx, p.settings.tlsReload) })
	}
}

// secureHTTP gives a server the TLS of its port, if that has any.
func (p *ports) secureHTTP(h *http.Server, name string, files port.TLSFiles) error {
	var err error
	if h.TLSConfig, err = p.secure(name, files, "h2", "http/1.1"); err != nil || h.TLSConfig == nil {
		return err
	}
	r, err := port.NewRefusals(name, p.meters, p.log)
	if err != nil {
		return err
	}
	h.ErrorLog = log.New(r, "", 0)
	return nil
}

// boundUnknown bounds what callers of a port that is bound may cost of whom nothing is known.
func (p *ports) boundUnknown(h *http.Server, name string) error {
	unknown, err := port.NewUnknown(name, p.meters)
	if err != nil {
		return err
	}
	p.listeners[name] = unknown.Bound(h, p.listeners[name])
	return nil
}

// secure makes the TLS of a port with what ALPN offers, nil if it has none.
func (p *ports) secure(name string, files port.TLSFiles, protocols ...string) (*tls.Config, error) {
	if !files.Given() {
		return nil, nil
	}
	c, err := port.NewCertificates(name, files, p.settings.minimumTLS(), protocols, p.log)
	if err != nil {
		return nil, err
	}
	return c.Config(), p.add(c)
}

// followCertificates follows the files of connections to the store, if there are any. New
// connections read them anyway: this finds what is wrong with them before there is one.
func (p *ports) followCertificates(store *port.ClientCertificates) error {
	if p.storeCertificates = store; store == nil {
		return nil
	}
	return p.add(store)
}

// add adds certificates to those that are followed.
func (p *ports) add(c certificates) error {
	if err := c.Observe(p.meters); err != nil {
		return fmt.Errorf("making the metrics: %w", err)
	}
	p.certificates = append(p.certificates, c)
	return nil
}
