package cache

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/rego"
)

// tokenRules are rules about a token in input.h.token, which is valid around a second if it has moments.
var tokenRules = map[string]string{
	"verified":               `allow if { t := io.jwt.decode_verify(h.token, {"secret": data.secret}); t[0]; t[2].role == data.role }`,
	"verified into objects":  "t := {\"valid\": v, \"payload\": p} if [v, _, p] := io.jwt.decode_verify(h.token, {\"secret\": data.secret})\nallow if { t.valid; some r in t.payload.roles; r == data.role; now := time.now_ns() / 1000000000; t.payload.nbf <= now; now < t.payload.exp }",
	"decoded":                "c := io.jwt.decode(h.token)[1]\nallow if { c.exp > time.now_ns() / 1000000000; c.role == data.role }",
	"decoded by hand":        "c := json.unmarshal(base64url.decode(split(h.token, \".\")[1]))\nallow if { c.exp > time.now_ns() / 1000000000; c.role == data.role }",
	"compared with the path": "c := io.jwt.decode(h.token)[1]\nallow if { some p in data.grants[c.role]; p == h.path; c.exp > time.now_ns() / 1000000000 }",
	"the token itself":       "allow if { io.jwt.verify_hs256(h.token, data.secret); contains(h.token, \".eyJpc3Mi\") }",
}

// tokenOf returns a token that is signed with a secret.
func tokenOf(payload, secret string) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// someTokens share their header, and some of them the beginning of the payload or all but the end.
func someTokens(second int64) (out []string) {
	for _, role := range []string{"viewer", "admin"} {
		for _, exp := range []int64{second, second + 2} {
			claims := fmt.Sprintf(`{"iss":"a","roles":["x",%q],"role":%q,"nbf":%d,"exp":%d`, role, role, second-2, exp)
			token := tokenOf(claims+"}", "s1")
			out = append(out, token, token+"A", token[:len(token)-4]+"AAAA", tokenOf(claims+`,"more":1}`, "s1"), tokenOf(claims+"}", "s2"))
		}
	}
	return append(out, tokenOf(`{"role":"admin","exp":"never"}`, "s1"), tokenOf(`{"role":"admin"}`, "s1"), "no.token", "", out[0][:40])
}

// tokenPolicy returns a policy with a cache.
func tokenPolicy(t *testing.T, rule, secret, role string) *Policy {
	t.Helper()
	rule = strings.NewReplacer("data.secret", strconv.Quote(secret), "data.role", strconv.Quote(role), "data.grants", "grants").Replace(rule)
	compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": "package envoy.authz\ndefault allow := false\nh := input.h\ngrants := {\"viewer\": [\"/a\"], \"admin\": [\"/a\", \"/b\"]}\n" + rule + "\n"},
	})
	if err != nil || !compiled.Recordable() {
		t.Fatal("the policy is not evaluated by ours", err)
	}
	p := NewPolicy(compiled)
	if err := p.SetSize(4096); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCachedAnswersOfTokens: with cached answers, decisions about tokens are those of the policy at each moment, for
// tokens that have much in common and for policies with other data.
func TestCachedAnswersOfTokens(t *testing.T) {
	const second = 1_700_000_000
	for name, rule := range tokenRules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies := []*Policy{tokenPolicy(t, rule, "s1", "admin"), tokenPolicy(t, rule, "s1", "viewer"), tokenPolicy(t, rule, "s2", "admin")}
			effects := map[authz.Effect]int{}
			for pass := range 3 {
				for half := range 12 {
					if pass == 1 {
						half = 11 - half
					}
					at := time.Unix(second-3, 0).Add(time.Duration(half) * 500 * time.Millisecond)
					for _, token := range someTokens(second) {
						for i, p := range policies {
							r := tokenRequest(token, []string{"/a", "/b"}[half%2], at)
							got, want := p.Decide(t.Context(), r, authz.Conditions{}), p.Compiled().Decide(t.Context(), r, authz.Conditions{Plain: true})
							if !authz.SameDecision(got, want) {
								t.Fatalf("policy %d, pass %d, %s, token %s: got %+v, want %+v", i, pass, at, token, got, want)
							}
							effects[want.Effect]++
						}
					}
				}
			}
			if len(effects) < 2 {
				t.Error("the policies decide all requests alike")
			}
		})
	}
}

func tokenRequest(token, path string, at time.Time) *authz.Request {
	document := map[string]any{"h": map[string]any{"token": token, "path": path}}
	return &authz.Request{
		Operation: authz.OperationCheck, Time: at,
		Source: func(*authz.ReadBudget) (rego.Input, error) { return rego.NewInput(document) },
		Parts: func(*authz.ReadBudget) (rego.Request, error) {
			input, err := rego.NewInput(document)
			return rego.RequestOf(input), err
		},
	}
}
