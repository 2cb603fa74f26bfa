package rego_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"understudy/rego"
)

const prefixModule = `package envoy.authz

default allow := false

allow if {
	input.attributes.request.http.method == "GET"
	startswith(input.attributes.request.http.path, "/api/")
}
`

const rbacModule = `package envoy.authz

default allow := false

allow if {
	[_, token] := split(input.attributes.request.http.headers.authorization, " ")
	[_, claims, _] := io.jwt.decode(token)
	claims.exp > time.now_ns() / 1000000000
	some role in claims.roles
	some permission in data.permissions[role]
	permission.method == input.attributes.request.http.method
	startswith(input.attributes.request.http.path, permission.prefix)
}
`

const largeModule = `package envoy.authz

default allow := false

allow if {
	some id in data.users[input.attributes.source.principal].grants
	grant := data.grants[id]
	grant.method == input.attributes.request.http.method
	startswith(input.attributes.request.http.path, grant.prefix)
}
`

func rbacData() map[string]any {
	return map[string]any{"permissions": map[string]any{
		"reader": []any{map[string]any{"method": "GET", "prefix": "/api/"}},
		"writer": []any{map[string]any{"method": "GET", "prefix": "/api/"}, map[string]any{"method": "POST", "prefix": "/api/"}},
	}}
}

func rbacInput(role string) string {
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"alg":"none"}`)) + "." + part([]byte(`{"exp":2000000000,"roles":["`+role+`"]}`)) + "."
	return request("POST", "/api/orders", "Bearer "+token)
}

func request(method, path, authorization string) string {
	return fmt.Sprintf(`{"attributes": {"source": {"principal": "user-77"}, "request": {"http": {"method": %q, "path": %q,
		"headers": {"authorization": %q, "accept": "*/*", "user-agent": "curl", "x-request-id": "r"}}}}}`, method, path, authorization)
}

// largeData has 10,000 entries.
func largeData() map[string]any {
	users, grants := map[string]any{}, map[string]any{}
	for i := range 5000 {
		users[fmt.Sprintf("user-%d", i)] = map[string]any{"grants": []any{fmt.Sprintf("g%d", i), fmt.Sprintf("g%d", (i*7)%5000)}}
		grants[fmt.Sprintf("g%d", i)] = map[string]any{"method": "GET", "prefix": fmt.Sprintf("/api/%d/", i)}
	}
	return map[string]any{"users": users, "grants": grants}
}

const loopModule = `package envoy.authz

allow if {
	some rule in data.rules
	rule.method == input.attributes.request.http.method
	startswith(input.attributes.request.http.path, rule.prefix)
}
`

// loopData has 200 rules, of which the last is the only one for its path.
func loopData() map[string]any {
	var rules []any
	for i := range 200 {
		rules = append(rules, map[string]any{"method": []string{"GET", "POST"}[i%2], "prefix": fmt.Sprintf("/api/%d/", i)})
	}
	return map[string]any{"rules": rules}
}

func BenchmarkEval(b *testing.B) {
	for _, bench := range []struct {
		name, module, input string
		data                map[string]any
	}{
		{"prefix", prefixModule, request("GET", "/api/orders", ""), nil},
		{"rbac", rbacModule, rbacInput("writer"), rbacData()},
		{"data10k", largeModule, request("GET", "/api/77/x", ""), largeData()},
		{"loop", loopModule, request("POST", "/api/199/x", ""), loopData()},
	} {
		b.Run(bench.name, func(b *testing.B) {
			p := compile(b, bench.module, bench.data, "envoy/authz/allow")
			in := input(b, bench.input)
			now := time.Unix(1_500_000_000, 0)
			b.ReportAllocs()
			for b.Loop() {
				got, err := p.Eval(context.Background(), "envoy/authz/allow", in, now)
				if err != nil || got.Value != true {
					b.Fatal(got, err)
				}
			}
		})
	}
}

func BenchmarkNewInput(b *testing.B) {
	document := decode(b, rbacInput("writer")).(map[string]any)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rego.NewInput(document); err != nil {
			b.Fatal(err)
		}
	}
}
