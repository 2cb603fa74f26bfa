package cache_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/input"
	"understudy/cmd/testkit"
)

// regexPolicy looks for attacks in seven values, each by four patterns that are slow, and only of a POST.
func regexPolicy(t testing.TB) *authz.Policy {
	t.Helper()
	module := "package envoy.authz\ndefault allow := false\nh := input.attributes.request.http\nallow if {\n\th.method == \"POST\"\n"
	for _, value := range []string{"h.path", "h.body", `h.headers["x-a"]`, `h.headers["x-b"]`, `h.headers["x-c"]`, `h.headers["x-d"]`, `h.headers["x-e"]`} {
		for i := range regexesOfAValue {
			module += fmt.Sprintf("\tnot regex.match(`(?i)(union|select|insert|a[a-z]{0,12})\\s+.*(from%d|where)`, %s)\n", i, value)
		}
	}
	compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": module + "}\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

const (
	regexesOfAValue = 4
	regexes         = 7 * regexesOfAValue
	// mostLookedAt is how many bytes of text one look-up matches.
	mostLookedAt = 16 << 10
)

// regexRequest returns the wire of a request in which each of the seven values has so many bytes.
func regexRequest(t testing.TB, method string, bytes int) []byte {
	t.Helper()
	text := "/" + strings.Repeat("ab ", bytes/3+1)[:bytes-1]
	wire, err := proto.Marshal(checktest.HTTP(&authv3.AttributeContext_HttpRequest{
		Method: method, Path: text, Body: text, Headers: map[string]string{"x-a": text, "x-b": text, "x-c": text, "x-d": text, "x-e": text},
	}))
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// readAt reads a request at a moment.
func readAt(t testing.TB, wire []byte) *authz.Request {
	t.Helper()
	r, _, err := (&input.Reader{}).Read(wire)
	if err != nil {
		t.Fatal(err)
	}
	r.Time = time.Unix(epoch, 0)
	return r
}

// countMatches calls a function with each call of regex.match, until the test ends.
func countMatches(t *testing.T, called func()) {
	t.Helper()
	original := topdown.GetBuiltin(ast.RegexMatch.Name)
	topdown.RegisterBuiltinFunc(ast.RegexMatch.Name, func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		called()
		return original(bctx, operands, iter)
	})
	t.Cleanup(func() { topdown.RegisterBuiltinFunc(ast.RegexMatch.Name, original) })
}

// TestALookUpAsksWhatAnEvaluationWould in its order: a policy that denies a GET at once does nothing with
// its texts.
func TestALookUpAsksWhatAnEvaluationWould(t *testing.T) {
	calls := 0
	countMatches(t, func() { calls++ })
	cached := newCached(t, regexPolicy(t))
	for i, bytes := range []int{100, 4000, 40_000} {
		r := readAt(t, regexRequest(t, "GET", bytes))
		if _, got := cached.Find(t.Context(), r); (got == cache.Hit) != (i > 0) {
			t.Errorf("%d bytes: the outcome is %v", bytes, got)
		}
		if d := cached.Decide(t.Context(), r, authz.Conditions{}); d.Effect != authz.Deny || d.Failure != "" {
			t.Errorf("%d bytes: the decision is %v (%s)", bytes, d.Effect, d.Failure)
		}
	}
	if calls != 0 {
		t.Errorf("there were %d calls", calls)
	}
}

// TestALookUpTakesLittleTime: what a policy does with long texts, or with many, is not done to find its
// decision. It is evaluated then, by turns and within a deadline.
func TestALookUpTakesLittleTime(t *testing.T) {
	calls := 0
	countMatches(t, func() { calls++ })
	longest := testkit.RaceCases(40_000)
	for bytes, want := range map[int]cache.Outcome{100: cache.Hit, 500: cache.Hit, 700: cache.Miss, 4000: cache.Miss, longest: cache.Miss} {
		cached := newCached(t, regexPolicy(t))
		r := readAt(t, regexRequest(t, "POST", bytes))
		if d := cached.Decide(t.Context(), r, authz.Conditions{}); d.Effect != authz.Allow {
			t.Fatalf("%d bytes: the decision is %v (%s)", bytes, d.Effect, d.Failure)
		}
		calls = 0
		if _, got := cached.Find(t.Context(), r); got != want || calls*bytes > mostLookedAt || want == cache.Hit && calls != regexes {
			t.Errorf("%d bytes: the outcome is %v, want %v, after %d calls", bytes, got, want, calls)
		}
	}
}

// newCached returns a policy with a cache.
func newCached(t testing.TB, compiled *authz.Policy) *cache.Policy {
	t.Helper()
	cached := cache.NewPolicy(compiled)
	if err := cached.SetSize(10); err != nil || !cached.Caching() {
		t.Fatalf("the error is %v, caching is %v", err, cached.Caching())
	}
	return cached
}

// TestNothingIsLookedForWithoutTime: once nobody waits for the answer nothing is looked for.
func TestNothingIsLookedForWithoutTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cached := newCached(t, regexPolicy(t))
	r := readAt(t, regexRequest(t, "GET", 100))
	cached.Decide(t.Context(), r, authz.Conditions{})
	if _, got := cached.Find(ctx, r); got != cache.NotCached {
		t.Errorf("the outcome is %v", got)
	}
}

// BenchmarkLongTexts is a GET that the policy denies at its method, with texts of so many bytes.
func BenchmarkLongTexts(b *testing.B) {
	compiled := regexPolicy(b)
	for _, bytes := range []int{100, 500, 4000, 40_000} {
		for name, size := range map[string]int{"hit": 10, "no cache": 0} {
			b.Run(fmt.Sprintf("%d bytes, %s", bytes, name), func(b *testing.B) {
				cached, wire := cache.NewPolicy(compiled), regexRequest(b, "GET", bytes)
				if size > 0 {
					if err := cached.SetSize(size); err != nil {
						b.Fatal(err)
					}
				}
				for b.Loop() {
					if d := cached.Decide(b.Context(), readAt(b, wire), authz.Conditions{}); d.Failure != "" {
						b.Fatal(d.Failure)
					}
				}
			})
		}
	}
}
