//go:build realenvoy

package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryFileIsAccepted: Envoy takes each shipped file as it is, and warns of nothing.
func TestEveryFileIsAccepted(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, file := range files {
		if filepath.Base(file) == "sds.yaml" { // no bootstrap; TestEnvoysOwnCertificateIsReplaced uses it
			continue
		}
		tried++
		validate(t, shipped(t, filepath.Base(file)))
	}
	if tried < 2 {
		t.Errorf("only %d files were tried", tried)
	}
}

// TestSocket: the file with its lines for a unix socket, and without those that go then.
func TestSocket(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "e2e") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := newSidecar(t, "--authz-addr", "unix://"+folder+"/authz.sock")
	s.apply(t, "web", "testdata/web.rego")
	c := alternative(t, "envoy.yaml", "socket")
	validate(t, c)
	e := newEnvoy(t, c.local(t, newUpstream(t)).files(t, "/run/understudy", folder))
	decidesByPolicy(t, e.at["ingress"])
	if n := e.stat(t, "envoy_cluster_health_check_attempt", `envoy_cluster_name="understudy"`); n != 1 || healthy(t, e) != 1 {
		t.Errorf("there were %v health checks, and %v are healthy; want the socket alone", n, healthy(t, e))
	}
}

// decidesByPolicy asks once for what the policy allows, and once for what it denies.
func decidesByPolicy(t *testing.T, address string) {
	t.Helper()
	if a := ask(t, address, "GET", "/public/x", nil); a.status != 200 || a.upstream(t) == nil {
		t.Errorf("/public/x: got %d %s", a.status, a.body)
	}
	if a := ask(t, address, "GET", "/private/x", nil); a.status != 403 {
		t.Errorf("/private/x: got %d", a.status)
	}
}

// TestHTTPService: Envoy asks over HTTP, by the file for that.
func TestHTTPService(t *testing.T) {
	t.Parallel()
	s := newSidecar(t, "--http-authz-addr", fixedAddress(t))
	s.apply(t, "web", "testdata/web.rego")
	s.apply(t, "billing", "testdata/nobody.rego")
	_, health := split(t, s.listening.Health)
	c := shipped(t, "http_service.yaml").local(t, newUpstream(t)).move(t, "understudy", 9193, s.listening.HTTPAuthz)
	every(c.tree, func(n node) {
		if check, ok := n["health_check_config"].(node); ok {
			check["port_value"] = health
		}
	})
	e := newEnvoy(t, c)
	decidesByPolicy(t, e.at["ingress"])
	if a := ask(t, e.at["ingress"], "GET", "/billing/x", nil); a.status != 403 {
		t.Errorf("the policy of a route: got %d", a.status)
	}
	if a := ask(t, e.at["ingress"], "GET", "/login", nil); a.status != 302 || a.header.Get("Location") != "https://login.example/" {
		t.Errorf("a redirect: got %d %v", a.status, a.header)
	}
	// What HTTP has no way to express is a denial.
	if a := ask(t, e.at["ingress"], "GET", "/edited/x", nil); a.status != 403 {
		t.Errorf("an edit of the query: got %d", a.status)
	}
	if healthy(t, e) != 1 {
		t.Error("the sidecar is not healthy on its port for health")
	}
}

// TestShadowMode: what Envoy's own shadow_mode does with an answer, which
// observe.md warns of.
func TestShadowMode(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	s.apply(t, "web", "testdata/web.rego")
	c := shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz)
	c.variant(t, "shadow", func(l node) { extAuthz(t, l)["shadow_mode"] = true })
	e := newEnvoy(t, c)
	if a := ask(t, e.at["shadow"], "GET", "/private/x", nil); a.status != 200 {
		t.Errorf("a denial in shadow mode is answered %d", a.status)
	}
	a := ask(t, e.at["shadow"], "GET", "/edited/x?debug=1", nil, "x-user: mallory", "x-secret: s")
	up := a.upstream(t)
	if up == nil {
		t.Fatalf("an allow in shadow mode is answered %d", a.status)
	}
	if up.Header.Get("X-User") != "alice" || up.Header.Get("X-Secret") != "" || strings.Contains(up.Target, "debug") {
		t.Errorf("in shadow mode an allow edits no more: the upstream got %s %v; observe.md says that it does", up.Target, up.Header)
	}
}
