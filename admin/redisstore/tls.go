package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNoTLS says that certificates are given for a URL of a store without TLS.
var ErrNoTLS = errors.New("the URL of the store has no TLS: write rediss://, rediss+cluster:// or rediss+sentinel://, " +
	"or leave the files of certificates out")

// ErrCertificate says that Redis answers, and that one of the two sides does not accept the
// certificate of the other.
var ErrCertificate = errors.New("the TLS handshake with Redis failed")

var (
	errUntrusted = fmt.Errorf("%w: its certificate is not trusted; name the PEM file of its authority with --store-ca-file, "+
		"and the host of its certificate in the URL of the store", ErrCertificate)
	errNotShown = fmt.Errorf("%w: it asks for a client certificate, and there is none; "+
		"name its PEM files with --store-cert-file and --store-key-file", ErrCertificate)
	errNotAccepted = fmt.Errorf("%w: it asked for a client certificate and ended the connection; "+
		"--store-cert-file needs a certificate that has not expired, of an authority that Redis trusts", ErrCertificate)
)

// WithTLS sets the authorities (RootCAs) and the client certificate (Certificates) of the
// connections to Redis, to its Sentinels and to all nodes of a Cluster. current is called for
// each new connection, by several goroutines at a time. Open returns ErrNoTLS if the URL has
// no TLS.
func WithTLS(current func() *tls.Config) Option { return func(s *Store) { s.login.tls = current } }

// dialer makes a new connection.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// tlsDialer makes connections with TLS.
type tlsDialer struct {
	// plain makes the connection below TLS, within the timeout.
	plain   dialer
	timeout time.Duration
	// fromURL has the name that certificates of servers have to have.
	fromURL *tls.Config
	// current has authorities and the client certificate; nil means those of the system, and
	// none.
	current func() *tls.Config
}

// newDialer returns what makes the connections of a client; nil, which is the dialer of
// go-redis, if the URL has no TLS.
func newDialer(fromURL *tls.Config, timeout time.Duration, current func() *tls.Config) dialer {
	if fromURL == nil {
		return nil
	}
	setDefault(&timeout, dialTimeout)
	d := tlsDialer{plain: redis.NewDialer(&redis.Options{DialTimeout: timeout}), timeout: timeout, fromURL: fromURL, current: current}
	return d.dial
}

// dial makes a connection and its handshake.
func (d tlsDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	conn, err := d.plain(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	config, asked := d.fromURL.Clone(), &clientCertificate{}
	config.MinVersion = tls.VersionTLS12
	if d.current != nil {
		current := d.current()
		config.RootCAs = current.RootCAs
		if len(current.Certificates) > 0 {
			asked.certificate = &current.Certificates[0]
		}
	}
	config.GetClientCertificate = asked.get
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, asked.explain(err)
	}
	return &tlsConn{Conn: secured, asked: asked}, nil
}

// clientCertificate is what a server is shown if it asks for a certificate.
type clientCertificate struct {
	// certificate is nil if there is none.
	certificate *tls.Certificate
	// wanted says that the server has asked.
	wanted bool
}

// get implements GetClientCertificate of tls.Config. The certificate is shown also if
// the server names other authorities: then its refusal says what is wrong.
func (c *clientCertificate) get(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if c.wanted = true; c.certificate == nil {
		return &tls.Certificate{}, nil
	}
	return c.certificate, nil
}

// explain adds to the error of a connection on which the server has sent nothing yet what is
// wrong with the certificate of one side, if one is the cause.
func (c *clientCertificate) explain(err error) error {
	var untrusted *tls.CertificateVerificationError
	switch {
	case errors.As(err, &untrusted):
		return fmt.Errorf("%w: %w", errUntrusted, err)
	case !c.wanted, errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return err
	case c.certificate == nil:
		return fmt.Errorf("%w: %w", errNotShown, err)
	}
	return fmt.Errorf("%w: %w", errNotAccepted, err)
}

// tlsConn is a connection of which a client knows after its first read whether it was accepted.
//
// In TLS 1.3 a server looks at the certificate of a client after the handshake of the client
// has ended. The refusal is the error of the first read: an alert or, if the client had sent a
// command already, a reset.
type tlsConn struct {
	*tls.Conn
	asked *clientCertificate
	// accepted says that the server has sent something.
	accepted atomic.Bool
}

// Read implements net.Conn.
func (c *tlsConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.explain(n, err)
}

// Write implements net.Conn.
func (c *tlsConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.explain(0, err)
}

// explain explains an error before the server has sent anything.
func (c *tlsConn) explain(read int, err error) error {
	switch {
	case c.accepted.Load():
		return err
	case read > 0:
		c.accepted.Store(true)
		return err
	case err == nil:
		return nil
	}
	return c.asked.explain(err)
}
