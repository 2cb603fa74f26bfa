package rego_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/rego"
)

// known :: kind of rule → a policy in which rule a depends on the request and is asked first. All that the
// others know of the request they have from what is known of a then.
var known = map[string]string{
	"a complete rule": `a if input.x == 1
		b if a
		c if not a`,
	"a complete rule with a value": `a := "k" if input.x == 1
		b := a
		c if a == "k"`,
	"a rule with a default": `default a := false
		a if input.x == 1
		b := a
		c if a == false`,
	"a set": `a contains "k" if input.x == 1
		b if count(a) == 1
		c := a`,
	"an element of a set": `a contains "k" if input.x == 1
		a contains "l" if input.x == 2
		out contains ["a"] if a["k"]
		out contains ["a"] if a["l"]
		b if a["k"]
		c if not a["l"]`,
	"an object": `a["k"] := input.x
		b := a
		c if a == {"k": 1}`,
	"an entry of an object": `a["k"] := 1 if input.x == 1
		out contains ["a"] if a["k"]
		b if a["k"] == 1
		c if not a["k"]`,
	"a function": `f(n) := "k" if input.x == n
		out contains ["a"] if f(1)
		out contains ["a"] if f(2)
		a := 1
		b if f(1)
		c if not f(2)`,
	"a function with a default": `default f(_) := false
		f(n) if input.x == n
		out contains ["a"] if f(1)
		a := 1
		b := f(1)
		c if not f(1)`,
	"the clock": `a := time.now_ns() / 1000000000
		b if a > 1700000000
		c if not a > 1700000000`,
	"what was computed": `a := input.x + 1
		b := a * 2
		c if b == 4`,
	"a comprehension": `a := [v | v := input.x]
		b := a[0]
		c if b == 1`,
	"the whole input": `a := count(input)
		b if a == 1
		c := input`,
	"whether there is something": `a if input.x
		b if a
		c if not input.x`,
	"a loop": `a contains v if some v in input.l
		b if "k" in a
		c := [v | some v in input.l]`,
}

// orders are those in which the rules are asked for.
var orders = []string{"abc", "bca", "cab"}

// TestRulesOfTheRequestAreNotKept: a rule whose value depends on the request, or on the clock, is not
// taken for one that depends on the program alone: by whichever way it knows the request, and whichever
// request comes first.
func TestRulesOfTheRequestAreNotKept(t *testing.T) {
	requests := []map[string]any{{"x": 1}, {"x": 2}, {}, {"x": 1, "l": []any{"k"}}, {"x": false, "l": []any{"l"}}, {"l": []any{}}}
	for name, rules := range known {
		t.Run(name, func(t *testing.T) {
			for _, order := range orders {
				for first := range requests {
					holdsInTurn(t, compileKnown(t, rules, order), slices.Concat(requests[first:], requests[:first]))
				}
			}
		})
	}
}

// compileKnown compiles rules, which are asked for in an order.
func compileKnown(t *testing.T, rules, order string) *rego.Program {
	t.Helper()
	module := "package p\n" + rules
	for _, rule := range strings.Split(order, "") {
		module += fmt.Sprintf("\nout contains [%q, %s]", rule, rule)
	}
	p, err := rego.Compile(context.Background(), rego.Source{Modules: map[string]string{"a.rego": module}, Paths: []string{"p/out"}})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Evaluates("p/out") {
		t.Fatal("it is not evaluated by ours")
	}
	return p
}

// holdsInTurn holds a program against OPA, for one request after the other, twice.
func holdsInTurn(t *testing.T, p *rego.Program, requests []map[string]any) {
	t.Helper()
	for i := range 2 * len(requests) {
		request := requests[i%len(requests)]
		in, err := rego.NewInput(request)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(epoch, int64(i)%3-1)
		got, gotErr := p.Eval(context.Background(), "p/out", in, now)
		want, wantErr := p.Interpret(context.Background(), "p/out", in, now)
		if (gotErr == nil) != (wantErr == nil) || !cmp.Equal(got.Value, want.Value) {
			t.Fatalf("of %v after %v: %v (%v), OPA says %v (%v)", request, requests[0], got.Value, gotErr, want.Value, wantErr)
		}
	}
}
