package port

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/port/certtest"
)

// reloading is certificates with a log, whose files a test looks at itself.
type reloading struct {
	*Certificates
	ca  *certtest.Authority
	log *bytes.Buffer
}

func newReloading(t *testing.T, ca *certtest.Authority, files TLSFiles) *reloading {
	t.Helper()
	r := &reloading{ca: ca, log: &bytes.Buffer{}}
	var err error
	r.Certificates, err = NewCertificates("authz", files, tls.VersionTLS12, []string{"h2"},
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
	go func() { _ = tls.Server(far, r.Config()).Handshake() }()
	roots := x509.NewCertPool()
	roots.AddCert(r.ca.Cert)
	client := tls.Client(near, &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h2"}})
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
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	files := filesOf(ca.Server(t, "server", 1))
	r := newReloading(t, ca, files)
	next := ca.Server(t, "next", 2)

	certtest.Replace(t, certtest.Renamed{From: next.Cert, To: files.Cert})
	for range 3 {
		r.refresh(time.Now())
	}
	if got := r.serial(t); got != 1 || r.problem() == "" {
		t.Errorf("between the two, certificate %d is served, problem %q; want the last good one", got, r.problem())
	}
	if text := r.logged(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "--authz-tls-key") ||
		strings.Contains(text, "PRIVATE KEY") {
		t.Errorf("want one error that names the flags, got:\n%s", text)
	}

	certtest.Replace(t, certtest.Renamed{From: next.Key, To: files.Key})
	r.refresh(time.Now())
	if got := r.serial(t); got != 2 || r.problem() != "" {
		t.Errorf("certificate %d is served, problem %q; want the new one", got, r.problem())
	}
	if text := r.logged(); !strings.Contains(text, "new certificate files are used") {
		t.Errorf("nothing is logged about the new certificate:\n%s", text)
	}
}

// TestFilesAreSwappedAtOnce replaces a folder by a symbolic link, as the kubelet does
// with a secret: the files themselves stay links with the same names.
func TestFilesAreSwappedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := certtest.NewAuthority(t, dir, "ca")
	for i, version := range []string{"v1", "v2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		made := ca.Server(t, version, int64(i+1))
		certtest.Replace(t, certtest.Renamed{From: made.Cert, To: filepath.Join(dir, version, "tls.crt")})
		certtest.Replace(t, certtest.Renamed{From: made.Key, To: filepath.Join(dir, version, "tls.key")})
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("v1", "..data")
	link("..data/tls.crt", "tls.crt")
	link("..data/tls.key", "tls.key")
	r := newReloading(t, ca, TLSFiles{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")})
	if got := r.serial(t); got != 1 {
		t.Fatalf("certificate %d is served, want 1", got)
	}
	link("v2", "..data_tmp")
	certtest.Replace(t, certtest.Renamed{From: filepath.Join(dir, "..data_tmp"), To: filepath.Join(dir, "..data")})
	r.refresh(time.Now())
	if got := r.serial(t); got != 2 {
		t.Errorf("certificate %d is served, want the new one", got)
	}
	r.logged()
	r.refresh(time.Now())
	if text := r.logged(); text != "" {
		t.Errorf("what did not change is logged: %s", text)
	}
}

func TestTheLastGoodCertificateStays(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(TLSFiles) error{
		"a certificate of garbage": func(f TLSFiles) error { return os.WriteFile(f.Cert, []byte("garbage"), 0o600) },
		"an empty key":             func(f TLSFiles) error { return os.WriteFile(f.Key, nil, 0o600) },
		"no certificate":           func(f TLSFiles) error { return os.Remove(f.Cert) },
		"authorities of garbage":   func(f TLSFiles) error { return os.WriteFile(f.ClientCA, []byte("garbage"), 0o600) },
		"no authorities":           func(f TLSFiles) error { return os.Remove(f.ClientCA) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ca, clients := certtest.NewAuthority(t, dir, "ca"), certtest.NewAuthority(t, dir, "clients")
			files := filesOf(ca.Server(t, "server", 1))
			files.ClientCA = clients.File
			r := newReloading(t, ca, files)
			before := r.current.Load()
			if err := spoil(files); err != nil {
				t.Fatal(err)
			}
			r.refresh(time.Now())
			r.refresh(time.Now())
			if r.current.Load() != before || r.problem() == "" {
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
	ca := certtest.NewAuthority(t, dir, "ca")
	one, two := ca.Server(t, "one", 1), ca.Server(t, "two", 2)
	garbage := filepath.Join(dir, "garbage")
	certtest.WritePEM(t, garbage, &pem.Block{Type: "CERTIFICATE", Bytes: []byte("no DER")})
	for name, c := range map[string]struct {
		files TLSFiles
		want  []string
	}{
		"missing":           {TLSFiles{Cert: dir + "/none", Key: one.Key}, []string{"--authz-tls-cert", "/none", "no such file", "name a PEM file"}},
		"another key":       {TLSFiles{Cert: one.Cert, Key: two.Key}, []string{"--authz-tls-cert " + one.Cert, "--authz-tls-key " + two.Key, "does not match"}},
		"a key as the cert": {TLSFiles{Cert: one.Key, Key: one.Key}, []string{"--authz-tls-cert", "the certificate of this process first"}},
		"broken":            {TLSFiles{Cert: garbage, Key: one.Key}, []string{"--authz-tls-cert " + garbage}},
		"a CA that is none": {TLSFiles{Cert: one.Cert, Key: one.Key, ClientCA: one.Key}, []string{"--authz-tls-client-ca " + one.Key, "no certificate in it"}},
		"a broken CA":       {TLSFiles{Cert: one.Cert, Key: one.Key, ClientCA: garbage}, []string{"--authz-tls-client-ca " + garbage, "malformed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := NewCertificates("authz", c.files, tls.VersionTLS12, nil, slog.New(slog.DiscardHandler))
			var exit *command.ExitError
			if !errors.As(err, &exit) || exit.Code != command.ExitUsage {
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
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	r := newReloading(t, ca, filesOf(ca.Server(t, "server", 1)))
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
func filesOf(i certtest.Issued) TLSFiles { return TLSFiles{Cert: i.Cert, Key: i.Key} }
