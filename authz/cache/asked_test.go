package cache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/extauthz/checktest"
	"understudy/cmd/testkit"
)

// TestAskedCountsWhatACacheMisses: of random policies, a request has a new answer if and only if a cache in front of
// the policy has no decision on it, and every place that asks is one that ExplainCost has.
func TestAskedCountsWhatACacheMisses(t *testing.T) {
	repeated, policies := 0, testkit.Cases(60)
	for seed := range uint64(policies) {
		g := &realistic{Rand: rand.New(rand.NewPCG(seed, 21))}
		module, compiled, cached := realisticPolicy(t, g)
		if compiled == nil || !compiled.Recordable() {
			continue
		}
		asked, err := cache.NewAsked(compiled, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		tokens := []string{g.token(), g.token(), g.token()}
		missed := int64(0)
		for range 40 {
			r := requestOf(t, g.request(tokens), time.Unix(epoch, 0))
			if _, outcome := cached.Find(t.Context(), r); outcome != cache.Hit {
				missed++
			}
			cached.Evaluate(t.Context(), r, authz.Conditions{})
			asked.Count(t.Context(), r, authz.Conditions{})
		}
		if got := asked.Requests - asked.Known; got != missed {
			t.Fatalf("%d requests have a new answer, %d are missed, by\n%s", got, missed, module)
		}
		holdQuestions(t, module, compiled, asked)
		repeated += int(asked.Known)
	}
	if repeated < 100 {
		t.Errorf("%d requests repeat: the policies show too little", repeated)
	}
}

// holdQuestions holds the questions against the number of evaluations, and their places against the causes.
func holdQuestions(t *testing.T, module string, compiled *authz.Policy, asked *cache.Asked) {
	t.Helper()
	places, found := map[string]bool{}, int64(0)
	for _, c := range compiled.Causes() {
		places[fmt.Sprintf("%s:%d", c.File, c.Row)] = true
	}
	for i, q := range asked.Questions() {
		found += q.New
		if place := fmt.Sprintf("%s:%d", q.File, q.Row); !places[place] && q.File != "" {
			t.Errorf("%s is asked at %s, which is not among the causes of\n%s", q.Question, place, module)
		}
		if q.Asked < q.New || q.Answers > int(q.Asked) || i > 0 && q.New > asked.Questions()[i-1].New {
			t.Errorf("%+v makes no sense", q)
		}
	}
	if found != asked.Requests-asked.Known {
		t.Errorf("%d new answers, and %d requests that were evaluated", found, asked.Requests-asked.Known)
	}
}

// TestTheNewAnswerIsThatOfItsQuestion: a request counts for the first question whose answer the cache did not have after
// those before it, and what no other request can have for the line that learns it.
func TestTheNewAnswerIsThatOfItsQuestion(t *testing.T) {
	compiled, err := authz.Compile(t.Context(), &adminpb.Policy{
		Rules: []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}},
		Modules: map[string]string{"a.rego": `package envoy.authz
default allow := false
allow if {
	input.attributes.request.http.method == "GET"
	lower(input.attributes.request.http.path) == upper(input.attributes.request.http.host)
	json.marshal(input.attributes.request.http.path) != ""
}
allow if {
	input.attributes.request.http.method == "DELETE"
	json.marshal(time.now_ns()) == "Tuesday"
}
`},
	})
	if err != nil {
		t.Fatal(err)
	}
	asked, err := cache.NewAsked(compiled, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range [][3]string{
		{"GET", "/1", "/1"}, // all is new: it counts for the first question
		{"GET", "/1", "/1"}, {"GET", "/2", "/2"}, {"GET", "/3", "/3"}, {"GET", "/3", "/3"},
		{"GET", "/4", "a"}, {"GET", "/5", "b"},
		{"PUT", "/1", "/1"}, {"PUT", "/6", "/1"}, {"DELETE", "/1", ""}, {"DELETE", "/1", ""},
	} {
		message := checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: of[0], Path: of[1], Host: of[2]})
		asked.Count(t.Context(), requestOf(t, message, time.Unix(epoch, 0)), authz.Conditions{})
	}
	var got []string
	for _, q := range asked.Questions() {
		if q.New > 0 {
			got = append(got, fmt.Sprintf("%d %d %d %s:%d %s", q.New, q.Asked, q.Answers, q.File, q.Row, q.Question))
		}
	}
	const http = "input.attributes.request.http."
	want := []string{
		"2 11 3 a.rego:4 " + http + "method == …, for which texts of the policy",
		"2 5 3 a.rego:6 the content of " + http + "path",
		"2 2 0 a.rego:10 the clock itself, or the whole input: of no use to another request",
		"1 7 2 a.rego:5 lower(" + http + "path) == upper(" + http + "host)",
	}
	if diff := cmp.Diff(want, got); diff != "" || asked.Requests != 11 || asked.Known != 4 {
		t.Errorf("%d requests, %d known; questions, -want +got:\n%s", asked.Requests, asked.Known, diff)
	}
}
