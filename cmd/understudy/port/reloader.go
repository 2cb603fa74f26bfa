package port

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"
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

// reloader keeps the TLS configuration of what files hold now, for new connections. Files are
// compared by content: neither a swapped symbolic link, as Kubernetes makes it, nor a time stamp
// matters. While the files make no sense, as between the writing of a certificate and of its
// key, the last good ones are used.
type reloader struct {
	// port is the name of the port, or of the server to connect to, in logs and metrics.
	port string
	// files are read again by refresh, and flags are named in errors.
	files TLSFiles
	flags tlsFlags
	// configure makes a configuration. Its certificate has no Leaf if no file has one, and its
	// authorities are nil if no file has them.
	configure func(tls.Certificate, *x509.CertPool) *tls.Config
	log       *slog.Logger

	// current is what handshakes use. It is never nil once open has returned.
	current atomic.Pointer[loaded]
	// failure is why the files of now cannot be used; nil if they can.
	failure atomic.Pointer[string]

	// mu is held by refresh: Run calls it, and so may each new connection.
	mu sync.Mutex
	// logged is the last failure that was logged, warned when the expiry was.
	logged string
	warned time.Time
}

// loaded is what files held at one moment.
type loaded struct {
	// config is for new connections; from is what it was made of, and expiry when the
	// first of the chain's certificates expires; zero without a certificate.
	config *tls.Config
	from   digests
	expiry time.Time
}

// open reads the files for the first time.
func (r *reloader) open() error {
	if _, err := r.load(); err != nil {
		return command.Usage(err)
	}
	r.logExpiry(time.Now())
	return nil
}

// Run looks at the files again and again until ctx is done.
func (r *reloader) Run(ctx context.Context, every time.Duration) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			r.refresh(now)
		}
	}
}

// refresh looks at the files once, and logs what is new.
func (r *reloader) refresh(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, err := r.load()
	if err != nil {
		r.logFailure(err)
	} else {
		r.logged = ""
		r.failure.Store(nil)
	}
	if changed {
		r.warned = time.Time{}
		r.log.Info("new certificate files are used", "port", r.port, "expires", r.current.Load().expiry)
	}
	r.logExpiry(now)
}

// load uses what the files hold. If they fail, the last good ones stay.
func (r *reloader) load() (changed bool, err error) {
	content, err := r.files.read(r.flags)
	if err != nil {
		return false, err
	}
	digests := content.digests()
	if last := r.current.Load(); last != nil && last.from == digests {
		return false, nil
	}
	var pair tls.Certificate
	var expiry time.Time
	if r.files.Cert != "" {
		if pair, expiry, err = r.files.pair(r.flags, content); err != nil {
			return false, err
		}
	}
	authorities, err := r.files.authorities(r.flags, content)
	if err != nil {
		return false, err
	}
	r.current.Store(&loaded{r.configure(pair, authorities), digests, expiry})
	return true, nil
}

// problem returns why the files of now cannot be used; empty if they can.
func (r *reloader) problem() string {
	if text := r.failure.Load(); text != nil {
		return *text
	}
	return ""
}

// logFailure notes a failure, and logs it once, not each time that it is seen.
func (r *reloader) logFailure(err error) {
	text := err.Error()
	r.failure.Store(&text)
	if r.logged == text {
		return
	}
	r.logged = text
	r.log.Error("certificate files cannot be used; the last good ones stay", "port", r.port, "error", err)
}

// logExpiry warns of a certificate that will expire soon or has expired.
func (r *reloader) logExpiry(now time.Time) {
	expiry := r.current.Load().expiry
	left := expiry.Sub(now)
	if expiry.IsZero() || left > expirySoon || !r.warned.IsZero() && now.Sub(r.warned) < expiryEvery {
		return
	}
	r.warned = now
	if left > 0 {
		r.log.Warn("the certificate expires soon: renew its files", "port", r.port, "file", r.files.Cert, "expires", expiry)
		return
	}
	r.log.Error("the certificate has expired, the other side refuses it: renew its files", "port", r.port, "file", r.files.Cert, "expired", expiry)
}

// Observe makes the metrics of the certificate.
func (r *reloader) Observe(provider metric.MeterProvider) error {
	meter := provider.Meter("understudy/tls")
	expiry, err := meter.Int64ObservableGauge("understudy.tls.certificate.expiry", metric.WithUnit("s"),
		metric.WithDescription("When the certificate that is used expires, in seconds of Unix time."))
	if err != nil {
		return err
	}
	failing, err := meter.Int64ObservableGauge("understudy.tls.reload.failing",
		metric.WithDescription("1 while the certificate files cannot be used and the last good ones are, else 0."))
	if err != nil {
		return err
	}
	port := metric.WithAttributes(attribute.String("port", r.port))
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if expires := r.current.Load().expiry; !expires.IsZero() {
			o.ObserveInt64(expiry, expires.Unix(), port)
		}
		value := int64(0)
		if r.problem() != "" {
			value = 1
		}
		o.ObserveInt64(failing, value, port)
		return nil
	}, expiry, failing)
	return err
}
