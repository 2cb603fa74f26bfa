package httpauthz_test

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"understudy/authz"
	"understudy/authz/extauthz/httpauthz"
	"understudy/authz/extauthz/servertest"
)

// ambiguous are spellings of a denied path that begin like an allowed one, and others
// that servers read in more than one way.
var ambiguous = []string{
	"/public/../internal/stock", "/public/./../internal/stock", "/public/..", "/..", "/.",
	"/public/%2e%2e/internal/stock", "/public/%2E%2E/internal/stock", "/public/.%2e/internal/stock", "/public/%2e./internal/stock",
	"/public%2f..%2finternal/stock", "/public%2F%2e%2E%2Finternal/stock", "/public/..%2finternal/stock", "/public%2fx",
	"/public/..%5cinternal/stock", `/public/..\internal\stock`, `/public\..\internal`, "/public%5C..%5Cinternal",
	"/public/..;/internal/stock", "/public/..;x=1/internal/stock", "/public/%2e%2e;/internal/stock", "/public/.;/x",
	"//internal/stock", "/public//../internal/stock", "/public//x", "/public/..%00/internal", "/internal/stock#/public/x", "/public/x#",
}

// unambiguous look like those and are one path to everybody.
var unambiguous = []string{
	"/", "/public/", "/public/x", "/public/...", "/public/..x", "/public/x..", "/.well-known/x", "/public/%2541", "/public/%252e%252e/x",
	"/public/a;b=..", "/public/a;/b", "/public/x?next=/../internal", "/public/x?u=https://y//z%2f..%2f#top", "/public/%2ex", "/p%20q",
}

func TestAmbiguousPathsAreDenied(t *testing.T) {
	front := listenHTTP(t, servertest.New(t, servertest.Decide(func(context.Context, *authz.Request) authz.Decision {
		return authz.Decision{Effect: authz.Allow, Plain: true}
	})), httpauthz.Config{PathPrefix: "/envoy"})
	forms := map[string]struct {
		carrier, before string
		denied          int
	}{
		"/forward-auth": {"X-Forwarded-Uri", "", http.StatusBadRequest},
		"/nginx-auth":   {"X-Original-Url", "https://shop.example", http.StatusForbidden},
	}
	for form, f := range forms {
		status := func(target string) int {
			return sendRaw(t, front, []byte("GET "+form+" HTTP/1.1\r\nHost: understudy\r\nX-Forwarded-Method: GET\r\nX-Original-Method: GET\r\n"+
				"X-Forwarded-Host: shop.example\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 192.0.2.7\r\n"+
				f.carrier+": "+f.before+target+"\r\n\r\n")).code
		}
		for _, target := range ambiguous {
			if got := status(target); got != f.denied {
				t.Errorf("%s of %s: %d, want %d", form, target, got, f.denied)
			}
		}
		for _, target := range unambiguous {
			if got := status(target); got != http.StatusOK {
				t.Errorf("%s of %s: %d, want 200", form, target, got)
			}
		}
	}
}

// checkUnambiguous fails if a path that was decided is another one once it is decoded
// and cleaned, as servers do.
func checkUnambiguous(t *testing.T, decided string) {
	t.Helper()
	decoded, err := url.PathUnescape(decided)
	if err != nil || decoded == "*" {
		return // the policy sees no path of it
	}
	if cleaned := path.Clean(decoded); cleaned != strings.TrimSuffix(decoded, "/") && cleaned != decoded {
		t.Errorf("%q was decided, which is %q to others", decided, cleaned)
	}
}
