package extauthz_test

import (
	"context"
	"net/http/httptest"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz"
	"understudy/authz/extauthz"
)

// failing decides nothing, for one reason.
func failing(why authz.Failure) decide {
	return func(context.Context, *authz.Request) authz.Decision {
		return authz.Decision{Failure: why, Reason: "why"}
	}
}

// TestWhoCannotDecideDeniesWith503: no status says "you may not" where nobody knows, and
// none is an error that a proxy may turn into an allow.
func TestWhoCannotDecideDeniesWith503(t *testing.T) {
	for _, why := range []authz.Failure{authz.FailureNotReady, authz.FailureOverloaded} {
		t.Run(string(why), func(t *testing.T) { testUndecidable(t, why) })
	}
}

func testUndecidable(t *testing.T, why authz.Failure) {
	s := extauthz.New(failing(why))
	request := httpRequest(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/"})
	decoded, err := s.Check(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	for _, response := range []*authv3.CheckResponse{decoded, checkWire(t, s, request)} {
		denied := response.GetDeniedResponse()
		if response.GetStatus().GetCode() != 7 || denied.GetStatus().GetCode() != 503 || len(denied.GetHeaders()) != 1 ||
			denied.GetHeaders()[0].GetHeader().GetKey() != "retry-after" {
			t.Errorf("got %v; want a denial with 503 and retry-after", response)
		}
	}
	h, err := s.HTTPHandler(extauthz.HTTPConfig{PathPrefix: "/envoy"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		status int
		told   string
	}{"/envoy/x": {403, "503"}, "/forward-auth": {503, ""}, "/nginx-auth": {403, "503"}} {
		r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
		for name, value := range map[string]string{
			"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/x", "X-Forwarded-Host": "a", "X-Forwarded-Proto": "https", "X-Forwarded-For": "1.2.3.4",
			"X-Original-Method": "GET", "X-Original-Uri": "/x",
		} {
			r.Header.Set(name, value)
		}
		h.ServeHTTP(w, r)
		if w.Code != want.status || w.Header().Get("X-Understudy-Status") != want.told || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s: got %d %v; want %d, the status %q and Retry-After", path, w.Code, w.Header(), want.status, want.told)
		}
	}
}
