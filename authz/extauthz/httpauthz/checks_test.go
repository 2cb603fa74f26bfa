package httpauthz_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"understudy/authz/extauthz/httpauthz"
	"understudy/authz/extauthz/servertest"
)

// TestHTTPDecisionsAreCached: what is asked over HTTP is read as lazily as what Envoy
// sends over gRPC, and its decisions are cached like those.
func TestHTTPDecisionsAreCached(t *testing.T) {
	for name, raw := range map[string]string{
		"envoy":   "GET /envoy/a HTTP/1.1\r\nHost: a\r\n\r\n",
		"body":    "POST /envoy/a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"forward": "GET /forward-auth HTTP/1.1\r\nHost: u\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /a\r\nX-Forwarded-Host: a\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n",
		"nginx":   "GET /nginx-auth HTTP/1.1\r\nHost: u\r\nX-Original-Method: GET\r\nX-Original-URL: https://a/a\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := servertest.Measure(t, servertest.OnlyGET)
			front := listenHTTP(t, m.Server, httpauthz.Config{PathPrefix: "/envoy"})
			want := http.StatusOK
			if strings.HasPrefix(raw, "POST") {
				want = http.StatusForbidden
			}
			for range 50 {
				if got := sendRaw(t, front, []byte(raw)).code; got != want {
					t.Fatalf("status %d, want %d", got, want)
				}
			}
			if hits := m.Hits(t); hits != 49 {
				t.Errorf("%d of 50 equal requests were hits of the decision cache, want 49", hits)
			}
		})
	}
}

// TestBodiesOverHTTP: what is asked over HTTP is treated alike.
func TestBodiesOverHTTP(t *testing.T) {
	for name, tt := range map[string]struct {
		policy, body string
		status       int
	}{
		"not read": {servertest.OnlyPOST, `{"a":`, http.StatusOK},
		"read":     {servertest.Amounts, `{"a":`, http.StatusBadRequest},
		"many":     {servertest.Amounts, "[" + strings.Repeat("{},", 60_000) + "{}]", http.StatusBadRequest},
		"few":      {servertest.Amounts, `{"amount": 5}`, http.StatusOK},
	} {
		front := listenHTTP(t, servertest.New(t, servertest.ByPolicy(t, tt.policy)), httpauthz.Config{PathPrefix: "/envoy"})
		raw := fmt.Sprintf("POST /envoy/a HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(tt.body), tt.body)
		if got := sendRaw(t, front, []byte(raw)).code; got != tt.status {
			t.Errorf("%s: status %d, want %d", name, got, tt.status)
		}
	}
}
