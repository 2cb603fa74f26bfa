package httpauthz_test

import (
	"net/http"
	"strings"
	"testing"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/httpauthz"
	"understudy/authz/extauthz/servertest"
)

// TestAnObserverEnforcesNothingOverHTTP: 200 for every form and whatever is asked, with
// a header that says what the answer would have been.
func TestAnObserverEnforcesNothingOverHTTP(t *testing.T) {
	forward := "GET /forward-auth HTTP/1.1\r\nHost: a\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Uri: /x\r\nX-Forwarded-Host: a\r\n" +
		"X-Forwarded-Proto: http\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
	ask := "GET /envoy/x HTTP/1.1\r\nHost: a\r\n\r\n"
	headers := authz.Decision{Effect: authz.Allow, Headers: []authz.Field{{Name: "x-user", Value: "alice"}}}
	for name, c := range map[string]struct {
		decider       extauthz.Decider
		raw           string
		want, failure string
	}{
		"an allow":            {servertest.Constant(headers), ask, "ALLOW", ""},
		"an allow, forwarded": {servertest.Constant(headers), forward, "ALLOW", ""},
		"a denial":            {servertest.Constant(servertest.Refused), ask, "DENY", ""},
		"a failure":           {servertest.Constant(authz.Decision{Failure: authz.FailureUndefined}), ask, "DENY", "UNDEFINED"},
		"what cannot be said": {servertest.Constant(servertest.Edited), ask, "DENY", "WRONG_TYPE"},
		"a panic":             {servertest.Broken{}, ask, "DENY", "PANIC"},
		"another path":        {servertest.Constant(headers), "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", "DENY", ""},
		"a header is missing": {servertest.Constant(headers), "GET /forward-auth HTTP/1.1\r\nHost: a\r\n\r\n", "DENY", ""},
		"a body that is too long": {
			servertest.Constant(headers), "POST /envoy/x HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n01234567890", "DENY", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := servertest.New(t, c.decider, extauthz.Observe(), extauthz.OnFailureError())
			front := listenHTTP(t, s, httpauthz.Config{PathPrefix: "/envoy", MaxBody: 10})
			response := sendRaw(t, front, []byte(c.raw))
			if response.code != http.StatusOK || response.header.Get("X-Understudy-Observed") != c.want ||
				response.header.Get("X-Understudy-Failure") != c.failure {
				t.Errorf("got %s", rendered(t, response))
			}
			for _, name := range []string{"X-User", "Www-Authenticate", "X-Envoy-Auth-Headers-To-Remove"} {
				if response.header.Get(name) != "" {
					t.Errorf("the answer sets %s", name)
				}
			}
			if text := string(rendered(t, response)); strings.Contains(text, "Who are you") {
				t.Errorf("the answer has a body: %s", text)
			}
		})
	}
}
