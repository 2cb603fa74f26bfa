//go:build realenvoy

package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/cmd/testkit"
)

// TestResults shows each field of a policy's result as client and upstream see it,
// through the file as it is shipped.
func TestResults(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	s.apply(t, "web", "testdata/web.rego")
	c := shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz)
	c.variant(t, "tenants", logsTenant(t))
	e := newEnvoy(t, c)
	address := e.at["ingress"]

	t.Run("an allow", func(t *testing.T) {
		a := ask(t, address, "GET", "/edited/x?debug=1&page=1&q=a+b", nil, "x-user: mallory", "x-secret: s", "x-several: zero", "x-other: o")
		up := a.upstream(t)
		if a.status != 200 || up == nil {
			t.Fatalf("got %d %s", a.status, a.body)
		}
		// Of a parameter that is set twice Envoy keeps the last value.
		if up.Target != "/edited/x?page=2&q=a+b&tag=b" {
			t.Errorf("the upstream got %s", up.Target)
		}
		want := map[string][]string{"X-User": {"alice"}, "X-Several": {"one,two"}, "X-Secret": nil, "X-Other": {"o"}}
		for name, values := range want {
			if diff := cmp.Diff(values, up.Header.Values(name)); diff != "" {
				t.Errorf("the upstream's %s (-want +got):\n%s", name, diff)
			}
		}
		if diff := cmp.Diff([]string{"yes", "a", "b"}, append(a.header.Values("X-Decided"), a.header.Values("X-More")...)); diff != "" {
			t.Errorf("the client's headers (-want +got):\n%s", diff)
		}
	})
	t.Run("a redirect with two cookies", func(t *testing.T) {
		a := ask(t, address, "GET", "/login", nil)
		if a.status != 302 || a.header.Get("Location") != "https://login.example/" ||
			!cmp.Equal(a.header.Values("Set-Cookie"), []string{"a=1; Path=/", "b=2; Path=/"}) {
			t.Errorf("got %d %v", a.status, a.header)
		}
	})
	t.Run("a denial with a body", func(t *testing.T) {
		a := ask(t, address, "GET", "/unknown", nil)
		if a.status != 401 || a.body != "Who are you?" || a.header.Get("Www-Authenticate") != "Bearer" {
			t.Errorf("got %d %v %q", a.status, a.header, a.body)
		}
	})
	t.Run("HEAD", func(t *testing.T) { head(t, address) })
	t.Run("a denial of 64 KiB", func(t *testing.T) {
		if a := ask(t, address, "GET", "/large", nil); a.status != 403 || a.body != strings.Repeat("0123456789abcdef", 4096) {
			t.Errorf("got %d with %d bytes", a.status, len(a.body))
		}
	})
	t.Run("headers that frame a message", func(t *testing.T) { framing(t, address) })
	t.Run("the access log", func(t *testing.T) { accessLog(t, e) })
	t.Run("metadata of the policy", func(t *testing.T) { tenant(t, e) })
	t.Run("at the edge", func(t *testing.T) { edge(t, e) })
	if warnings := e.log.with("warning "); len(warnings) > 0 {
		t.Errorf("Envoy warns of the shipped file: %v", warnings)
	}
}

// accessLog: a line names the decision, and says why a policy could not decide.
func accessLog(t *testing.T, e *envoy) {
	for path, want := range map[string]map[string]any{
		"/public/logged":   {"status": 200.0, "details": "via_upstream", "failure": nil, "reason": nil},
		"/private/logged":  {"status": 403.0, "details": "ext_authz_denied", "failure": nil, "reason": nil},
		"/broken/logged":   {"status": 403.0, "details": "ext_authz_denied", "failure": "WRONG_TYPE"},
		"/healthz":         {"status": 200.0, "details": "via_upstream", "decision_id": nil},
		"/public/secret?q": {"path": "/public/secret"},
	} {
		from := e.out.count()
		a := ask(t, e.at["ingress"], "GET", path, nil)
		bare, _, _ := strings.Cut(path, "?")
		line := e.line(t, from, `"path":"`+bare+`"`)
		for key, value := range want {
			if got, there := line[key]; got != value || !there {
				t.Errorf("%s: %s is %v; want %v", path, key, got, value)
			}
		}
		if id := a.header.Get("X-Request-Id"); id == "" || line["request_id"] != id {
			t.Errorf("%s: the client gets the request ID %q, the access log has %v", path, id, line["request_id"])
		}
		took, err := strconv.Atoi(fmt.Sprint(line["authz_us"]))
		if asked := path != "/healthz"; asked != (err == nil && took > 0) {
			t.Errorf("%s: authz_us is %v", path, line["authz_us"])
		}
		if id, _ := line["decision_id"].(string); path != "/healthz" && len(id) != 36 {
			t.Errorf("%s: the decision ID is %q", path, id)
		}
		if reason, _ := line["reason"].(string); path == "/broken/logged" && reason == "" {
			t.Error("a failure has no reason")
		}
	}
}

// head: an answer without its content says how long that would be.
func head(t *testing.T, address string) {
	if a := ask(t, address, "HEAD", "/unknown", nil); a.status != 401 || a.body != "" || a.header.Get("Content-Length") != "12" {
		t.Errorf("denied: got %d %v %q", a.status, a.header, a.body)
	}
	if a := ask(t, address, "HEAD", "/public/x", nil); a.status != 200 || a.header.Get("X-Upstream") != "reached" {
		t.Errorf("allowed: got %d %v", a.status, a.header)
	}
}

// logsTenant is an access log that also has what web.rego says in its metadata.
func logsTenant(t *testing.T) func(listener node) {
	return func(l node) {
		line := object(t, manager(t, l), "access_log", 0, "typed_config", "log_format", "json_format")
		line["tenant"] = "%DYNAMIC_METADATA(envoy.filters.http.ext_authz:tenant)%"
	}
}

// tenant: what a policy has in its metadata is there for the access log, next to ours.
func tenant(t *testing.T, e *envoy) {
	from := e.out.count()
	ask(t, e.at["tenants"], "GET", "/edited/tenant", nil)
	line := e.line(t, from, `"path":"/edited/tenant"`)
	if id, _ := line["decision_id"].(string); line["tenant"] != "acme" || len(id) != 36 {
		t.Errorf("the access log has %v", line)
	}
}

// framing: a policy that says where a message ends is refused. Envoy would send it on:
// the upstream would wait for a body, and take the next request for it.
func framing(t *testing.T, address string) {
	for _, part := range []string{"framed", "framed-answer"} {
		for _, header := range []string{"content-length", "Transfer-Encoding", "connection", "upgrade", "te", "keep-alive"} {
			conn, err := net.DialTimeout("tcp", address, testkit.Patience)
			if err != nil {
				t.Fatal(err)
			}
			if a := askOver(t, conn, "GET", "/"+part+"/"+header, nil); a.status != 403 {
				t.Errorf("%s sets %s: got %d", part, header, a.status)
			}
			if a := askOver(t, conn, "GET", "/public/x", nil); a.status != 200 || a.upstream(t).Target != "/public/x" {
				t.Errorf("after %s has set %s: got %d", part, header, a.status)
			}
			_ = conn.Close()
		}
	}
}

// edge: what a client says of itself is not believed.
func edge(t *testing.T, e *envoy) {
	http := func(fields ...string) node {
		return object(t, seen(t, ask(t, e.at["ingress"], "GET", "/input", nil, fields...)), "attributes", "request", "http")
	}
	headers := object(t, http("x-forwarded-for: 10.0.0.1", "x-envoy-internal: true", "x-envoy-original-path: /public"), "headers")
	if hops := strings.Split(fmt.Sprint(headers["x-forwarded-for"]), ","); len(hops) != 2 || hops[1] == "10.0.0.1" {
		t.Errorf("x-forwarded-for is %v; want what Envoy has seen at its end", hops)
	}
	if headers["x-envoy-original-path"] != nil {
		t.Errorf("a client has set %v", headers["x-envoy-original-path"])
	}
	for _, path := range []string{"/public/x", "/healthz"} {
		if a := ask(t, e.at["ingress"], "GET", path, nil, "x_user: mallory"); a.status != 400 || a.upstream(t) != nil {
			t.Errorf("%s: a header that some take for x-user is answered %d", path, a.status)
		}
	}
}

// TestRoutes: a route chooses its policy, one is not asked about, and one takes large
// bodies without holding them.
func TestRoutes(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	s.apply(t, "web", "testdata/web.rego")
	s.apply(t, "billing", "testdata/other.rego")
	s.apply(t, "uploads", "testdata/other.rego")
	e := newEnvoy(t, shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz))
	large := []byte(strings.Repeat("x", 1<<20))
	for _, c := range []struct {
		method, path string
		body         []byte
		status       int
		policy       string
	}{
		{"GET", "/public/x", nil, 200, ""},
		{"GET", "/private/x", nil, 403, ""},
		{"GET", "/billing/x", nil, 200, "the other one"},
		{"POST", "/uploads/x", large, 200, "the other one"},
		{"POST", "/public/x", large, 200, ""},
		{"GET", "/healthz", nil, 200, ""},
		{"GET", "/healthz/more", nil, 403, ""},
	} {
		a := ask(t, e.at["ingress"], c.method, c.path, c.body)
		up := a.upstream(t)
		if a.status != c.status || (up != nil) != (c.status == http.StatusOK) {
			t.Errorf("%s: %d, reached %v", c.path, a.status, up != nil)
			continue
		}
		if up != nil && (up.Header.Get("X-Policy") != c.policy || len(up.Body) != len(c.body)) {
			t.Errorf("%s: the upstream got %q and %d bytes", c.path, up.Header.Get("X-Policy"), len(up.Body))
		}
	}
	if n := s.metric(t, "understudy_checks_total", `policy="uploads"`); n != 1 {
		t.Errorf("the policy of the uploads was asked %v times; want once", n)
	}
}
