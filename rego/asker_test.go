package rego_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	oparego "github.com/open-policy-agent/opa/v1/rego"

	"understudy/rego"
)

// asker is a policy over loops, by ours and by nothing but OPA.
type asker struct {
	*testing.T
	text string
	ours *rego.Program
	// opa :: path → how OPA is asked.
	opa map[string]oparego.PreparedEvalQuery
}

// newAsker returns nil if the policy does not compile.
func newAsker(t *testing.T, modules map[string]string, data map[string]any) *asker {
	t.Helper()
	modules["q.rego"] = "package q\nallow := v if v := data.p.allow with data.list as data.mirror"
	ours, err := rego.Compile(context.Background(), rego.Source{Modules: modules, Data: data, Paths: []string{"p/allow", "q/allow"}})
	if err != nil {
		return nil
	}
	return &asker{
		T: t, text: modules["p.rego"], ours: ours,
		opa: prepareOPA(t, modules, data, "p/allow", "q/allow"),
	}
}

func newRandomAsker(t *testing.T, l *loops) *asker {
	t.Helper()
	data := l.data()
	modules := map[string]string{"p.rego": l.module()}
	if l.IntN(2) == 0 {
		modules["m.rego"] = shadowing
	}
	return newAsker(t, modules, data)
}

// shadowing adds an entry to a collection of the data that depends on the input, or
// fails.
const shadowing = `package mixed.base
late := {"k": "a"} if input.k
late := {"k": "b"} if input.k == input.m
`

// check asks about an input: by the evaluator, by the interpreter in it, and by OPA.
func (a *asker) check(in map[string]any) {
	a.Helper()
	now := time.Unix(epoch, 0)
	document, err := rego.NewInput(in)
	if err != nil {
		a.Fatal(err)
	}
	for path, query := range a.opa {
		want := plainly(query, in, now)
		for name, eval := range map[string]func(context.Context, string, rego.Input, time.Time) (rego.Result, error){
			"Eval": a.ours.Eval, "Interpret": a.ours.Interpret,
		} {
			if got := outcome(eval(context.Background(), path, document, now)); got != want {
				a.Fatalf("%s by %s is %s, by OPA %s\ninput %v\n%s", path, name, got, want, in, a.text)
			}
		}
	}
}

// TestRandomLoops holds loops over the data against OPA, errors too: for random policies, data and
// inputs.
func TestRandomLoops(t *testing.T) {
	compiled := 0
	outcomes := map[string]int{}
	policies := 150
	if testing.Short() {
		policies = 40
	}
	for seed := range uint64(policies) {
		l := &loops{Rand: rand.New(rand.NewPCG(seed, 8))}
		a := newRandomAsker(t, l)
		if a == nil {
			continue
		}
		compiled++
		for range 6 {
			in := l.input()
			a.check(in)
			outcomes[plainly(a.opa["p/allow"], in, time.Unix(epoch, 0))]++
		}
	}
	t.Logf("%d policies, %v", compiled, outcomes)
	if compiled < policies*4/5 || len(outcomes) < 5 || outcomes["error"] < policies/3 || outcomes["yes"] < policies/5 {
		t.Error("the random policies show too little")
	}
}

// FuzzLoops looks for a policy for which it does.
func FuzzLoops(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, policy, input uint64) {
		if a := newRandomAsker(t, &loops{Rand: rand.New(rand.NewPCG(policy, 8))}); a != nil {
			a.check((&loops{Rand: rand.New(rand.NewPCG(input, 8))}).input())
		}
	})
}
