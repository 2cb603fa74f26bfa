package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"regexp"
	"testing"
	"time"

	"understudy/cmd/testkit"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/port/certtest"
)

// TestARefusedHandshakeIsCounted: the client does not learn why, and may not even know that it
// was refused.
func TestARefusedHandshakeIsCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, clients, strangers := certtest.NewAuthority(t, dir, "ca"), certtest.NewAuthority(t, dir, "clients"), certtest.NewAuthority(t, dir, "strangers")
	files := serverFiles(ca.Server(t, "server", 1))
	files.ClientCA = clients.File
	r := startServer(t, func(c *config) {
		c.authzTLS, c.httpAuthzTLS, c.adminTLS, c.httpAuthzAddr = files, files, port.TLSFiles{Cert: files.Cert, Key: files.Key}, "127.0.0.1:0"
		c.httpAuthzPathPrefix = "/envoy"
	})
	r.awaitReady(t)
	pair := func(i certtest.Issued) []tls.Certificate {
		c, err := tls.LoadX509KeyPair(i.Cert, i.Key)
		if err != nil {
			t.Fatal(err)
		}
		return []tls.Certificate{c}
	}
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(ca.File)
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("no authority: %v", err)
	}
	for _, c := range []struct {
		port, reason string
		config       *tls.Config
	}{
		{"authz", "no_client_certificate", &tls.Config{RootCAs: roots}},
		{"authz", "unknown_authority", &tls.Config{RootCAs: roots, Certificates: pair(strangers.Client(t, "stranger", time.Hour))}},
		{"authz", "client_certificate_expired", &tls.Config{RootCAs: roots, Certificates: pair(clients.Client(t, "expired", -time.Hour))}},
		{"authz", "client_certificate_usage", &tls.Config{RootCAs: roots, Certificates: pair(clients.Issue(t, "other", 1, time.Hour, x509.ExtKeyUsageServerAuth))}},
		{"authz", "refused_by_client", &tls.Config{}},
		{"authz", "version", &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}},
		{"authz", "not_tls", nil},
		{"http-authz", "no_client_certificate", &tls.Config{RootCAs: roots}},
		{"http-authz", "unknown_authority", &tls.Config{RootCAs: roots, Certificates: pair(strangers.Client(t, "stranger2", time.Hour))}},
		{"admin", "refused_by_client", &tls.Config{}},
	} {
		knock(t, r.bound[c.port], c.config)
		r.awaitMetric(t, fmt.Sprintf(`understudy_tls_handshake_failures_total\{[^}]*port="%s"[^}]*reason="%s"[^}]*\} 1\n`, c.port, c.reason))
	}
}

// knock begins a connection and reads until its end. Without a configuration it speaks no
// TLS.
func knock(t *testing.T, addr string, config *tls.Config) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if config != nil {
		config = config.Clone()
		config.ServerName, config.NextProtos = "127.0.0.1", []string{"h2"}
		if shown := config.Certificates; len(shown) > 0 {
			// Otherwise Go would show none that the server says it does not trust.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown[0], nil }
		}
		conn = tls.Client(conn, config)
	}
	_, _ = conn.Write([]byte("PRI * HTTP/2.0\r\n\r\n"))
	for b := make([]byte, 100); err == nil; {
		_, err = conn.Read(b)
	}
}

// awaitMetric returns when the metrics have what matches.
func (r *running) awaitMetric(t *testing.T, pattern string) {
	t.Helper()
	like := regexp.MustCompile(pattern)
	testkit.Await(t, "a metric is like "+pattern, func() bool {
		_, page := r.call(t, "health", "GET", "/metrics", "")
		return like.MatchString(page)
	})
}
