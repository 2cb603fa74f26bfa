package port

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"time"

	"understudy/cmd/understudy/command"
)

// Certificates serves TLS on one port by what its files hold now. New connections
// get the new certificate; those that are open stay.
type Certificates struct {
	reloader
	// minimum is a version of TLS as crypto/tls has it.
	minimum uint16
	// protocols are what ALPN offers, the best first.
	protocols []string
}

// NewCertificates reads the files of a port for the first time. minimum is a version
// of TLS, protocols are those of ALPN.
func NewCertificates(
	port string, files TLSFiles, minimum uint16, protocols []string, log *slog.Logger,
) (*Certificates, error) {
	c := &Certificates{minimum: minimum, protocols: protocols}
	c.reloader = reloader{port: port, files: files, flags: flagsOf(port), configure: c.configure, log: log}
	if err := c.open(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config is for a listener. It asks for the present certificate at each handshake.
func (c *Certificates) Config() *tls.Config {
	return &tls.Config{
		MinVersion: c.minimum,
		NextProtos: c.protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return c.current.Load().config, nil
		},
	}
}

// configure makes the configuration of new connections.
func (c *Certificates) configure(pair tls.Certificate, authorities *x509.CertPool) *tls.Config {
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   c.minimum,
		NextProtos:   c.protocols,
		// A resumed session would outlive a change of the authorities, and saves
		// nothing where connections last for days.
		SessionTicketsDisabled: true,
	}
	if authorities != nil {
		config.ClientCAs, config.ClientAuth = authorities, c.files.clientAuth()
	}
	return config
}

// ClientCertificates are the authorities and the client certificate of the connections that
// this process makes to one server, by what their files hold now. A nil value has none.
type ClientCertificates struct{ reloader }

// ClientFiles are the PEM files of the connections to one server, each with the flag that names
// it. Cert and Key are both empty, or none is.
type ClientFiles struct{ CA, Cert, Key command.FlagValue }

// NewClientCertificates reads the files for the first time. name is the server in logs and
// metrics.
func NewClientCertificates(name string, files ClientFiles, log *slog.Logger) (*ClientCertificates, error) {
	c := &ClientCertificates{reloader{
		port: name, files: TLSFiles{Cert: files.Cert.Value, Key: files.Key.Value, ClientCA: files.CA.Value},
		flags: tlsFlags{cert: files.Cert.Flag, key: files.Key.Flag, ca: files.CA.Flag}, log: log,
		configure: func(pair tls.Certificate, authorities *x509.CertPool) *tls.Config {
			config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities}
			if pair.Leaf != nil {
				config.Certificates = []tls.Certificate{pair}
			}
			return config
		},
	}}
	if err := c.open(); err != nil {
		return nil, err
	}
	return c, nil
}

// Config reads the files again, and returns what a new connection uses: RootCAs, nil for
// those of the system, and at most one of Certificates. Where the files are not valid, these are
// the last valid ones.
func (c *ClientCertificates) Config() *tls.Config {
	c.refresh(time.Now())
	return c.current.Load().config
}

// Problem returns what is wrong with the files now; empty if nothing is.
func (c *ClientCertificates) Problem() string {
	if c == nil {
		return ""
	}
	return c.problem()
}
