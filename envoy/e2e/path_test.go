//go:build realenvoy

package e2e_test

import (
	"strings"
	"testing"
)

// spellings are ways to write a path that some server, somewhere, reads as
// /billing/stock.
var spellings = []string{
	"/public/../billing/stock",
	"/public/./../billing/stock",
	"/public/x/../../billing/stock",
	"/public/%2e%2e/billing/stock",
	"/public/%2E%2E/billing/stock",
	"/public/.%2e/billing/stock",
	"/public/%2e./billing/stock",
	"/public%2f..%2fbilling/stock",
	"/public%2F..%2Fbilling/stock",
	"/public/..%2fbilling/stock",
	"/public%2f../billing/stock",
	"/public//../billing/stock",
	"/public/..//billing/stock",
	"//public/../billing/stock",
	"/public/..;/billing/stock",
	"/public/..;x=y/billing/stock",
	`/public\..\billing\stock`,
	"/public/..%5cbilling%5cstock",
	"/public/..%5Cbilling/stock",
	"/public/%252e%252e/billing/stock",
	"/public/..%252fbilling/stock",
	"/public/%c0%ae%c0%ae/billing/stock",
	"//billing/stock",
	"/%2fbilling/stock",
	"/%2Fbilling/stock",
	"/./billing/stock",
	"/%2e/billing/stock",
	"/%69nternal/stock",
	"/billing%2fstock",
	"/billing//stock",
	"/public/../../../billing/stock",
	"/public/..?/billing/stock",
	"/public#/../billing/stock",
	"http://shop.example/public/../billing/stock",
	"http://shop.example//billing/stock",
}

// segments reads a path as an upstream might: decoding once, taking backslashes for
// slashes and path parameters away, then resolving dots and empty segments.
func segments(path string) (out []string) {
	path, _, _ = strings.Cut(path, "?")
	path, _, _ = strings.Cut(path, "#")
	for range 2 {
		for _, pair := range [][2]string{{"%2e", "."}, {"%2f", "/"}, {"%5c", "/"}, {"%69", "i"}, {`\`, "/"}} {
			path = strings.NewReplacer(pair[0], pair[1], strings.ToUpper(pair[0]), pair[1]).Replace(path)
		}
	}
	for s := range strings.SplitSeq(path, "/") {
		s, _, _ = strings.Cut(s, ";")
		switch {
		case s == "..":
			out = out[:max(0, len(out)-1)]
		case s != "" && s != ".":
			out = append(out, s)
		}
	}
	return out
}

// TestPaths: no spelling leads to a path that was not decided. The sidecar's own policy
// allows /public alone; that of /billing/ allows nobody.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := newSidecar(t)
	s.apply(t, "web", "testdata/web.rego")
	s.apply(t, "billing", "testdata/nobody.rego")
	e := newEnvoy(t, shipped(t, "envoy.yaml").local(t, newUpstream(t)).move(t, "understudy", 9191, s.listening.Authz))
	reached := 0
	for _, spelling := range spellings {
		a := ask(t, e.at["ingress"], "GET", spelling, nil)
		up := a.upstream(t)
		if up == nil {
			continue
		}
		reached++
		if s := segments(up.Target); len(s) == 0 || s[0] != "public" {
			t.Errorf("%s reaches the upstream as %s", spelling, up.Target)
		}
	}
	t.Logf("%d of %d spellings reach the upstream, as paths below /public", reached, len(spellings))
	for _, plain := range []string{"/public/x", "/public/a/../b", "/public/x%20y", "/public/x;v=1?q=%2f"} {
		if a := ask(t, e.at["ingress"], "GET", plain, nil); a.status != 200 {
			t.Errorf("%s: got %d", plain, a.status)
		}
	}
}

// paths: as shipped a policy sees the path that the upstream gets; without normalization
// it sees the path as it was sent.
func paths(t *testing.T, e *envoy) {
	for sent, normalized := range map[string]string{
		"/input/x/../y//z/%41?q=%2f": "/input/y/z/A?q=%2f",
		"/input/x%2fy":               "", // a redirect to /input/x/y; nobody is asked
	} {
		shipped, raw := ask(t, e.at["ingress"], "GET", sent, nil), ask(t, e.at["raw paths"], "GET", sent, nil)
		if got := at(seen(t, raw), "attributes", "request", "http", "path"); got != sent {
			t.Errorf("raw paths: the policy sees %v of %s", got, sent)
		}
		if normalized == "" {
			if shipped.status != 307 || shipped.header.Get("Location") == "" || shipped.upstream(t) != nil {
				t.Errorf("%s: got %d %v", sent, shipped.status, shipped.header)
			}
			continue
		}
		if got := at(seen(t, shipped), "attributes", "request", "http", "path"); got != normalized {
			t.Errorf("as shipped: the policy sees %v of %s; want %s", got, sent, normalized)
		}
	}
}
