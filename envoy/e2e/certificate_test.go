//go:build realenvoy

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// encrypted is a sidecar whose port demands certificates, an Envoy that asks it by the
// file's lines for TLS, and a load.
type encrypted struct {
	sidecar *sidecar
	envoy   *envoy
	load    *load
	// folder is where the files of both are.
	folder string
}

func newEncrypted(t *testing.T, server, client issued, ca *authority) *encrypted {
	t.Helper()
	e := &encrypted{folder: t.TempDir()}
	tls := filepath.Join(e.folder, "tls")
	if err := os.Mkdir(tls, 0o700); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{ca.file: "ca.pem", client.cert: "envoy.pem", client.key: "envoy.key"} {
		replace(t, from, filepath.Join(tls, to))
	}
	sds, err := os.ReadFile("../sds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(e.folder, "sds.yaml"), bytes.ReplaceAll(sds, []byte("/etc/envoy"), []byte(e.folder)), 0o600); err != nil {
		t.Fatal(err)
	}
	e.sidecar = newSidecar(t, "--authz-tls-cert", server.cert, "--authz-tls-key", server.key, "--authz-tls-client-ca", ca.file,
		"--tls-reload-interval", "20ms", "--authz-max-connection-age", "1s")
	e.sidecar.apply(t, "web", "testdata/web.rego")
	c := alternative(t, "envoy.yaml", "tls").local(t, newUpstream(t)).move(t, "understudy", 9191, e.sidecar.listening.Authz)
	c.files(t, "/etc/envoy", e.folder)
	validate(t, c)
	e.envoy = newEnvoy(t, c)
	e.load = newLoad(t, e.envoy.at["ingress"])
	e.load.answered(t, 100)
	return e
}

// replace puts a copy of a file in the place of another, in one step.
func replace(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	next := to + ".next"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, to); err != nil {
		t.Fatal(err)
	}
}

// TestEnvoysOwnCertificateIsReplaced: sds.yaml has Envoy read its certificate again, and
// no request is lost by it.
func TestEnvoysOwnCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	server, first, second := ca.issue(t, "server", name("understudy.example")), ca.issue(t, "first"), ca.issue(t, "second")
	e := newEncrypted(t, server, first, ca)
	e.load.until(t, "the first certificate is shown", func() bool { return e.shows(t, first) && !e.shows(t, second) })
	replace(t, second.key, filepath.Join(e.folder, "tls", "envoy.key"))
	replace(t, second.cert, filepath.Join(e.folder, "tls", "envoy.pem"))
	e.load.until(t, "the second certificate is shown", func() bool { return e.shows(t, second) && !e.shows(t, first) })
	e.reconnects(t)
	e.load.outcome().check(t, hardlyAny)
}

// shows reports whether Envoy has a certificate.
func (e *encrypted) shows(t *testing.T, i issued) bool {
	t.Helper()
	return strings.Contains(get(t, "http://"+e.envoy.admin+"/certs"), fmt.Sprintf(`"serial_number": "%02x"`, i.serial))
}

// reconnects waits until Envoy has made new connections to Understudy and used them.
func (e *encrypted) reconnects(t *testing.T) {
	t.Helper()
	handshakes := func() float64 {
		return e.envoy.stat(t, "envoy_cluster_ssl_handshake", `envoy_cluster_name="understudy"`)
	}
	from := handshakes()
	e.load.until(t, "new connections are made", func() bool { return handshakes() > from+1 })
	e.load.answered(t, 100)
}

// TestUnderstudysCertificateIsReplaced: connections that are made anew meet the new
// one, and no request is lost by it.
func TestUnderstudysCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	server, next, client := ca.issue(t, "server", name("understudy.example")), ca.issue(t, "next", name("understudy.example")), ca.issue(t, "client")
	e := newEncrypted(t, server, client, ca)
	handshakes := func() float64 {
		return e.envoy.stat(t, "envoy_cluster_ssl_handshake", `envoy_cluster_name="understudy"`)
	}
	replace(t, next.key, server.key)
	replace(t, next.cert, server.cert)
	from := handshakes()
	e.load.until(t, "new connections are made", func() bool { return handshakes() > from+1 })
	e.load.answered(t, 100)
	e.load.outcome().check(t, hardlyAny)
}

// TestUntrustedPeersAreNotServed: an Understudy of another name or authority decides nothing,
// and nobody passes.
func TestUntrustedPeersAreNotServed(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	client := ca.issue(t, "client")
	for what, server := range map[string]issued{
		"another name":      ca.issue(t, "other", name("other.example")),
		"another authority": other.issue(t, "server", name("understudy.example")),
	} {
		t.Run(what, func(t *testing.T) {
			e := newEncrypted(t, server, client, ca)
			o := e.load.outcome()
			if o.right != 0 || o.unanswered == 0 || o.allowed+o.denied+o.other != 0 {
				t.Errorf("%+v; want that no request is decided", o)
			}
		})
	}
}

// TestARefusedHandshakeIsCounted: an Envoy whose certificate is of another authority takes
// its handshake for a good one (TLS 1.3); who refuses it is Understudy, and says so.
func TestARefusedHandshakeIsCounted(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	e := newEncrypted(t, ca.issue(t, "server", name("understudy.example")), other.issue(t, "client"), ca)
	refused := func() float64 {
		return e.sidecar.metric(t, "understudy_tls_handshake_failures_total", `port="authz"`, `reason="unknown_authority"`)
	}
	e.load.until(t, "handshakes are counted as refused", func() bool { return refused() > 1 })
	if o := e.load.outcome(); o.unanswered == 0 || o.right+o.allowed+o.denied+o.other != 0 {
		t.Errorf("%+v; want that no request is decided", o)
	}
	if n := e.envoy.stat(t, "envoy_cluster_ssl_handshake", `envoy_cluster_name="understudy"`); n == 0 {
		t.Error("Envoy has no handshake: it cannot log them, which is why Understudy has to")
	}
	// A line a minute at most: a second one only if this took so long.
	lines := e.sidecar.log.with("a TLS handshake failed")
	if len(lines) == 0 || float64(len(lines)) >= refused() || !strings.Contains(lines[0], `"level":"WARN"`) || !strings.Contains(lines[0], `"reason":"unknown_authority"`) {
		t.Errorf("the log of Understudy has %q of %v handshakes", lines, refused())
	}
}
