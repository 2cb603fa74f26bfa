package authz_test

import (
	"fmt"
	"strings"
	"testing"

	"understudy/authz"
)

// TestAPolicyFramesNoMessage sets each header that an upstream or a client would take for
// the end of a message, or that belongs to a connection. An experiment fails at it as the
// live policy would. A denial is a message of Envoy's own, which frames it.
func TestAPolicyFramesNoMessage(t *testing.T) {
	decide := func(value string) authz.Decision {
		p, err := authz.Compile(t.Context(), policy("", "package envoy.authz\nallow := "+value))
		if err != nil {
			t.Fatal(err)
		}
		return p.Decide(t.Context(), request("GET", nil), authz.Conditions{})
	}
	for _, name := range strings.Fields("Content-Length transfer-encoding Connection keep-alive proxy-connection te trailer upgrade http2-settings") {
		for _, field := range []string{"headers", "response_headers_to_add"} {
			d := decide(fmt.Sprintf(`{"allowed": true, %q: {"x-a": "1", %q: "5"}}`, field, name))
			if d.Effect != authz.Deny || d.Failure != authz.FailureType || !strings.Contains(d.Reason, field+" sets "+strings.ToLower(name)) {
				t.Errorf("%s in %s: got %+v; want a failure that names it", name, field, d)
			}
		}
		if d := decide(fmt.Sprintf(`{"allowed": false, "headers": {%q: "5"}}`, name)); d.Failure != "" {
			t.Errorf("%s in a denial: got %+v", name, d)
		}
	}
	for _, name := range []string{"host", ":authority", "content-type", "x-content-length"} {
		if d := decide(fmt.Sprintf(`{"allowed": true, "headers": {%q: "a"}}`, name)); d.Effect != authz.Allow {
			t.Errorf("%s: got %+v; want it allowed", name, d)
		}
	}
}
