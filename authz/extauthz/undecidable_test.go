package extauthz_test

import (
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// TestNoDecisionIs503: no status says "you may not" where nobody knows, and
// none is an error that a proxy may turn into an allow.
func TestNoDecisionIs503(t *testing.T) {
	for _, why := range []authz.Failure{authz.FailureNotReady, authz.FailureOverloaded} {
		t.Run(string(why), func(t *testing.T) { testUndecidable(t, why) })
	}
}

func testUndecidable(t *testing.T, why authz.Failure) {
	s := extauthz.New(servertest.Failing(why))
	request := checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/"})
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
}
