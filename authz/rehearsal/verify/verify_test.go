package verify

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/diagnostics"
	"understudy/authz/diagnostics/metrictest"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/cmd/testkit"
)

// verifying is a verifier for which every decision is drawn, with a policy that has a
// cache.
func verifying(t *testing.T, condition string) (*Verifier, *decisionrequest.Live, metrictest.Metrics) {
	t.Helper()
	return verifyingPolicy(t, rehearsaltest.Allowing(condition), slog.New(slog.DiscardHandler))
}

func verifyingPolicy(t *testing.T, policy *adminpb.Policy, logger *slog.Logger) (*Verifier, *decisionrequest.Live, metrictest.Metrics) {
	t.Helper()
	reader := metrictest.New()
	v, err := New(Config{
		// Nothing here is decided by the time that it takes; see TestVerifyingEndsInTime.
		Live: decisionrequest.NewLivePolicies(supervisortest.New(t), 0), Requests: decisionrequest.Maker{Timeout: time.Hour, Bodies: authz.NewBodyMemory(0)},
		Output: diagnostics.Output{Logger: logger, Meters: reader.Provider},
	})
	if err != nil {
		t.Fatal(err)
	}
	v.dice = func() uint64 { return 0 }
	compiled, err := authz.Compile(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}
	live := &decisionrequest.Live{Name: "web", Etag: "1", Policy: cache.NewPolicy(compiled), Source: rehearsaltest.Packed(t, policy)}
	if err := live.Policy.SetSize(100); err != nil {
		t.Fatal(err)
	}
	return v, live, reader
}

// decide is a live decision.
func decide(t *testing.T, live *decisionrequest.Live, r *authz.Request) authz.Decision {
	t.Helper()
	return live.Policy.Decide(t.Context(), r, authz.Conditions{})
}

// mismatches returns how many are counted.
func mismatches(t *testing.T, reader metrictest.Metrics) (n int64) {
	t.Helper()
	return reader.Count(t, "understudy.verification.mismatches")
}

// TestAWrongShortcutEndsAllOfItsPolicy caches a decision that is wrong: it is found out,
// counted, and never used again.
func TestAWrongShortcutEndsAllOfItsPolicy(t *testing.T) {
	v, live, reader := verifying(t, `input.x == "a"`)
	now := time.Unix(1_700_000_000, 0)
	ask := func() *authz.Request {
		r := rehearsaltest.Request(map[string]any{"x": "b"}, now)
		r.Parts = rehearsaltest.PartsOf(map[string]any{"x": "a"})
		return r
	}
	decide(t, live, ask())
	d, outcome := live.Policy.Find(t.Context(), ask())
	if d.Effect != authz.Allow || outcome != cache.Hit {
		t.Fatalf("got %+v; want the one that is cached", d)
	}
	v.verify(t.Context(), nil, verification{live: live, request: ask(), decision: d})
	if n := mismatches(t, reader); n != 1 {
		t.Errorf("%d mismatches are counted, want 1", n)
	}
	if d := decide(t, live, ask()); d.Effect != authz.Deny {
		t.Errorf("got %+v; want what the whole input gives", d)
	}
	if verifiable(live, ask(), d) {
		t.Error("what takes no shortcut is verified")
	}
}

// TestARightShortcutStays verifies the decision that the whole input gives.
func TestARightShortcutStays(t *testing.T) {
	v, live, reader := verifying(t, `input.x == "a"`)
	r := rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0))
	for range 2 { // made, then cached
		v.verify(t.Context(), nil, verification{live: live, request: r, decision: decide(t, live, r)})
	}
	if n := mismatches(t, reader); n != 0 || live.Policy.Compiled().Distrusted() {
		t.Errorf("%d mismatches are counted, want none", n)
	}
}

// TestWhatIsVerified lets every decision be due that ever is: not where the chain that
// is run again says something else by right. A policy without any has a reason.
func TestWhatIsVerified(t *testing.T) {
	change := func(f func(*adminpb.Policy)) *adminpb.Policy {
		p := rehearsaltest.Allowing(`input.x == "a"`)
		f(p)
		return p
	}
	service := &adminpb.PolicyRule{RuleId: "s", Filter: &adminpb.PolicyRule_ExternalService{ExternalService: &adminpb.ExternalServiceFilter{EndpointUrl: "https://usage.example.com"}}}
	for name, tt := range map[string]struct {
		policy *adminpb.Policy
		due    int
		// excluded is why the policy is never verified.
		excluded string
	}{
		"a rule":                   {change(func(*adminpb.Policy) {}), 1, ""},
		"all of the input is read": {change(func(p *adminpb.Policy) { p.Modules["a.rego"] = "package envoy.authz\nallow if count(input) == 1" }), 1, ""},
		"a clock":                  {rehearsaltest.Allowing(`{ round(time.now_ns() / 1000000000) > 5; input.x == "a" }`), 1, ""},
		"dice":                     {rehearsaltest.Allowing(`{ rand.intn("x", 2) == 1; input.x == "b" }`), 0, "not_deterministic"},
		"a modifier":               {rehearsaltest.Allowing(`input.x == "a" with input.x as "a"`), 1, ""},
		"no rules":                 {change(func(p *adminpb.Policy) { p.Rules = nil }), 0, "no_rules"},
		"an exempted project":      {change(func(p *adminpb.Policy) { p.ExemptedProjects = []string{"free"} }), 0, ""},
		"an external service":      {change(func(p *adminpb.Policy) { p.Rules = append(p.Rules, service) }), 0, "external_service"},
	} {
		t.Run(name, func(t *testing.T) {
			v, live, reader := verifyingPolicy(t, tt.policy, slog.New(slog.DiscardHandler))
			due := 0
			r := rehearsaltest.Request(map[string]any{"x": "b"}, time.Unix(1_700_000_000, 0))
			r.Project = authz.Project{ID: "free"}
			d := decide(t, live, r)
			if verifiable(live, r, d) {
				due++
				v.verify(t.Context(), nil, verification{live: live, request: r, decision: d})
			}
			done := reader.Count(t, "understudy.verifications", attribute.String("outcome", "done"))
			if n := mismatches(t, reader); due != tt.due || n != 0 || done != int64(tt.due) {
				t.Errorf("%d are due, %d verified and %d mismatches counted, want %d and none", due, done, n, tt.due)
			}
			if why := live.Policy.Compiled().Unverified(); why != tt.excluded {
				t.Errorf("it is never verified for %q, want %q", why, tt.excluded)
			}
		})
	}
}

// TestVerifyingEndsInTime: who decides again is bounded as an experiment is, and an
// evaluation that has not ended proves nothing.
func TestVerifyingEndsInTime(t *testing.T) {
	v, live, reader := verifying(t, `count([1 | some a in numbers.range(1, 100000); some b in numbers.range(1, 100000); a == b]) == 1`)
	v.timeout = time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	defer cancel()
	r := rehearsaltest.Request(nil, time.Unix(1_700_000_000, 0))
	v.verify(ctx, nil, verification{live: live, request: r, decision: authz.Decision{Effect: authz.Allow, Plain: true}})
	if ctx.Err() != nil {
		t.Error("only the test ended it")
	}
	if n := mismatches(t, reader); n != 0 {
		t.Errorf("%d mismatches are counted, want none", n)
	}
	if n := reader.Count(t, "understudy.verifications", attribute.String("reason", "deadline")); n != 1 {
		t.Errorf("%d verifications that ended too late are counted, want 1", n)
	}
}

// TestTrafficThatRepeatsItselfHidesNothing: of two requests that come by turns, both are
// verified now and then. A counter, of whatever even period, would choose one for good.
func TestTrafficThatRepeatsItselfHidesNothing(t *testing.T) {
	v, err := New(Config{Output: diagnostics.Output{Meters: sdkmetric.NewMeterProvider()}})
	if err != nil {
		t.Fatal(err)
	}
	var due [2]int
	const turns = 100_000 // that none of so many is due has a chance of 10^-42
	for i := range 2 * turns {
		if v.drawn() {
			due[i%2]++
		}
	}
	if due[0] == 0 || due[1] == 0 || due[0]+due[1] > 10*2*turns/verifyEvery {
		t.Errorf("%d of the one and %d of the other are verified, want about %d of each", due[0], due[1], turns/verifyEvery)
	}
}

// TestAMismatchLeadsToTheRule has one rule of two decide otherwise each time, as it would by a
// shortcut that is wrong.
func TestAMismatchLeadsToTheRule(t *testing.T) {
	for name, tt := range map[string]struct {
		second string
		want   []string
	}{
		"a wrong evaluation": {
			`allow := {"allowed": true, "headers": {"x": sprintf("%d", [rand.intn(input.attributes.request.http.path, 1000000000)])}}`,
			[]string{"rule=second", "path=b/allow", "shortcut=evaluation", "again=ALLOW"},
		},
		"a wrong cache": {
			`allow if input.attributes.request.http.method == "PUT"`,
			[]string{`rule=""`, `shortcut="decision cache"`, "again_by=second"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy := rehearsaltest.Allowing("true")
			policy.Modules["b.rego"] = "package b\n" + tt.second
			policy.Rules = append(policy.Rules, &adminpb.PolicyRule{RuleId: "second", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{Path: "b/allow"}}})
			var out bytes.Buffer
			v, live, reader := verifyingPolicy(t, policy, slog.New(slog.NewTextHandler(&out, nil)))
			d := authz.Decision{Effect: authz.Allow, Plain: true, Value: true}
			v.verify(t.Context(), nil, verification{live: live, request: sent{method: "GET", path: "/a"}.request(t), decision: d})
			if n := mismatches(t, reader); n != 1 {
				t.Errorf("%d mismatches are counted, want 1", n)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the log has no %s: %s", want, out.String())
				}
			}
		})
	}
}

// TestAVerificationThatIsShedIsCounted has no room for one.
func TestAVerificationThatIsShedIsCounted(t *testing.T) {
	v, live, reader := verifying(t, `input.x == "a"`)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	v.Run(ended) // what is offered after the end is shed
	v.Offer(live, rehearsaltest.Request(nil, time.Unix(0, 0)), authz.Decision{})
	if n := reader.Count(t, "understudy.verifications", attribute.String("reason", "shutdown")); n != 1 {
		t.Errorf("%d shed verifications are counted, want 1", n)
	}
}
