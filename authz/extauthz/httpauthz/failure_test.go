package httpauthz_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/httpauthz"
	"understudy/authz/extauthz/servertest"
)

// TestFailureAsErrorOverHTTP is 503 to every proxy, with the decision ID.
func TestFailureAsErrorOverHTTP(t *testing.T) {
	for name, option := range map[string]extauthz.Option{"error": extauthz.OnFailureError(), "response": extauthz.OnFailureResponse()} {
		h, err := httpauthz.New(extauthz.New(servertest.Failing(authz.FailureNotReady), option), httpauthz.Config{PathPrefix: "/envoy"})
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/envoy/x", nil))
		if w.Code != 503 || w.Header().Get("X-Understudy-Decision-Id") == "" || w.Header().Get("X-Understudy-Failure") != "NOT_READY" {
			t.Errorf("%s: got %d %v; want 503 with the decision ID and the failure", name, w.Code, w.Header())
		}
	}
}

// brokenBody panics where it is read.
type brokenBody struct{ io.ReadCloser }

func (brokenBody) Read([]byte) (int, error) { panic("broken") }

// TestPanicIsADenialOverHTTP: net/http would break the connection off, which is an error
// to a proxy, and one that may let the request pass.
func TestPanicIsADenialOverHTTP(t *testing.T) {
	s, log := servertest.Reporting(t, servertest.Broken{})
	h, err := httpauthz.New(s, httpauthz.Config{PathPrefix: "/envoy"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/envoy/x", nil)
	r.Body, r.ContentLength = brokenBody{}, 1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 403 || w.Header().Get("X-Understudy-Failure") != string(authz.FailurePanic) {
		t.Errorf("got %d, %v", w.Code, w.Header())
	}
	if got := log.String(); !strings.Contains(got, "brokenBody.Read") || strings.Contains(got, "=broken") {
		t.Errorf("the log is\n%s", got)
	}
}

// TestNoDecisionIs503OverHTTP with 503, or with what the proxy takes for a denial and
// 503 in a header.
func TestNoDecisionIs503OverHTTP(t *testing.T) {
	for _, why := range []authz.Failure{authz.FailureNotReady, authz.FailureOverloaded} {
		t.Run(string(why), func(t *testing.T) { testUndecidable(t, why) })
	}
}

func testUndecidable(t *testing.T, why authz.Failure) {
	h, err := httpauthz.New(extauthz.New(servertest.Failing(why)), httpauthz.Config{PathPrefix: "/envoy"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		status int
		header string
	}{"/envoy/x": {403, "503"}, "/forward-auth": {503, ""}, "/nginx-auth": {403, "503"}} {
		r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
		for name, value := range map[string]string{
			"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/x", "X-Forwarded-Host": "a", "X-Forwarded-Proto": "https", "X-Forwarded-For": "1.2.3.4",
			"X-Original-Method": "GET", "X-Original-Uri": "/x",
		} {
			r.Header.Set(name, value)
		}
		h.ServeHTTP(w, r)
		if w.Code != want.status || w.Header().Get("X-Understudy-Status") != want.header || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: got %d %v; want %d, the status %q and Retry-After", path, w.Code, w.Header(), want.status, want.header)
		}
	}
}
