package httpauthz_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/httpauthz"
	"understudy/authz/extauthz/servertest"
)

func TestHTTPConfig(t *testing.T) {
	for prefix, valid := range map[string]bool{
		"/envoy": true, "/": true, "/a/b-c_d.e~f": true,
		"": false, "envoy": false, "/envoy/": false, "//": false, "/a//b": false, "/a@b": false, "/a?b": false, "/a%2f": false,
		"/forward-auth": false, "/nginx-auth": false,
	} {
		c := httpauthz.Config{PathPrefix: prefix}
		if err := c.Validate(); (err == nil) != valid {
			t.Errorf("%q: %v", prefix, err)
		}
		if _, err := httpauthz.New(servertest.New(t, servertest.Constant(authz.Decision{})), c); (err == nil) != valid {
			t.Errorf("the handler of %q: %v", prefix, err)
		}
	}
	if err := (httpauthz.Config{PathPrefix: "/", MaxBody: -1}).Validate(); err == nil {
		t.Error("a negative length is accepted")
	}
}

func TestHTTPBodyIsBounded(t *testing.T) {
	front := listenHTTP(t, servertest.New(t, servertest.Constant(authz.Decision{Effect: authz.Allow, Plain: true})),
		httpauthz.Config{PathPrefix: "/envoy", MaxBody: 10})
	for body, want := range map[string]int{"0123456789": 200, "0123456789a": 413} {
		// Once with its length, once in chunks.
		for _, reader := range []io.Reader{strings.NewReader(body), io.MultiReader(strings.NewReader(body))} {
			response, err := http.Post(front.URL+"/envoy/x", "text/plain", reader)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("%d bytes are answered with %d, want %d", len(body), response.StatusCode, want)
			}
		}
	}
	cut := "POST /envoy/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"
	if response := sendRaw(t, front, []byte(cut)); response.code != 400 {
		t.Errorf("a body that does not parse is answered with %d", response.code)
	}
}

func TestHTTPFailures(t *testing.T) {
	d := servertest.Constant(authz.Decision{Failure: authz.FailureUndefined, Reason: "Why."})
	for name, tt := range map[string]struct {
		options []extauthz.Option
		status  int
	}{
		"a denial":                 {nil, 403},
		"an error, if it is asked": {[]extauthz.Option{extauthz.OnFailureError()}, 503},
	} {
		front := listenHTTP(t, servertest.New(t, d, tt.options...), httpauthz.Config{PathPrefix: "/envoy"})
		response := sendRaw(t, front, []byte("GET /envoy/ HTTP/1.1\r\nHost: a\r\n\r\n"))
		if response.code != tt.status {
			t.Errorf("%s: %d, want %d", name, response.code, tt.status)
		}
		if text := string(rendered(t, response)); strings.Contains(text, "Why.") {
			t.Errorf("%s: the client learns the reason: %s", name, text)
		}
	}
}

// TestHTTPProxyIsNotTheSource asks over mutual TLS: the certificate is the proxy's,
// and none of its clients may be taken for it.
func TestHTTPProxyIsNotTheSource(t *testing.T) {
	const name = "spiffe://mesh/ns/shop/sa/gateway"
	policy := servertest.ByPolicy(t, `package envoy.authz

default allow := false

allow if {
	not input.source_principal
	not input.attributes.source
	input.attributes.destination.principal == "`+name+`"
}
`)
	handler, err := httpauthz.New(servertest.New(t, policy), httpauthz.Config{PathPrefix: "/envoy"})
	if err != nil {
		t.Fatal(err)
	}
	certificate := certificateOf(t, name)
	front := httptest.NewUnstartedServer(handler)
	front.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	front.TLS.ClientCAs.AddCert(certificate.Leaf)
	front.EnableHTTP2 = true
	front.StartTLS()
	t.Cleanup(front.Close)
	client := front.Client()
	client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{certificate}
	response, err := client.Get(front.URL + "/envoy/x")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 200 || response.ProtoMajor != 2 {
		t.Errorf("the answer is %s over %s", response.Status, response.Proto)
	}
}

// certificateOf is a certificate that signs itself, with a URI for a name.
func certificateOf(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	uri, err := url.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), URIs: []*url.URL{uri},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// FuzzHTTP feeds requests as they may come from the network, to a policy that
// allows everything. Each is answered by an allow of what was asked, known by the
// proxy and by nobody else, or by a denial.
func FuzzHTTP(f *testing.F) {
	for _, archive := range archives(f, "testdata/*.txtar") {
		f.Add(wire(archive.Files[0].Data))
	}
	var asked *authz.Request
	s := servertest.New(f, servertest.Decide(func(_ context.Context, r *authz.Request) authz.Decision {
		asked = r
		return authz.Decision{Effect: authz.Allow, Plain: true}
	}))
	handler, err := httpauthz.New(s, httpauthz.Config{PathPrefix: "/envoy", MaxBody: 1 << 16})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw)))
		if err != nil {
			return
		}
		asked = nil
		target, header := request.RequestURI, request.Header.Clone()
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		switch code := recorder.Code; {
		case code == 200 && asked != nil:
			checkAsked(t, asked, target, header)
		case code < 400 || code >= 500:
			t.Errorf("%q is answered with %d", target, code)
		}
		if asked != nil {
			_, _ = asked.Input(nil)
		}
	})
}

// checkAsked holds what was decided against what the form says that decides it.
func checkAsked(t *testing.T, asked *authz.Request, target string, header http.Header) {
	t.Helper()
	path, _, _ := strings.Cut(strings.ToValidUTF8(target, "\uFFFD"), "?")
	from := func(name string) string {
		value, _, _ := strings.Cut(strings.ToValidUTF8(header.Get(name), "\uFFFD"), "?")
		return value
	}
	switch {
	case strings.HasPrefix(target, "/envoy"):
		if rest := strings.TrimPrefix(path, "/envoy"); rest != asked.Path && rest != "@"+string(asked.Policy)+asked.Path {
			t.Errorf("%q was decided as %q by %q", target, asked.Path, asked.Policy)
		}
	case strings.HasPrefix(target, "/forward-auth"):
		if asked.Path != from("X-Forwarded-Uri") || asked.Method != header.Get("X-Forwarded-Method") {
			t.Errorf("%s %q was decided", asked.Method, asked.Path)
		}
		checkUnambiguous(t, asked.Path)
	case strings.HasPrefix(target, "/nginx-auth"):
		if asked.Path != from("X-Original-Uri") && !strings.HasSuffix(from("X-Original-Url"), asked.Path) || asked.Method != header.Get("X-Original-Method") {
			t.Errorf("%s %q was decided", asked.Method, asked.Path)
		}
		checkUnambiguous(t, asked.Path)
	default:
		t.Errorf("%q was decided", target)
	}
}

// archives are the files of a folder of testdata.
func archives(t testing.TB, pattern string) []*txtar.Archive {
	t.Helper()
	files := matching(t, pattern)
	out := make([]*txtar.Archive, len(files))
	for i, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = archive
	}
	return out
}
