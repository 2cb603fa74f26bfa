package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"strconv"
	"time"
)

// otlpTimeout is how long one call of a collector over HTTP may take. The SDK leaves that, as
// it leaves the certificates, to a client that is not its own.
func otlpTimeout() time.Duration {
	if ms, err := strconv.Atoi(otlpVariable("TIMEOUT")); err == nil && ms >= 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return 10 * time.Second
}

// newTransport returns the transport to a collector over HTTP, with the certificates that the
// environment names. The SDK reads the same files, and reports what is wrong with one.
func newTransport() *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if content, err := os.ReadFile(otlpVariable("CERTIFICATE")); err == nil {
		authorities := x509.NewCertPool()
		if authorities.AppendCertsFromPEM(content) {
			transport.TLSClientConfig.RootCAs = authorities
		}
	}
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_LOGS_", "OTEL_EXPORTER_OTLP_"} {
		certificate, key := os.Getenv(prefix+"CLIENT_CERTIFICATE"), os.Getenv(prefix+"CLIENT_KEY")
		if certificate == "" || key == "" {
			continue
		}
		if pair, err := tls.LoadX509KeyPair(certificate, key); err == nil {
			transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
		}
		break
	}
	return transport
}
