//go:build realenvoy

package e2e_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/cmd/testkit"
)

// issuer signs tokens that jwt_authn verifies.
type issuer struct{ key *rsa.PrivateKey }

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{key}
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// token returns a JSON Web Token, signed by RS256.
func (i *issuer) token(t *testing.T, claims node) string {
	t.Helper()
	signed := encoded(t, node{"alg": "RS256", "typ": "JWT", "kid": "k"}) + "." + encoded(t, claims)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// filter is Envoy's jwt_authn, with the key inline.
func (i *issuer) filter(t *testing.T) node {
	t.Helper()
	keys, err := json.Marshal(node{"keys": []any{node{
		"kty": "RSA", "kid": "k", "alg": "RS256", "n": base64.RawURLEncoding.EncodeToString(i.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(i.key.E)).Bytes()),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return node{"name": "envoy.filters.http.jwt_authn", "typed_config": node{
		"@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
		"providers": node{"shop": node{
			"issuer": "https://issuer.example", "local_jwks": node{"inline_string": string(keys)}, "payload_in_metadata": "claims",
		}},
		"rules": []any{node{"match": node{"prefix": "/"}, "requires": node{"requires_any": node{"requirements": []any{
			node{"provider_name": "shop"}, node{"allow_missing": node{}},
		}}}}},
	}}
}

// TestClaims: what jwt_authn has verified decides, and the metadata of the route is
// there as well.
func TestClaims(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	s.apply(t, "web", "testdata/claims.rego")
	i := newIssuer(t)
	c := shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz)
	c.variant(t, "claims", func(l node) {
		before(t, l, i.filter(t))
		extAuthz(t, l)["route_metadata_context_namespaces"] = []any{"shop"}
		for _, r := range at(manager(t, l), "route_config", "virtual_hosts", 0, "routes").([]any) {
			r.(node)["metadata"] = node{"filter_metadata": node{"shop": node{"owner": "catalog"}}}
		}
	})
	e := newEnvoy(t, c)
	claims := func(role string) node {
		return node{
			"iss": "https://issuer.example", "sub": "alice", "exp": time.Now().Add(time.Hour).Unix(),
			"realm": node{"roles": []any{role, "guest"}, "tenant": "acme"}, "a": 1, "b": 2, "c": 3, "d": 4,
		}
	}
	admin, guest := "authorization: Bearer "+i.token(t, claims("admin")), "authorization: Bearer "+i.token(t, claims("guest"))
	otherIssuer := newIssuer(t)
	const each = 20
	for name, c := range map[string]struct {
		token  []string
		path   string
		status int
	}{
		"admin":            {[]string{admin}, "/admin", 200},
		"guest":            {[]string{guest}, "/admin", 403},
		"nobody":           {nil, "/admin", 403},
		"a forged token":   {[]string{"authorization: Bearer " + otherIssuer.token(t, claims("admin"))}, "/admin", 401},
		"the route's data": {[]string{guest}, "/owned", 200},
	} {
		for range each {
			if a := ask(t, e.at["claims"], "GET", c.path, nil, c.token...); a.status != c.status {
				t.Fatalf("%s: got %d; want %d", name, a.status, c.status)
			}
		}
	}
}

// TestIdentity: the caller's certificate and the name that it asked for decide, for
// requests and for connections that are no HTTP.
func TestIdentity(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	s.apply(t, "web", "testdata/web.rego")
	ca := newAuthority(t)
	server := ca.issue(t, "shop.example", name("shop.example"), name("other.example"))
	c := shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz)
	c.variant(t, "mtls", func(l node) { object(t, l, "filter_chains", 0)["transport_socket"] = downstreamTLS(server, ca) })
	c.variant(t, "tcp", func(l node) { connections(t, l, server, ca) })
	e := newEnvoy(t, c)
	alice := ca.issue(t, "alice", spiffe("spiffe://cluster.local/ns/shop/sa/web"))
	mallory := ca.issue(t, "mallory", spiffe("spiffe://cluster.local/ns/shop/sa/batch"))

	t.Run("a request", func(t *testing.T) { identified(t, e, ca, alice) })
	t.Run("no certificate", func(t *testing.T) {
		if _, err := (issued{}).try(ca, e.at["mtls"], "shop.example"); err == nil {
			t.Error("a client without a certificate is served")
		}
		if n := s.metric(t, "understudy_checks_total"); n != 1 {
			t.Errorf("%v checks were asked; want that of the request alone", n)
		}
	})
	for name, c := range map[string]struct {
		who     issued
		sni     string
		reached bool
	}{
		"the right one":   {alice, "shop.example", true},
		"another name":    {alice, "other.example", false},
		"another service": {mallory, "shop.example", false},
	} {
		t.Run("a connection/"+name, func(t *testing.T) {
			conn := c.who.dial(t, ca, e.at["tcp"], c.sni)
			_, _ = conn.Write([]byte("GET /raw HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"))
			answer := readAll(t, conn)
			if reached := strings.Contains(answer, "X-Upstream"); reached != c.reached {
				t.Errorf("reached: %v; the answer is %q", reached, answer)
			}
		})
	}
}

// identified: the certificate and the name are in the input of a request.
func identified(t *testing.T, e *envoy, ca *authority, alice issued) {
	conn := alice.dial(t, ca, e.at["mtls"], "shop.example")
	input := seen(t, askOver(t, conn, "GET", "/input", nil, "connection: close"))
	certificate, err := url.QueryUnescape(at(input, "attributes", "source", "certificate").(string))
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(alice.cert)
	if err != nil {
		t.Fatal(err)
	}
	got := []any{
		input["source_principal"], at(input, "attributes", "source", "principal"),
		at(input, "attributes", "destination", "principal"), at(input, "attributes", "tlsSession", "sni"),
		at(input, "attributes", "request", "http", "scheme"), certificate,
	}
	want := []any{
		"spiffe://cluster.local/ns/shop/sa/web", "spiffe://cluster.local/ns/shop/sa/web", "shop.example", "shop.example", "https",
		string(file),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the policy's input (-want +got):\n%s", diff)
	}
}

// connections makes a listener ask about connections instead of requests: Envoy's
// network filter.
func connections(t *testing.T, listener node, server issued, ca *authority) {
	t.Helper()
	grpc := copied(t, extAuthz(t, listener))["grpc_service"]
	chain := object(t, listener, "filter_chains", 0)
	chain["transport_socket"] = downstreamTLS(server, ca)
	chain["filters"] = []any{
		node{"name": "envoy.filters.network.ext_authz", "typed_config": node{
			"@type":       "type.googleapis.com/envoy.extensions.filters.network.ext_authz.v3.ExtAuthz",
			"stat_prefix": "understudy", "transport_api_version": "V3", "grpc_service": grpc,
			"include_peer_certificate": true, "include_tls_session": true, "failure_mode_allow": false,
		}},
		node{"name": "envoy.filters.network.tcp_proxy", "typed_config": node{
			"@type":       "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
			"stat_prefix": "tcp", "cluster": "upstream",
		}},
	}
}

// readAll reads what a connection gives until it is closed, in whatever way.
func readAll(t *testing.T, conn net.Conn) string {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(testkit.Patience)); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	buffer := make([]byte, 4096)
	for {
		n, err := conn.Read(buffer)
		out.Write(buffer[:n])
		if err != nil {
			return out.String()
		}
	}
}
