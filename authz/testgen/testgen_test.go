package testgen_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/replay"
	"understudy/authz/testgen"
	"understudy/rego"
	"understudy/rego/regotest"
)

func policyOf(module string) *adminpb.Policy {
	return &adminpb.Policy{
		Rules:   []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"auth.rego": "package envoy.authz\n" + module},
	}
}

// exampleOf is an example of an input, as a replay finds it.
func exampleOf(t *testing.T, live, candidate *adminpb.Policy, input map[string]any) replay.Example {
	t.Helper()
	encoded, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	value, err := rego.ValueOf(input)
	if err != nil {
		t.Fatal(err)
	}
	w := replay.Example{Method: "GET", Path: "/users/*", Input: encoded, Time: time.Unix(1_700_000_000, 0), DecisionID: "d1"}
	for _, side := range []struct {
		policy *adminpb.Policy
		made   *authz.Decision
	}{{live, &w.Live}, {candidate, &w.Candidate}} {
		compiled, err := authz.Compile(t.Context(), side.policy)
		if err != nil {
			t.Fatal(err)
		}
		*side.made = compiled.Decide(t.Context(), &authz.Request{
			Operation: authz.OperationCheck, Time: w.Time, Source: func(*authz.ReadBudget) (rego.Input, error) { return value.Input(), nil },
		}, authz.Conditions{})
	}
	w.Difference = authz.Compare(w.Live, w.Candidate)
	return w
}

// input has more than any policy of the tests reads.
func input(headers map[string]any) map[string]any {
	headers["accept"], headers["cookie"] = "*/*", "session=geheim"
	return map[string]any{
		"attributes": map[string]any{
			"source":  map[string]any{"principal": "spiffe://x/web"},
			"request": map[string]any{"http": map[string]any{"method": "GET", "path": "/users/7?token=geheim", "headers": headers}},
		},
		"parsed_path": []any{"users", "7"}, "parsed_query": map[string]any{"token": []any{"geheim"}},
	}
}

func bearer(claims string) string {
	return "Bearer " + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".Z2VoZWlt"
}

// claimsOf is the part of a policy that decodes a token.
const claimsOf = "claims := io.jwt.decode(substring(input.attributes.request.http.headers.authorization, 7, -1))[1]\n"

// TestMake makes tests that pass with one policy and fail with the other, and have no more of
// a request than the difference is about.
func TestMake(t *testing.T) {
	// Of the route nothing is left out; the user is none of it.
	const route = `{"attributes": {"request": {"http": {"method": "GET", "path": "/users/example"}}}, "parsed_path": ["users", "example"]}`
	const get = "default allow := false\nallow if input.attributes.request.http.method == \"GET\"\n"
	for name, c := range map[string]struct {
		live, candidate string
		headers         map[string]any
		want            []string
		never           string
	}{
		"newly denied": {
			get, "default allow := false\nallow if {\n\tinput.attributes.request.http.method == \"GET\"\n\tinput.parsed_path[0] != \"users\"\n}\n", map[string]any{},
			[]string{"test_denied_get_users if {", "not data.envoy.authz.allow with input as " + route, "the live policy allows it, and the candidate denies it"}, "accept",
		},
		"newly allowed": {
			"default allow := false\n", get, map[string]any{},
			[]string{"test_allowed_get_users if {", "\tdata.envoy.authz.allow with input as " + route + "\n"}, "users/7",
		},
		"a response": {
			"allow := {\"allowed\": true, \"headers\": {\"x-role\": \"a\"}}", "allow := {\"allowed\": true, \"headers\": {\"x-role\": \"b\"}}", map[string]any{},
			[]string{"test_answer_get_users if {", "x-role", "with input as " + route}, "users/7",
		},
		"a response of another type": {
			"default allow := {\"allowed\": false, \"headers\": {\"x-role\": \"a\"}}", "default allow := {\"allowed\": false, \"body\": \"b\"}", map[string]any{},
			[]string{"test_answer_get_users if {", "json.unmarshal(json.marshal(data.envoy.authz.allow)) == ", "with input as " + route}, "users/7",
		},
		"an effect of another type": {
			"default allow := true", "default allow := {\"allowed\": false}", map[string]any{},
			[]string{"test_denied_get_users if {", "json.unmarshal(json.marshal(data.envoy.authz.allow)) == {\"allowed\": false} with input as " + route}, "users/7",
		},
		"the clock": {
			"default allow := true", "default allow := false\nallow if time.now_ns() > 1800000000000000000", map[string]any{},
			[]string{"with time.now_ns as 1700000000000000000"}, "users/7",
		},
		"a token": {
			claimsOf + "default allow := false\nallow if claims.role == \"admin\"", claimsOf + "default allow := false\nallow if { claims.role == \"admin\"; claims.level > 3 }",
			map[string]any{"authorization": bearer(`{"sub":"alice","role":"admin","level":1,"exp":17}`)},
			[]string{`concat("", ["Bearer ", token({"level": 1, "role": "admin"})])`, "token(claims) := concat("}, "alice",
		},
		"a credential": {
			"default allow := true", "default allow := false\nallow if not input.attributes.request.http.headers[\"x-api-key\"]", map[string]any{"x-api-key": "geheim"},
			[]string{`"x-api-key": "example"`}, "geheim",
		},
		"a segment that matters": {
			get, "default allow := false\nallow if {\n\tinput.attributes.request.http.method == \"GET\"\n\tinput.parsed_path[1] != \"7\"\n}\n", map[string]any{},
			[]string{"test_denied_get_users if {", `"path": "/users/7"`, `"parsed_path": ["users", "7"]`}, "accept",
		},
	} {
		t.Run(name, func(t *testing.T) {
			live, candidate := policyOf(c.live), policyOf(c.candidate)
			for _, side := range []replay.Side{replay.Candidate, replay.Live} {
				w := exampleOf(t, live, candidate, input(c.headers))
				got, err := testgen.Make(t.Context(), testgen.Options{Live: live, Candidate: candidate, For: side, File: "x_test.rego"}, []replay.Example{w})
				if err != nil || got.Count != 1 {
					t.Fatalf("%d tests, left out %q, error %v; want one", got.Count, got.Left, err)
				}
				pass, fail := candidate, live
				if side == replay.Live {
					pass, fail = live, candidate
				} else {
					for _, want := range c.want {
						if !strings.Contains(got.Module, want) {
							t.Errorf("%q is not in\n%s", want, got.Module)
						}
					}
				}
				if strings.Contains(got.Module, "geheim") || strings.Contains(got.Module, "Z2VoZWlt") || strings.Contains(got.Module, c.never) {
					t.Errorf("it has a credential, or %q, which makes no difference:\n%s", c.never, got.Module)
				}
				if a, b := outcome(t, pass, got.Module), outcome(t, fail, got.Module); a != regotest.Passed || b != regotest.Failed {
					t.Errorf("for the %s it ends with %s, and with the other with %s; want PASS and FAIL\n%s", side, a, b, got.Module)
				}
			}
		})
	}
}

// outcome runs the only test of a module with a policy.
func outcome(t *testing.T, p *adminpb.Policy, module string) regotest.Outcome {
	t.Helper()
	with := policyOf("")
	with.Modules["auth.rego"], with.Modules["x_test.rego"] = p.Modules["auth.rego"], module
	report, err := authz.RunTests(t.Context(), with, regotest.Options{})
	if err != nil || len(report.Tests) != 1 {
		t.Fatalf("%d tests, error %v\n%s", len(report.Tests), err, module)
	}
	return report.Tests[0].Outcome
}

// TestLeftOut makes no test that would need a credential as it is.
func TestLeftOut(t *testing.T) {
	live := policyOf("default allow := true")
	candidate := policyOf("default allow := true\nallow := false if input.attributes.request.http.headers[\"x-api-key\"] == \"geheim\"")
	w := exampleOf(t, live, candidate, input(map[string]any{"x-api-key": "geheim"}))
	got, err := testgen.Make(t.Context(), testgen.Options{Live: live, Candidate: candidate, For: replay.Candidate, File: "x"}, []replay.Example{w})
	if err != nil || got.Count != 0 || len(got.Left) != 1 || strings.Contains(got.Left[0], "geheim") || !strings.Contains(got.Left[0], "headers.x-api-key") {
		t.Errorf("%d tests, left out %q, error %v; want none, and why", got.Count, got.Left, err)
	}
}

// TestStatesTheLivePolicy: a test for the live policy asks for its answers, and its name says so.
func TestStatesTheLivePolicy(t *testing.T) {
	live := policyOf("default allow := true")
	candidate := policyOf("default allow := true\nallow := false if startswith(input.attributes.request.http.path, \"/v1/payments\")")
	document := input(map[string]any{})
	document["attributes"].(map[string]any)["request"].(map[string]any)["http"].(map[string]any)["path"] = "/v1/payments/4711/refunds?token=geheim"
	document["parsed_path"] = []any{"v1", "payments", "4711", "refunds"}
	w := exampleOf(t, live, candidate, document)
	w.Path, w.DecisionID = "/v1/payments/*/refunds", ""
	got, err := testgen.Make(t.Context(), testgen.Options{Live: live, Candidate: candidate, For: replay.Live, File: "x"}, []replay.Example{w})
	if err != nil || got.Count != 1 {
		t.Fatalf("%d tests, left out %q, error %v; want one", got.Count, got.Left, err)
	}
	for _, want := range []string{
		"They state what the live policy answers.", "# GET /v1/payments/*/refunds: the live policy allows it, and the candidate denies it\ntest_allowed_get_v1_payments_refunds if {",
		"\tdata.envoy.authz.allow with input as", `"path": "/v1/payments/example/refunds"`, `"parsed_path": ["v1", "payments", "example", "refunds"]`,
	} {
		if !strings.Contains(got.Module, want) {
			t.Errorf("%q is not in\n%s", want, got.Module)
		}
	}
}
