package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// reloading is certificates with a log, whose files a test looks at itself.
type reloading struct {
	*certificates
	ca  *authority
	log *bytes.Buffer
}

func newReloading(t *testing.T, ca *authority, files tlsFiles) *reloading {
	t.Helper()
	r := &reloading{ca: ca, log: &bytes.Buffer{}}
	var err error
	r.certificates, err = newCertificates("authz", files, tls.VersionTLS12, []string{"h2"},
		slog.New(slog.NewTextHandler(r.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// serial makes a connection and returns the number of the certificate that it meets.
func (r *reloading) serial(t *testing.T) int64 {
	t.Helper()
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	go func() { _ = tls.Server(far, r.config()).Handshake() }()
	config, err := transport{caCert: r.ca.file}.config()
	if err != nil {
		t.Fatal(err)
	}
	config.ServerName, config.NextProtos = "localhost", []string{"h2"}
	client := tls.Client(near, config)
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	state := client.ConnectionState()
	if state.NegotiatedProtocol != "h2" {
		t.Errorf("ALPN chose %q", state.NegotiatedProtocol)
	}
	return state.PeerCertificates[0].SerialNumber.Int64()
}

// logged returns what was logged since the last call.
func (r *reloading) logged() string {
	defer r.log.Reset()
	return r.log.String()
}

// TestFilesAreReplacedOneAfterTheOther replaces the certificate first and then its
// key: between the two nothing fits.
func TestFilesAreReplacedOneAfterTheOther(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, t.TempDir(), "ca")
	files := filesOf(ca.server(t, "server", 1))
	r := newReloading(t, ca, files)
	next := ca.server(t, "next", 2)

	replace(t, next.cert, files.cert)
	for range 3 {
		r.refresh(time.Now())
	}
	if got := r.serial(t); got != 1 || !r.failing.Load() {
		t.Errorf("between the two, certificate %d is served, failing %v; want the last good one", got, r.failing.Load())
	}
	if text := r.logged(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "--authz-tls-key") ||
		strings.Contains(text, "PRIVATE KEY") {
		t.Errorf("want one error that names the flags, got:\n%s", text)
	}

	replace(t, next.key, files.key)
	r.refresh(time.Now())
	if got := r.serial(t); got != 2 || r.failing.Load() {
		t.Errorf("certificate %d is served, failing %v; want the new one", got, r.failing.Load())
	}
	if text := r.logged(); !strings.Contains(text, "new certificate files are served") {
		t.Errorf("nothing tells of the new certificate:\n%s", text)
	}
}

// TestFilesAreSwappedAtOnce replaces a folder by a symbolic link, as the kubelet does
// with a secret: the files themselves stay links with the same names.
func TestFilesAreSwappedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t, dir, "ca")
	for i, version := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		made := ca.server(t, version, int64(i+1))
		replace(t, made.cert, filepath.Join(dir, version, "tls.crt"))
		replace(t, made.key, filepath.Join(dir, version, "tls.key"))
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("v1", "..data")
	link("..data/tls.crt", "tls.crt")
	link("..data/tls.key", "tls.key")
	r := newReloading(t, ca, tlsFiles{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key")})
	if got := r.serial(t); got != 1 {
		t.Fatalf("certificate %d is served, want 1", got)
	}
	link("v2", "..data_tmp")
	replace(t, filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data"))
	r.refresh(time.Now())
	if got := r.serial(t); got != 2 {
		t.Errorf("certificate %d is served, want the new one", got)
	}
	r.logged()
	r.refresh(time.Now())
	if text := r.logged(); text != "" {
		t.Errorf("what did not change is told of: %s", text)
	}
}

func TestTheLastGoodCertificateStays(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(tlsFiles) error{
		"a certificate of garbage": func(f tlsFiles) error { return os.WriteFile(f.cert, []byte("garbage"), 0o600) },
		"an empty key":             func(f tlsFiles) error { return os.WriteFile(f.key, nil, 0o600) },
		"no certificate":           func(f tlsFiles) error { return os.Remove(f.cert) },
		"authorities of garbage":   func(f tlsFiles) error { return os.WriteFile(f.clientCA, []byte("garbage"), 0o600) },
		"no authorities":           func(f tlsFiles) error { return os.Remove(f.clientCA) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ca, clients := newAuthority(t, dir, "ca"), newAuthority(t, dir, "clients")
			files := filesOf(ca.server(t, "server", 1))
			files.clientCA = clients.file
			r := newReloading(t, ca, files)
			before := r.current.Load()
			if err := spoil(files); err != nil {
				t.Fatal(err)
			}
			r.refresh(time.Now())
			r.refresh(time.Now())
			if r.current.Load() != before || !r.failing.Load() {
				t.Error("the last good files are not served")
			}
			if text := r.logged(); strings.Count(text, "level=ERROR") != 1 {
				t.Errorf("want one error, got:\n%s", text)
			}
		})
	}
}

func TestBadFilesAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newAuthority(t, dir, "ca")
	one, two := ca.server(t, "one", 1), ca.server(t, "two", 2)
	garbage := filepath.Join(dir, "garbage")
	writePEM(t, garbage, "CERTIFICATE", []byte("no DER"))
	for name, c := range map[string]struct {
		files tlsFiles
		want  []string
	}{
		"missing":           {tlsFiles{cert: dir + "/none", key: one.key}, []string{"--authz-tls-cert", "/none", "no such file", "name a PEM file"}},
		"another key":       {tlsFiles{cert: one.cert, key: two.key}, []string{"--authz-tls-cert " + one.cert, "--authz-tls-key " + two.key, "does not match"}},
		"a key as the cert": {tlsFiles{cert: one.key, key: one.key}, []string{"--authz-tls-cert", "the server's own certificate first"}},
		"broken":            {tlsFiles{cert: garbage, key: one.key}, []string{"--authz-tls-cert " + garbage}},
		"a CA that is none": {tlsFiles{one.cert, one.key, one.key}, []string{"--authz-tls-client-ca " + one.key, "no certificate in it"}},
		"a broken CA":       {tlsFiles{one.cert, one.key, garbage}, []string{"--authz-tls-client-ca " + garbage, "malformed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newCertificates("authz", c.files, tls.VersionTLS12, nil, slog.New(slog.DiscardHandler))
			var exit *exitError
			if !errors.As(err, &exit) || exit.code != exitUsage {
				t.Fatalf("got %v, want an error of usage", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestExpiryIsWarnedOf(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, t.TempDir(), "ca")
	r := newReloading(t, ca, filesOf(ca.server(t, "server", 1)))
	expiry := r.current.Load().expiry
	for _, step := range []struct {
		name string
		at   time.Duration // after the expiry
		want string
	}{
		{"long before", -8 * 24 * time.Hour, ""},
		{"a week before", -7 * 24 * time.Hour, "level=WARN msg=\"the certificate expires soon"},
		{"a little later", -7*24*time.Hour + time.Hour, ""},
		{"a day later", -6 * 24 * time.Hour, "level=WARN"},
		{"expired", time.Hour, "level=ERROR msg=\"the certificate has expired"},
	} {
		r.refresh(expiry.Add(step.at))
		if got := r.logged(); (got == "") != (step.want == "") || !strings.Contains(got, step.want) {
			t.Errorf("%s: logged %q, want %q", step.name, got, step.want)
		}
	}
}

// filesOf are the files of a certificate, as flags name them.
func filesOf(i issued) tlsFiles { return tlsFiles{cert: i.cert, key: i.key} }
