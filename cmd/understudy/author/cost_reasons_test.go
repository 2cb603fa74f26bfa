package author

import (
	"slices"
	"testing"

	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// regoRule asks the default path.
var regoRule = &adminpb.PolicyRule{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}

// TestReasonsAreOfThePolicy: what is said of it is why its decisions are evaluated.
func TestReasonsAreOfThePolicy(t *testing.T) {
	const notCached = "So no decision is cached: each request is evaluated."
	const advice = "Where a comparison with texts of the policy or its data is enough (==, startswith, in with an array), write that: values that it cannot distinguish share a decision."
	const nothingWhole = "No value of a request is asked for whole: what the rules find out about a request decides whether its decision is cached. These are at most 512 questions for a request, of which a loop over data asks one for each element; what comes after that is asked for whole."
	service := &adminpb.PolicyRule{Filter: &adminpb.PolicyRule_ExternalService{ExternalService: &adminpb.ExternalServiceFilter{EndpointUrl: "https://usage.example.com"}}}
	for _, c := range []struct {
		rules []*adminpb.PolicyRule
		body  string
		want  []string
	}{
		{nil, "true", []string{"The policy has no rules: each request gets the default decision, and nothing is evaluated."}},
		{[]*adminpb.PolicyRule{regoRule, service}, "true", []string{
			"Each request is evaluated and waits for an answer: external services are asked by 1 of the rules.", notCached,
		}},
		{[]*adminpb.PolicyRule{regoRule}, `input.a == "x" with input.a as "y"`, []string{
			"A request for which with in a.rego:3 is evaluated is left to OPA's interpreter: that takes several times as long, and its decision is not cached.", nothingWhole,
		}},
		{[]*adminpb.PolicyRule{regoRule}, `rand.intn("x", 2) == 1; rand.intn("y", 2) == 1`, []string{
			"rand.intn in a.rego:3 is no function of its operands, so a request for which it is called is left to OPA's interpreter, and its decision is not cached.", nothingWhole,
		}},
		{[]*adminpb.PolicyRule{regoRule}, "count(object.keys(input)) > 1", []string{
			"The whole request is asked for in a.rego:3: a decision on what was asked there is not cached. Name the parts that the rule needs.", advice,
		}},
		{[]*adminpb.PolicyRule{regoRule}, `json.marshal(input.a) != ""; input.b < time.now_ns()`, []string{
			"input.a may be asked for whole in a.rego:3: then each value that was not seen before is evaluated.", advice,
			"time.now_ns in a.rego:3 is compared: that is asked for each request, with its own time.",
			"The policy only finds out something about input.b (a.rego:3): values that it cannot distinguish share a decision.",
		}},
		{[]*adminpb.PolicyRule{regoRule}, `json.marshal(time.now_ns()) != ""; input.parsed_query.a[0] == "x"`, []string{
			"time.now_ns in a.rego:3 is used for more than to compare it with a part of the request or of a token: a decision that was made with it is not cached.",
			"A part of input.parsed_query is asked for in a.rego:3: then all of its text counts, and each text that was not seen before is evaluated.",
		}},
		{[]*adminpb.PolicyRule{regoRule}, `some x in input.l; x == "a"`, []string{
			"input.l is gone through in a.rego:3: an array of up to 16 elements is asked for its length, an object of up to 64 entries for its keys, and both for what the rules ask of each. Anything else is asked for whole.", advice,
			"The policy only finds out something about input.l[_] (a.rego:3): values that it cannot distinguish share a decision.",
		}},
		{[]*adminpb.PolicyRule{regoRule}, "f(input.a); f(input.parsed_path)}\nf(x) if { x == 1", []string{
			nothingWhole,
			"A number in input.a may be written unusually, such as 1.0 or 1e2. Then a.rego:3 may leave the request to OPA's interpreter, because a function or a key may tell it apart from an equal number.",
			"The policy only finds out something about input.a (a.rego:3), input.parsed_path (a.rego:3), x (a.rego:4): values that it cannot distinguish share a decision.",
		}},
		{[]*adminpb.PolicyRule{regoRule}, `input.a == "x"; startswith(input.b, "y")`, []string{
			"No value of a request is asked for whole: what the rules find out about a request decides whether its decision is cached. These are at most 512 questions for a request, of which a loop over data asks one for each element; what comes after that is asked for whole.",
			"The policy only finds out something about input.a (a.rego:3), input.b (a.rego:3): values that it cannot distinguish share a decision.",
		}},
	} {
		cost, err := authz.ExplainCost(t.Context(), &adminpb.Policy{
			Rules: c.rules, Modules: map[string]string{"a.rego": "package envoy.authz\n\nallow if { " + c.body + " }\n"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := reasonsOf(cost); !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n%q, want\n%q", c.body, got, c.want)
		}
	}
}
