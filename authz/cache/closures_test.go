package cache_test

import (
	"fmt"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/input"
)

// epoch is the second of the first decisions.
const epoch = 1_700_000_000

// closuresData is the data of the policies.
var closuresData = map[string]any{
	"public":  []any{"/pub", "/shop"},
	"private": []any{"/pub/admin", "/shop/internal"},
}

// closuresHeader is the text of each policy before its rule.
const closuresHeader = `package envoy.authz
import rego.v2
default allow := false
http := input.attributes.request.http
path := http.path
role := http.headers["x-role"]
now := time.now_ns() / 1000000000
`

// closures :: name → a rule in which a variable is declared in a body and set in two closures of it.
// OPA binds the variable anew in each closure, so it has the value of each in that one alone.
var closures = map[string]string{
	"comprehensions": `allow if {
		some prefix
		open := [true | prefix = data.public[_]; startswith(path, prefix)]
		closed := [true | prefix = data.private[_]; startswith(path, prefix)]
		count(open) > 0
		count(closed) == 0
	}`,
	"comprehensions of a set and an object": `allow if {
		some prefix
		open := {true | prefix = data.public[_]; startswith(path, prefix)}
		closed := {"x": true | prefix = data.private[_]; startswith(path, prefix)}
		count(open) > 0
		count(closed) == 0
	}`,
	"or": `allow if { some p; { p = "/public/"; startswith(path, p) } or { p = "/static/"; startswith(path, p) } }`,
	"and, of or": `allow if {
		some p
		{ p = "/pub"; startswith(path, p) } and { { p = "/x"; endswith(path, p) } or { p = "/1"; endswith(path, p) } }
	}`,
	"every": `allow if {
		some x
		every q in [1] { x = "/x"; not endswith(path, x); q == 1 }
		every q in [1] { x = "/pub"; startswith(path, x); q == 1 }
	}`,
	"ends and contains": `allow if {
		some x
		count([1 | x = "/x"; endswith(path, x)]) == 0
		count([1 | x = "b"; contains(path, x)]) == 1
	}`,
	"equal": `allow if {
		some r
		count([1 | r = "admin"; role == r]) == 0
		count([1 | r = "user"; r == role]) == 1
	}`,
	"not": `allow if {
		some p
		not { p = data.private[_]; startswith(path, p) }
		{ p = data.public[_]; startswith(path, p) } or { p = "/static"; startswith(path, p) }
	}`,
	"operands of calls": `allow if {
		some n
		count([1 | n = 0; substring(path, n, 4) == "/pub"]) == 1
		count([1 | n = 4; substring(path, n, 2) == "/1"]) == 1
	}`,
	"within a closure": `allow if {
		count([1 | some p; count([1 | p = "/pub/1"; path == p]) == 0; count([1 | p = "/pub"; startswith(path, p)]) == 1]) == 1
	}`,
	"the second has its value from the request": `allow if {
		some v
		count([1 | v = "/pub"; true]) == 1
		count([1 | v = role; startswith(path, v)]) == 1
	}`,
	"the first has its value from the request": `allow if {
		some v
		count([1 | v = role; v.x]) == 0
		count([1 | v = "/pub"; startswith(path, v)]) == 1
	}`,
	"the clock": `allow if {
		some leeway
		count([1 | leeway = 0; now + leeway > 0]) == 1
		count([1 | leeway = 5; to_number(http.headers["x-exp"]) > now - leeway]) == 1
	}`,
	"else": `allow if {
		some p
		count([1 | p = "/public/"; startswith(path, p)]) == 1
	} else if {
		some p
		count([1 | p = "/static/"; startswith(path, p)]) == 1
	}`,
}

// closuresRequests are requests that the policies decide differently.
func closuresRequests() (out []*authv3.CheckRequest) {
	for _, path := range []string{
		"/pub/1", "/pub/2", "/pub/admin/x", "/shop", "/shop/internal", "/public/x", "/public/1", "/static/x", "/secret", "/x", "/b", "/pub",
	} {
		for _, role := range []string{"admin", "user", "/pub/1"} {
			out = append(out, checktest.HTTP(&authv3.AttributeContext_HttpRequest{
				Method: "GET", Path: path, Headers: map[string]string{"x-role": role, "x-exp": fmt.Sprint(epoch)},
			}))
		}
	}
	return out
}

// TestAVariableOfClosuresHasSeveralValues asks each policy about one request, and then about others as an
// attacker would: these are decided as OPA alone decides them, whatever the first has left in
// the cache.
func TestAVariableOfClosuresHasSeveralValues(t *testing.T) {
	requests := closuresRequests()
	for name, rule := range closures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compiled, plain := compileClosures(t, rule)
			effects := map[authz.Effect]bool{}
			for i := range requests {
				if testing.Short() && i%4 != 0 {
					continue
				}
				cached := cache.NewPolicy(compiled)
				if err := cached.SetSize(1000); err != nil || !cached.Caching() && name != "the clock" {
					t.Fatalf("the error is %v, caching is %v", err, cached.Caching())
				}
				for n, second := range []int{0, 3, 5, 6} {
					for j := range requests {
						at, r := time.Unix(epoch+int64(second), 0), requests[(i+j)%len(requests)]
						want := plain[n][(i+j)%len(requests)]
						effects[want] = true
						if got := cached.Decide(t.Context(), requestOf(t, r, at), authz.Conditions{}).Effect; got != want {
							t.Fatalf("%v after %v, at +%d s: %s, OPA says %s", r.GetAttributes(), requests[i].GetAttributes(), second, got, want)
						}
					}
				}
			}
			if len(effects) < 2 {
				t.Error("the policy decides all requests alike")
			}
		})
	}
}

// compileClosures compiles a policy, and returns what OPA alone says to all requests at the moments of
// the test.
func compileClosures(t *testing.T, rule string) (compiled *authz.Policy, plain [][]authz.Effect) {
	t.Helper()
	module := closuresHeader + rule
	data, err := structpb.NewStruct(closuresData)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err = authz.Compile(t.Context(), &adminpb.Policy{
		Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}}, Modules: map[string]string{"a.rego": module}, Data: data,
	})
	if err != nil {
		t.Fatal(err)
	}
	query, err := oparego.New(
		oparego.Query("data.envoy.authz.allow"), oparego.Module("a.rego", module), oparego.Store(inmem.NewFromObject(closuresData)),
	).PrepareForEval(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, second := range []int64{0, 3, 5, 6} {
		var effects []authz.Effect
		for _, r := range closuresRequests() {
			document, ok := checktest.Document(t, r)
			results, err := query.Eval(t.Context(), oparego.EvalInput(document), oparego.EvalTime(time.Unix(epoch+second, 0)))
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			effect := authz.Deny
			if results.Allowed() {
				effect = authz.Allow
			}
			effects = append(effects, effect)
		}
		plain = append(plain, effects)
	}
	return compiled, plain
}

// requestOf reads a CheckRequest at a moment, as it comes on the wire.
func requestOf(t *testing.T, message *authv3.CheckRequest, now time.Time) *authz.Request {
	t.Helper()
	wire, err := proto.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := (&input.Reader{}).Read(wire)
	if err != nil {
		t.Fatal(err)
	}
	r.Time = now
	return r
}
