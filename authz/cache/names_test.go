package cache_test

import (
	"fmt"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/extauthz/checktest"
	"understudy/cmd/testkit"
)

// TestNamesThatCallersChooseCostThemAlone: a policy goes through all headers. Requests with header names of their own
// are not found, and those of other callers are found as before.
func TestNamesThatCallersChooseCostThemAlone(t *testing.T) {
	compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
		Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": `package envoy.authz
roles contains role if {
	some name, value in input.attributes.request.http.headers
	startswith(name, "x-role-")
	value == "yes"
	role := substring(name, 7, -1)
}
default allow := false

allow if "admin" in roles
`},
	})
	if err != nil {
		t.Fatal(err)
	}
	cached := cache.NewPolicy(compiled)
	cached.Contradicted = func(c *cache.Contradiction) { t.Error(c) }
	if err := cached.SetSize(2000); err != nil {
		t.Fatal(err)
	}
	decide := func(headers map[string]string) cache.Outcome {
		r := requestOf(t, checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/", Headers: headers}), time.Unix(epoch, 0))
		_, outcome := cached.Find(t.Context(), r)
		want := authz.Deny
		if headers["x-role-admin"] == "yes" {
			want = authz.Allow
		}
		if d := cached.Decide(t.Context(), r, authz.Conditions{}); d.Effect != want || d.Failure != "" {
			t.Fatalf("%v: the decision is %v (%s)", headers, d.Effect, d.Failure)
		}
		return outcome
	}
	found, asked := 0, 0
	for i := range testkit.Cases(100_000) {
		decide(map[string]string{fmt.Sprintf("x-role-%d", i): "yes", fmt.Sprintf("x-%d", i): "1"})
		if i%10 != 0 {
			continue
		}
		asked++
		if decide(map[string]string{"x-role-admin": []string{"yes", "no"}[i/10%2], "x-request-id": fmt.Sprint(i), "user-agent": "a"}) == cache.Hit {
			found++
		}
	}
	if found < asked*9/10 {
		t.Errorf("%d of %d requests are found", found, asked)
	}
}
