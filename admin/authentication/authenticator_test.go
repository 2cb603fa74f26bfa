package authentication_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/access"
	"understudy/admin/authentication"
	"understudy/admin/authentication/oidc"
	"understudy/admin/authentication/oidc/oidctest"
	"understudy/admin/authentication/tokens"
	"understudy/admin/rest"
)

// known is an authenticator of all ways, with a token of each.
type known struct {
	*authentication.Authenticator
	issuer *oidctest.Issuer
	token  string // of the name ci
}

func newKnown(t testing.TB, change func(*authentication.Config)) *known {
	t.Helper()
	k := &known{issuer: oidctest.New(t)}
	token, line, err := tokens.New("ci", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := tokens.Open([]string{path}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := oidc.New(oidc.Config{URL: k.issuer.URL, Audiences: []string{"understudy"}, GroupsClaim: "groups"})
	if err != nil {
		t.Fatal(err)
	}
	c := authentication.Config{Certificates: true, Tokens: files, Issuers: oidc.Issuers{issuer}}
	if change != nil {
		change(&c)
	}
	if k.Authenticator, err = authentication.New(c); err != nil {
		t.Fatal(err)
	}
	k.token = token
	return k
}

// certificate is one that TLS has verified.
func certificate(name string, dns []string, uris ...string) *x509.Certificate {
	c := &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: dns, NotAfter: time.Now().Add(time.Hour)}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			panic(err)
		}
		c.URIs = append(c.URIs, u)
	}
	return c
}

// request is one with headers Authorization, by who has a certificate, if that is not nil.
func request(c *x509.Certificate, authorization ...string) *http.Request {
	r := httptest.NewRequest("GET", "/v1/projects/p/locations/l/policies", nil)
	r.TLS = &tls.ConnectionState{}
	if c != nil {
		r.TLS.PeerCertificates, r.TLS.VerifiedChains = []*x509.Certificate{c}, [][]*x509.Certificate{{c}}
	}
	for _, a := range authorization {
		r.Header.Add("Authorization", a)
	}
	return r
}

func TestPrincipals(t *testing.T) {
	t.Parallel()
	k := newKnown(t, nil)
	jwt := k.issuer.Token(map[string]any{"groups": []string{"ops"}})
	spiffe := certificate("x", []string{"a.example.com"}, "spiffe://example.org/ns/ci/sa/deploy")
	for name, c := range map[string]struct {
		r    *http.Request
		want access.Principal
	}{
		"a token":                    {request(nil, "Bearer "+k.token), access.Principal{Member: "token:ci", Method: access.MethodToken}},
		"a scheme in lower case":     {request(nil, "bearer  "+k.token+" "), access.Principal{Member: "token:ci", Method: access.MethodToken}},
		"a token of the issuer":      {request(nil, "Bearer "+jwt), access.Principal{Member: "oidc:" + k.issuer.URL + "#ann", Groups: []string{k.issuer.URL + "#ops"}, Method: access.MethodOIDC}},
		"a SPIFFE ID":                {request(spiffe), access.Principal{Member: "spiffe://example.org/ns/ci/sa/deploy", Method: access.MethodCertificate}},
		"a DNS name":                 {request(certificate("x", []string{"A.example.com", "b"})), access.Principal{Member: "cert:a.example.com", Method: access.MethodCertificate}},
		"a common name":              {request(certificate("Ann Smith", nil)), access.Principal{Member: "cert:Ann Smith", Method: access.MethodCertificate}},
		"a header and a certificate": {request(spiffe, "Bearer "+k.token), access.Principal{Member: "token:ci", Method: access.MethodToken}},
		"a URI that is no SPIFFE ID": {request(certificate("x", nil, "https://a.example.com")), access.Principal{Member: "cert:x", Method: access.MethodCertificate}},
	} {
		got, err := k.Authenticate(c.r)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

// TestRefusals: who is not known gets the reason and what the server takes, and nothing of the
// credentials; a good certificate does not make up for a bad header.
func TestRefusals(t *testing.T) {
	t.Parallel()
	k := newKnown(t, nil)
	good := certificate("ann", nil)
	_, stranger, err := tokens.New("ci", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	stranger = strings.Fields(stranger)[1]
	unverified := request(nil)
	unverified.TLS.PeerCertificates = []*x509.Certificate{good}
	old := certificate("ann", nil)
	old.NotAfter = time.Now().Add(-time.Second)
	plain := request(nil)
	plain.TLS = nil
	for name, c := range map[string]struct {
		r    *http.Request
		want string
	}{
		"nothing":                            {request(nil), "no credentials"},
		"nothing without TLS":                {plain, "no credentials"},
		"a certificate that TLS refused":     {unverified, "no credentials"},
		"a bad token and a good certificate": {request(good, "Bearer "+stranger), "not known here"},
		"a bad JWT and a good certificate":   {request(good, "Bearer a.b.c"), "no signed token"},
		"another scheme":                     {request(good, "Basic YTpi"), "not 'Bearer'"},
		"an empty header":                    {request(good, ""), "not 'Bearer'"},
		"no token":                           {request(good, "Bearer "), "none at all"},
		"two tokens":                         {request(good, "Bearer a b"), "characters"},
		"two headers":                        {request(nil, "Bearer "+k.token, "Bearer "+k.token), "more than once"},
		"too large a token":                  {request(nil, "Bearer "+strings.Repeat("a", 16<<10+1)), "larger than 16384"},
		"the digest as the token":            {request(nil, "Bearer "+stranger), "not known here"},
		"expired":                            {request(nil, "Bearer "+k.issuer.Token(map[string]any{"exp": 1})), "has expired"},
		"no end":                             {request(nil, "Bearer "+k.issuer.Token(map[string]any{"exp": nil})), "no end (exp)"},
		"another audience":                   {request(nil, "Bearer "+k.issuer.Token(map[string]any{"aud": "x"})), "it has to be for understudy"},
		"a name that no binding has":         {request(certificate("a\nb", nil)), "member of a binding"},
		"a certificate that has expired":     {request(old), "has expired since"},
		"no name at all":                     {request(certificate("", nil)), "neither a SPIFFE ID nor"},
		"two SPIFFE IDs":                     {request(certificate("x", nil, "spiffe://a/b", "spiffe://a/c")), "another URI"},
		"a SPIFFE ID with a user":            {request(certificate("x", nil, "spiffe://evil@example.org/ops")), "by its standard"},
		"a SPIFFE ID with a port":            {request(certificate("x", nil, "spiffe://example.org:80/ops")), "by its standard"},
		"a SPIFFE ID with a query":           {request(certificate("x", nil, "spiffe://example.org/ops?x=1")), "by its standard"},
		"a SPIFFE ID with a fragment":        {request(certificate("x", nil, "spiffe://example.org/ops#x")), "by its standard"},
		"a SPIFFE ID with a dot segment":     {request(certificate("x", nil, "spiffe://example.org/a/../ops")), "by its standard"},
		"a SPIFFE ID with an escape":         {request(certificate("x", nil, "spiffe://example.org/%6fps")), "by its standard"},
		"a SPIFFE ID of another case":        {request(certificate("x", nil, "spiffe://EXAMPLE.org/ops")), "by its standard"},
		"a SPIFFE ID without a path":         {request(certificate("x", nil, "spiffe://a")), "member of a binding"},
	} {
		p, err := k.Authenticate(c.r)
		text := status.Convert(err).Message()
		if status.Code(err) != codes.Unauthenticated || p.Known() || !strings.Contains(text, c.want) {
			t.Errorf("%s: got %+v, %v, want UNAUTHENTICATED with %q", name, p, err, c.want)
		}
		for _, way := range []string{"a token of a token file or of the issuer " + k.issuer.URL, "a client certificate"} {
			if !strings.Contains(text, way) {
				t.Errorf("%s: the text does not name %s: %s", name, way, text)
			}
		}
		for _, header := range c.r.Header.Values("Authorization") {
			if _, token, _ := strings.Cut(header, " "); len(token) > 5 && strings.Contains(text, strings.TrimSpace(token)) {
				t.Errorf("%s: the text quotes the token: %s", name, text)
			}
		}
	}
}

// TestWaysThatAreOff: what is not configured is not taken.
func TestWaysThatAreOff(t *testing.T) {
	t.Parallel()
	all := newKnown(t, nil)
	jwt := all.issuer.Token(nil)
	for name, c := range map[string]struct {
		change func(*authentication.Config)
		r      *http.Request
	}{
		"no certificates":    {func(c *authentication.Config) { c.Certificates = false }, request(certificate("ann", nil))},
		"no tokens":          {func(c *authentication.Config) { c.Tokens = nil }, request(nil, "Bearer "+all.token)},
		"no issuer":          {func(c *authentication.Config) { c.Issuers = nil }, request(nil, "Bearer "+jwt)},
		"certificates alone": {func(c *authentication.Config) { c.Issuers, c.Tokens = nil, nil }, request(certificate("ann", nil), "Bearer "+all.token)},
	} {
		if p, err := newKnown(t, c.change).Authenticate(c.r); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
	if _, err := authentication.New(authentication.Config{}); err == nil {
		t.Error("an authenticator without a way to authenticate is made")
	}
}

func TestTheIssuerIsAway(t *testing.T) {
	t.Parallel()
	k := newKnown(t, nil)
	k.issuer.SetDown(true)
	if _, err := k.Authenticate(request(certificate("ann", nil), "Bearer "+k.issuer.Token(nil))); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), k.issuer.URL) {
		t.Errorf("a token of the issuer: got %v, want UNAVAILABLE", err)
	}
	if p, err := k.Authenticate(request(nil, "Bearer "+k.token)); err != nil || p.Member != "token:ci" {
		t.Errorf("another token: got %+v, %v", p, err)
	}
}

func TestWhoAmI(t *testing.T) {
	t.Parallel()
	k := newKnown(t, nil)
	get := func(a *authentication.Authenticator, r *http.Request) (int, http.Header, string) {
		w := httptest.NewRecorder()
		authentication.ServeWhoAmI(a, rest.Guard{}).ServeHTTP(w, r)
		return w.Code, w.Header(), strings.TrimSpace(w.Body.String())
	}
	if code, _, body := get(nil, request(nil)); code != 200 || body != `{"principal":"","groups":[],"method":"none"}` {
		t.Errorf("without authentication: %d %s", code, body)
	}
	if code, _, body := get(k.Authenticator, request(nil, "Bearer "+k.token)); code != 200 || body != `{"principal":"token:ci","groups":[],"method":"token"}` {
		t.Errorf("a token: %d %s", code, body)
	}
	code, _, body := get(k.Authenticator, request(nil, "Bearer "+k.issuer.Token(map[string]any{"groups": []string{"ops"}, "exp": 4102444800})))
	var got authentication.WhoAmI
	if err := json.Unmarshal([]byte(body), &got); code != 200 || err != nil || got.Expires == nil || got.Expires.Format(time.RFC3339) != "2100-01-01T00:00:00Z" || !reflect.DeepEqual(got.Groups, []string{"group:" + k.issuer.URL + "#ops"}) {
		t.Errorf("a token of the issuer: %d %s", code, body)
	}
	code, header, body := get(k.Authenticator, request(nil))
	if code != 401 || header.Get("WWW-Authenticate") != access.Challenge || !strings.Contains(body, `"status":"UNAUTHENTICATED"`) {
		t.Errorf("nobody: %d %v %s", code, header, body)
	}
	post := request(nil, "Bearer "+k.token)
	post.Method = "POST"
	if code, header, _ := get(k.Authenticator, post); code != 405 || header.Get("Allow") == "" {
		t.Errorf("POST: %d %v", code, header)
	}
	foreign := request(nil, "Bearer "+k.token)
	foreign.Host = "evil.example.com"
	w := httptest.NewRecorder()
	authentication.ServeWhoAmI(k.Authenticator, rest.Guard{Hosts: []string{}}).ServeHTTP(w, foreign)
	if w.Code != 403 {
		t.Errorf("by another name: %d", w.Code)
	}
}

// FuzzAuthorization: nothing but the one token is anybody.
func FuzzAuthorization(f *testing.F) {
	k := newKnown(f, nil)
	for _, seed := range []string{"Bearer x", "Basic YTpi", "Bearer a.b.c", "bearer  ", "Bearer\t" + k.token, "Bearer " + k.token, "Bearer " + k.issuer.Token(nil)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := request(certificate("ann", nil))
		r.Header["Authorization"] = []string{header}
		p, err := k.Authenticate(r)
		if err == nil && !strings.Contains(header, k.token) && !strings.Contains(header, ".") {
			t.Errorf("%q is %+v", header, p)
		}
		if err == nil && p.Method == access.MethodCertificate {
			t.Errorf("%q is passed over", header)
		}
		if err != nil && status.Code(err) != codes.Unauthenticated {
			t.Errorf("%q: %v", header, err)
		}
	})
}
