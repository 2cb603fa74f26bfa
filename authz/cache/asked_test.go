package cache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"understudy/authz"
	"understudy/authz/cache"
)

// TestAskedCountsWhatACacheMisses: of random policies, a request has a new answer if and only if a cache in front of
// the policy has no decision on it, and every place that asks is one that ExplainCost has.
func TestAskedCountsWhatACacheMisses(t *testing.T) {
	repeated, policies := int64(0), uint64(60)
	if testing.Short() {
		policies = 15
	}
	for seed := range policies {
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
		repeated += asked.Known
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
