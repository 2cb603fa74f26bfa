package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	adminpb "understudy/admin/v1"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/port"
	"understudy/cmd/understudy/port/certtest"
)

// reloadSoon is for tests that wait for a reload.
const reloadSoon = 2 * time.Millisecond

// dial makes a new connection with TLS.
func (r *running) dial(t *testing.T, server string, how cli.Transport) *grpc.ClientConn {
	t.Helper()
	conn, err := how.Dial(cli.HTTPSScheme + r.bound[server])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// met asks over a connection and returns the number of the certificate that the
// server showed when the connection was made.
func met(t *testing.T, conn *grpc.ClientConn) (int64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	var p peer.Peer
	_, err := authv3.NewAuthorizationClient(conn).Check(ctx, plainCheck(t), grpc.Peer(&p))
	if err != nil {
		return 0, err
	}
	return p.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0].SerialNumber.Int64(), nil
}

// plainCheck is what `understudy check` sends without flags.
func plainCheck(t *testing.T) *authv3.CheckRequest {
	t.Helper()
	return question{method: "GET", path: "/"}.request()
}

// TestNewConnectionsMeetTheNewCertificate replaces the files of a running server.
func TestNewConnectionsMeetTheNewCertificate(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	files := serverFiles(ca.Server(t, "server", 1))
	r := startServer(t, func(c *config) { c.authzTLS, c.tlsReload = files, reloadSoon })
	how := cli.Transport{CACert: ca.File}
	old := r.dial(t, "authz", how)
	if serial, err := met(t, old); err != nil || serial != 1 {
		t.Fatalf("met certificate %d, %v; want 1", serial, err)
	}
	next := ca.Server(t, "next", 2)
	certtest.Replace(t, certtest.Renamed{From: next.Cert, To: files.Cert})
	certtest.Replace(t, certtest.Renamed{From: next.Key, To: files.Key})
	testkit.Await(t, "a new connection meets the new certificate", func() bool {
		serial, err := met(t, r.dial(t, "authz", how))
		if err != nil {
			t.Fatal(err)
		}
		return serial == 2
	})
	if serial, err := met(t, old); err != nil || serial != 1 {
		t.Errorf("the old connection met certificate %d, %v; want it to stay as it was", serial, err)
	}
	_, metrics := r.call(t, "health", "GET", "/metrics", "")
	for _, want := range []string{`understudy_tls_certificate_expiry_seconds{`, `port="authz"`, `understudy_tls_reload_failing{`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
}

func TestClientsHaveToShowTheirCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, clients, strangers := certtest.NewAuthority(t, dir, "ca"), certtest.NewAuthority(t, dir, "clients"), certtest.NewAuthority(t, dir, "strangers")
	files := serverFiles(ca.Server(t, "server", 1))
	files.ClientCA = clients.File
	r := startServer(t, func(c *config) { c.authzTLS, c.tlsReload = files, reloadSoon })
	as := func(i certtest.Issued) cli.Transport {
		return cli.Transport{CACert: ca.File, ClientCert: i.Cert, ClientKey: i.Key}
	}
	envoy := as(clients.Client(t, "envoy", time.Hour))
	for name, c := range map[string]struct {
		how  cli.Transport
		want codes.Code
	}{
		"Envoy":                {envoy, codes.OK},
		"nobody":               {cli.Transport{CACert: ca.File}, codes.Unavailable},
		"a stranger":           {as(strangers.Client(t, "stranger", time.Hour)), codes.Unavailable},
		"Envoy of yesterday":   {as(clients.Client(t, "expired", -time.Hour)), codes.Unavailable},
		"a server as a client": {as(clients.Issue(t, "other", 1, time.Hour, x509.ExtKeyUsageServerAuth)), codes.Unavailable},
	} {
		if _, err := met(t, r.dial(t, "authz", c.how)); status.Code(err) != c.want {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if _, err := met(t, r.conn); err == nil {
		t.Error("a client without TLS is let in")
	}
	// Who is trusted changes with the file, also for who was here before.
	old := r.dial(t, "authz", envoy)
	if _, err := met(t, old); err != nil {
		t.Fatal(err)
	}
	certtest.Replace(t, certtest.Renamed{From: strangers.File, To: clients.File})
	testkit.Await(t, "a client of the authority before is refused", func() bool {
		_, err := met(t, r.dial(t, "authz", envoy))
		return err != nil
	})
	if _, err := met(t, old); err != nil {
		t.Errorf("the old connection: %v", err)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	files := serverFiles(ca.Server(t, "server", 1))
	for minimum, lower := range map[string]uint16{"1.2": tls.VersionTLS11, "1.3": tls.VersionTLS12} {
		r := startServer(t, func(c *config) { c.authzTLS, c.tlsMinVersion = files, minimum })
		config, err := cli.Transport{CACert: ca.File}.Config()
		if err != nil {
			t.Fatal(err)
		}
		config.NextProtos = []string{"h2"}
		for version, want := range map[uint16]bool{lower: false, lower + 1: true} {
			config.MinVersion, config.MaxVersion = version, version
			conn, err := tls.Dial("tcp", r.bound["authz"], config)
			if (err == nil) != want {
				t.Errorf("minimum %s: %s gives %v", minimum, tls.VersionName(version), err)
			}
			if err == nil {
				_ = conn.Close()
			}
		}
	}
}

// TestAdminOverTLS calls REST and gRPC on the one port.
func TestAdminOverTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	files := serverFiles(ca.Server(t, "server", 7))
	r := startServer(t, func(c *config) { c.adminTLS, c.tlsReload = files, reloadSoon })
	how := cli.Transport{CACert: ca.File}
	conn := r.dial(t, "admin", how)
	request := &adminpb.ListPoliciesRequest{Parent: "projects/p1/locations/l1"}
	if _, err := adminpb.NewPolicyPreviewClient(conn).ListPolicies(t.Context(), request); err != nil {
		t.Errorf("gRPC: %v", err)
	}
	config, err := how.Config()
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []int{1, 2} {
		transport := &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: protocol == 2}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get(cli.HTTPSScheme + r.bound["admin"] + policies)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != 200 || response.ProtoMajor != protocol {
			t.Errorf("REST over HTTP/%d answers %s: %s", protocol, response.Status, body)
		}
	}
}

// TestCommandsWithoutTLS say so where the port speaks it.
func TestCommandsWithoutTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	files := serverFiles(ca.Server(t, "server", 7))
	r := startServer(t, func(c *config) { c.adminTLS = files })
	lock := filepath.Join(t.TempDir(), "web.lock.json")
	if err := os.WriteFile(lock, []byte(sealed(t, `"name":"web","run_list":[],"cookbook_locks":{}}`)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"whoami"}, {"list"}, {"push", "l1", lock, "--allow-no-op"}} {
		code, out, errs := runCommand(t, append(args, "--admin", r.bound["admin"])...)
		if want := "write https:// before the address"; code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%v ends with %d: %s%s; want 1 and %q", args, code, out, errs, want)
		}
	}
}

// TestHTTPQuestionsOverTLS asks with and without a certificate.
func TestHTTPQuestionsOverTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	files := serverFiles(ca.Server(t, "server", 1))
	files.ClientCA = ca.File
	r := startServer(t, func(c *config) { withHTTP(c); c.httpAuthzTLS, c.defaultDecision = files, "allow" })
	r.awaitReady(t)
	proxy := ca.Client(t, "proxy", time.Hour)
	for _, c := range []struct {
		how cli.Transport
		in  bool
	}{{cli.Transport{CACert: ca.File, ClientCert: proxy.Cert, ClientKey: proxy.Key}, true}, {cli.Transport{CACert: ca.File}, false}} {
		config, err := c.how.Config()
		if err != nil {
			t.Fatal(err)
		}
		over := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
		response, err := (&http.Client{Transport: over}).Get(cli.HTTPSScheme + r.bound["http-authz"] + "/envoy/x")
		if (err == nil) != c.in {
			t.Errorf("%+v: %v", c.how, err)
		}
		if err == nil {
			if response.StatusCode != 200 {
				t.Errorf("%+v: %s", c.how, response.Status)
			}
			_ = response.Body.Close()
		}
		over.CloseIdleConnections()
	}
}

// awaitReady returns once there are policies.
func (r *running) awaitReady(t *testing.T) {
	t.Helper()
	testkit.Await(t, "the server is ready", func() bool {
		code, _ := r.call(t, "health", "GET", "/readyz", "")
		return code == 200
	})
}

// TestConnectionsAreClosedPolitely asks on and on while connections grow too old: no
// check fails.
func TestConnectionsAreClosedPolitely(t *testing.T) {
	t.Parallel()
	r := startServer(t, func(c *config) { c.connections.MaxAge = 20 * time.Millisecond })
	met := make(map[string]bool)
	testkit.Await(t, "two connections are closed", func() bool {
		var p peer.Peer
		if _, err := r.authz.Check(t.Context(), plainCheck(t), grpc.Peer(&p)); err != nil {
			t.Fatal(err)
		}
		met[p.LocalAddr.String()] = true
		return len(met) == 3
	})
}

// TestMessagesAreBounded sends a check that is too large by a little.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	r := startServer(t, func(c *config) { c.connections.MaxMessage = 10_000 })
	for size, want := range map[int]codes.Code{5_000: codes.OK, 10_001: codes.ResourceExhausted} {
		request := plainCheck(t)
		request.Attributes.Request.Http.Body = strings.Repeat("x", size)
		_, err := r.authz.Check(t.Context(), request)
		if status.Code(err) != want {
			t.Errorf("%d bytes: got %v, want %v", size, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), fmt.Sprint(10_000)) {
			t.Errorf("%v does not name the limit", err)
		}
	}
}

// serverFiles are the files of a certificate, as flags name them.
func serverFiles(i certtest.Issued) port.TLSFiles { return port.TLSFiles{Cert: i.Cert, Key: i.Key} }
