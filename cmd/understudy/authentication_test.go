package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"understudy/admin/authentication/oidc/oidctest"
	"understudy/admin/authentication/tokens"
	adminpb "understudy/admin/v1"
	"understudy/authz/diagnostics/logtest"
	"understudy/cmd/testkit"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/port/certtest"
)

// newToken makes a token and a file with its line.
func newToken(t *testing.T, name string) (token, file string) {
	t.Helper()
	token, line, err := tokens.New(name, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return token, file
}

// askAs makes a REST call with TLS, if config is not nil, and a bearer token, if there is one.
func (r *running) askAs(t *testing.T, config *tls.Config, method, path, token string) (code int, body string, err error) {
	t.Helper()
	scheme, transport := "http://", &http.Transport{}
	if config != nil {
		scheme, transport.TLSClientConfig = cli.HTTPSScheme, config.Clone()
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, scheme+r.bound["admin"]+path, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content), nil
}

// tlsOf is the TLS of a client.
func tlsOf(t *testing.T, how cli.Transport) *tls.Config {
	t.Helper()
	config, err := how.Config()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestEveryWayToBeKnown at once: certificates, a token file and an issuer, on REST, gRPC, the
// Policyfile API and /whoami.
func TestEveryWayToBeKnown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, strangers := certtest.NewAuthority(t, dir, "ca"), certtest.NewAuthority(t, dir, "strangers")
	token, file := newToken(t, "ci")
	issuer := oidctest.New(t)
	ops := "group:" + issuer.URL + "#ops"
	log := &logtest.Buffer{}
	r := startServerWithLog(t, log, func(c *config) {
		c.adminTLS = serverFiles(ca.Server(t, "server", 1))
		c.adminTLS.ClientCA = ca.File
		c.adminTokenFiles, c.oidcIssuers = []string{file}, []string{issuer.URL + ",audience=understudy"}
		c.owners = []string{"token:ci", "cert:localhost", ops}
	})
	as := func(i certtest.Issued) cli.Transport {
		return cli.Transport{CACert: ca.File, ClientCert: i.Cert, ClientKey: i.Key}
	}
	bare, ann := cli.Transport{CACert: ca.File}, as(ca.Client(t, "ann", time.Hour))
	jwt := issuer.Token(map[string]any{"groups": []string{"ops"}})
	for name, c := range map[string]struct {
		how   cli.Transport
		token string
		code  int
		who   string
	}{
		"a certificate":                 {ann, "", 200, `"principal":"cert:localhost"`},
		"a token":                       {bare, token, 200, `"principal":"token:ci"`},
		"a token of the issuer":         {bare, jwt, 200, `"principal":"oidc:` + issuer.URL + `#ann","groups":["` + ops + `"]`},
		"a token and a certificate":     {ann, token, 200, `"principal":"token:ci"`},
		"nothing":                       {bare, "", 401, "no credentials"},
		"a bad token":                   {bare, "ustk_hunter2", 401, "not known here"},
		"a bad token and a certificate": {ann, "ustk_hunter2", 401, "not known here"},
		"an expired token":              {bare, issuer.Token(map[string]any{"exp": 1}), 401, "has expired"},
	} {
		config := tlsOf(t, c.how)
		if code, body, err := r.askAs(t, config, "GET", "/whoami", c.token); err != nil || code != c.code || !strings.Contains(body, c.who) {
			t.Errorf("%s: %d, %v, %s, want %d with %s", name, code, err, body, c.code, c.who)
		}
		known := map[bool]string{true: `{"tokens":["ci"],"owners":["token:ci","cert:localhost","` + ops + `"]}`}[c.code == 200]
		if code, body, err := r.askAs(t, config, "GET", "/members", c.token); err != nil || code != c.code || !strings.HasPrefix(body, known) {
			t.Errorf("%s: GET /members: %d, %v, %s, want %d with %s", name, code, err, body, c.code, known)
		}
		for _, path := range []string{policies, "/policy_groups"} {
			if code, body, err := r.askAs(t, config, "GET", path, c.token); err != nil || code != c.code || code == 401 && strings.Contains(body, "hunter2") {
				t.Errorf("%s: GET %s: %d, %v, %s, want %d", name, path, code, err, body, c.code)
			}
		}
		want := map[int]codes.Code{200: codes.OK, 401: codes.Unauthenticated}[c.code]
		if err := r.listPolicies(t, c.how, c.token); status.Code(err) != want {
			t.Errorf("%s: gRPC: %v, want %s", name, err, want)
		}
	}
	// A certificate that is shown has to be good, whatever token is next to it.
	// This client shows it unasked.
	config := tlsOf(t, as(strangers.Client(t, "stranger", time.Hour)))
	shown := config.Certificates[0]
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil }
	if code, body, err := r.askAs(t, config, "GET", policies, token); err == nil {
		t.Errorf("a stranger's certificate and a token: %d %s", code, body)
	}
	for secret, what := range map[string]string{token: "the token", jwt: "the issuer's token", "hunter2": "a bad token"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %s", what)
		}
	}
	_, metrics := r.call(t, "health", "GET", "/metrics", "")
	for _, want := range []string{`understudy_authentications_total{method="oidc"`, `outcome="expired"`, `outcome="missing"`, `outcome="unknown"`, `understudy_authentication_refresh_failures_total`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
}

// listPolicies makes a call of gRPC.
func (r *running) listPolicies(t *testing.T, how cli.Transport, token string) error {
	t.Helper()
	ctx := t.Context()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	_, err := adminpb.NewPolicyPreviewClient(r.dial(t, "admin", how)).
		ListPolicies(ctx, &adminpb.ListPoliciesRequest{Parent: "projects/p1/locations/l1"})
	return err
}

// TestCertificatesAlone: without tokens, TLS itself asks for a certificate.
func TestCertificatesAlone(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t, t.TempDir(), "ca")
	r := startServer(t, func(c *config) {
		c.adminTLS = serverFiles(ca.Server(t, "server", 1))
		c.adminTLS.ClientCA = ca.File
		c.owners = []string{"cert:localhost"}
	})
	ann := ca.Client(t, "ann", time.Hour)
	if code, body, err := r.askAs(t, tlsOf(t, cli.Transport{CACert: ca.File, ClientCert: ann.Cert, ClientKey: ann.Key}), "GET", policies, ""); err != nil || code != 200 {
		t.Errorf("a certificate: %d %v %s", code, err, body)
	}
	if code, body, err := r.askAs(t, tlsOf(t, cli.Transport{CACert: ca.File}), "GET", policies, ""); err == nil {
		t.Errorf("no certificate: %d %s", code, body)
	}
}

// TestTokensChangeWhileItRuns: a token is replaced, and an issuer comes late.
func TestTokensChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	before, file := newToken(t, "ci")
	issuer := oidctest.Absent(t)
	r := startServer(t, func(c *config) {
		c.adminTokenFiles, c.oidcIssuers, c.tlsReload = []string{file}, []string{issuer.URL + ",audience=understudy"}, reloadSoon
	})
	if code, body, _ := r.askAs(t, nil, "GET", "/whoami", issuer.Token(nil)); code != 503 || !strings.Contains(body, "ISSUER_UNAVAILABLE") {
		t.Errorf("before the issuer is there: %d %s", code, body)
	}
	if code, body, _ := r.askAs(t, nil, "GET", "/whoami", before); code != 200 {
		t.Errorf("a token before the issuer is there: %d %s", code, body)
	}
	issuer.Start()
	after, next := newToken(t, "ci")
	certtest.Replace(t, certtest.Renamed{From: next, To: file})
	for token, want := range map[string]int{after: 200, before: 401, issuer.Token(nil): 200} {
		r.awaitWhoami(t, token, want)
	}
}

// awaitWhoami waits until /whoami answers a token with a status.
func (r *running) awaitWhoami(t *testing.T, token string, want int) {
	t.Helper()
	code := 0
	testkit.Await(t, fmt.Sprintf("/whoami answers a token with %d", want), func() bool {
		code, _, _ = r.askAs(t, nil, "GET", "/whoami", token)
		return code == want
	}, func() any { return code })
}

// TestNothingIsConfigured: on this machine everybody may ask, and is nobody in particular.
func TestNothingIsConfigured(t *testing.T) {
	t.Parallel()
	r := startServer(t, nil)
	if code, body, _ := r.askAs(t, nil, "GET", "/whoami", ""); code != 200 || !strings.Contains(body, `"method":"none"`) {
		t.Errorf("got %d %s", code, body)
	}
	if code, body, _ := r.askAs(t, nil, "GET", "/members", ""); code != 200 || !strings.Contains(body, `{"tokens":null,"owners":[]}`) {
		t.Errorf("got %d %s", code, body)
	}
	if code, body, _ := r.askAs(t, nil, "GET", policies, "whatever"); code != 200 {
		t.Errorf("got %d %s", code, body)
	}
}

// TestHeadersAreBounded: before it is known who asks, little is read.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	token, file := newToken(t, "ci")
	server := startServer(t, func(c *config) { c.adminTokenFiles = []string{file} })
	for size, want := range map[int]int{16 << 10: http.StatusUnauthorized, 128 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		if code, body, err := server.askAs(t, nil, "GET", "/whoami", token+strings.Repeat("x", size)); err != nil || code != want {
			t.Errorf("a token of %d bytes: got %d %s, %v, want %d", size, code, body, err, want)
		}
	}
}
