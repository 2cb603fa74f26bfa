package port

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"understudy/cmd/understudy/command"
)

const (
	// expirySoon is how long before its expiry a certificate is warned of.
	expirySoon = 7 * 24 * time.Hour
	// expiryEvery is the time between two warnings of the same certificate.
	expiryEvery = 12 * time.Hour
)

// Certificates serves TLS on one port by what its files hold now. New connections
// get the new certificate; those that are open stay. Files are compared by content:
// neither a swapped symbolic link, as Kubernetes makes it, nor a time stamp matters.
// While the files make no sense, as between the writing of a certificate and of its
// key, the last good ones serve.
type Certificates struct {
	// port is the name of the port in flags, logs and metrics.
	port string
	// files are read again by Run.
	files TLSFiles
	// minimum is a version of TLS as crypto/tls has it.
	minimum uint16
	// protocols are what ALPN offers, the best first.
	protocols []string
	log       *slog.Logger

	// current is what handshakes use. It is never nil once the constructor has returned.
	current atomic.Pointer[served]
	// failing says that the files of now cannot be served.
	failing atomic.Bool

	// logged is the last failure that was logged, warned when the expiry was. Both
	// belong to refresh.
	logged string
	warned time.Time
}

// served is what files held at one moment.
type served struct {
	// config is for new connections; from is what it was made of, and expiry when the
	// first of the chain's certificates expires.
	config *tls.Config
	from   digests
	expiry time.Time
}

// NewCertificates reads the files of a port for the first time. minimum is a version
// of TLS, protocols are those of ALPN.
func NewCertificates(
	port string, files TLSFiles, minimum uint16, protocols []string, log *slog.Logger,
) (*Certificates, error) {
	c := &Certificates{port: port, files: files, minimum: minimum, protocols: protocols, log: log}
	if _, err := c.load(); err != nil {
		return nil, command.Usage(err)
	}
	c.logExpiry(time.Now())
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

// Run looks at the files again and again until ctx is done.
func (c *Certificates) Run(ctx context.Context, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			c.refresh(now)
		}
	}
}

// refresh looks at the files once, and logs what is new. It is not called by two
// at a time.
func (c *Certificates) refresh(now time.Time) {
	changed, err := c.load()
	c.failing.Store(err != nil)
	if err != nil {
		c.logFailure(err)
	} else {
		c.logged = ""
	}
	if changed {
		c.warned = time.Time{}
		c.log.Info("new certificate files are served", "port", c.port, "expires", c.current.Load().expiry)
	}
	c.logExpiry(now)
}

// load serves what the files hold. If they fail, the last good ones stay.
func (c *Certificates) load() (changed bool, err error) {
	content, err := c.files.read(c.port)
	if err != nil {
		return false, err
	}
	digests := content.digests()
	if last := c.current.Load(); last != nil && last.from == digests {
		return false, nil
	}
	pair, expiry, err := c.files.pair(c.port, content)
	if err != nil {
		return false, err
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   c.minimum,
		NextProtos:   c.protocols,
		// A resumed session would outlive a change of the authorities, and saves
		// nothing where connections last for days.
		SessionTicketsDisabled: true,
	}
	if config.ClientCAs, err = c.files.clients(c.port, content); err != nil {
		return false, err
	}
	if config.ClientCAs != nil {
		config.ClientAuth = c.files.clientAuth()
	}
	c.current.Store(&served{config, digests, expiry})
	return true, nil
}

// logFailure logs a failure once, not each time that it is seen.
func (c *Certificates) logFailure(err error) {
	if c.logged == err.Error() {
		return
	}
	c.logged = err.Error()
	c.log.Error("certificate files cannot be served; the last good ones stay", "port", c.port, "error", err)
}

// logExpiry warns of a certificate that will expire soon or has expired.
func (c *Certificates) logExpiry(now time.Time) {
	expiry := c.current.Load().expiry
	left := expiry.Sub(now)
	if left > expirySoon || !c.warned.IsZero() && now.Sub(c.warned) < expiryEvery {
		return
	}
	c.warned = now
	if left > 0 {
		c.log.Warn("the certificate expires soon: renew its files", "port", c.port, "file", c.files.Cert, "expires", expiry)
		return
	}
	c.log.Error("the certificate has expired, clients refuse it: renew its files", "port", c.port, "file", c.files.Cert, "expired", expiry)
}

// Observe makes the metrics of the port's certificate.
func (c *Certificates) Observe(provider metric.MeterProvider) error {
	meter := provider.Meter("understudy/tls")
	expiry, err := meter.Int64ObservableGauge("understudy.tls.certificate.expiry", metric.WithUnit("s"),
		metric.WithDescription("When the certificate that is served expires, in seconds of Unix time."))
	if err != nil {
		return err
	}
	failing, err := meter.Int64ObservableGauge("understudy.tls.reload.failing",
		metric.WithDescription("1 while the certificate files cannot be served and the last good ones are, else 0."))
	if err != nil {
		return err
	}
	port := metric.WithAttributes(attribute.String("port", c.port))
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(expiry, c.current.Load().expiry.Unix(), port)
		value := int64(0)
		if c.failing.Load() {
			value = 1
		}
		o.ObserveInt64(failing, value, port)
		return nil
	}, expiry, failing)
	return err
}
