package rego_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	oparego "github.com/open-policy-agent/opa/v1/rego"

	"understudy/cmd/testkit"
	"understudy/rego"
	"understudy/rego/evaluator"
)

// expense is what evaluations of one policy and one input take.
type expense struct{ ours, opa func() }

// expenseOf returns them; nil if OPA has to decide, or has an error.
func expenseOf(t *testing.T, ours *rego.Program, opa oparego.PreparedEvalQuery, document map[string]any) *expense {
	t.Helper()
	in, err := rego.NewInput(document)
	if err != nil {
		return nil
	}
	ctx, now, value := t.Context(), time.Unix(1_700_000_000, 0), ast.MustInterfaceToValue(document)
	evaluate := func() error {
		asks := ours.Ask(ctx, rego.RequestOf(in), now, true)
		defer asks.End()
		_, err := asks.Eval("p/allow")
		return err
	}
	interpret := func() error {
		_, err := opa.Eval(ctx, oparego.EvalParsedInput(value), oparego.EvalTime(now))
		return err
	}
	if err := evaluate(); err != nil {
		if !errors.Is(err, evaluator.ErrUndecided) {
			t.Error(err)
		}
		return nil
	}
	if _, panicked := unlessItPanics(opa, document, now); panicked || interpret() != nil {
		return nil
	}
	return &expense{func() { _ = evaluate() }, func() { _ = interpret() }}
}

// allocated returns how many bytes a call allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	f()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// shortest returns how long the shortest of some calls takes.
func shortest(f func()) time.Duration {
	best := time.Hour
	for range 7 {
		begin := time.Now()
		f()
		best = min(best, time.Since(begin))
	}
	return best
}

// compare holds the evaluator against OPA: it allocates at most twice as much, and takes at most twice as long, if that
// is measured, but for what the smallest evaluation takes. Both vary: OPA goes through maps in a random order, and
// garbage collections empty pools. So what is too much is measured again.
func (e *expense) compare(t *testing.T, what string, timed bool) {
	t.Helper()
	const smallest = 4 << 10
	var ours, opa uint64
	if !within(func() bool {
		ours, opa = allocated(e.ours), allocated(e.opa)
		return ours <= 2*opa+smallest
	}) {
		t.Errorf("%s: the evaluator allocates %d bytes, OPA %d", what, ours, opa)
	}
	if !timed {
		return
	}
	var took, opaTook time.Duration
	if !within(func() bool {
		took, opaTook = shortest(e.ours), shortest(e.opa)
		return took <= 2*opaTook+20*time.Microsecond
	}) {
		t.Errorf("%s: the evaluator takes %v, OPA %v", what, took, opaTook)
	}
}

// within reports whether one of some measurements is good.
func within(measure func() bool) bool {
	for range 10 {
		if measure() {
			return true
		}
	}
	return false
}

// TestTheEvaluatorCostsNoMoreThanOPA for random policies of every form. Its time is compared in long runs alone.
func TestTheEvaluatorCostsNoMoreThanOPA(t *testing.T) {
	c, compared := &comparison{T: t}, 0
	for seed := range uint64(testkit.Cases(3000)) {
		module := formModule(seed)
		ours, opa, done := c.both(module)
		if ours == nil {
			continue
		}
		r := rand.New(rand.NewPCG(seed, 3))
		for range 3 {
			if e := expenseOf(t, ours, opa, formInput(r)); e != nil {
				e.compare(t, fmt.Sprintf("seed %d:\n%s", seed, module), *soak > 0)
				compared++
			}
		}
		done()
	}
	if compared < testkit.Cases(3000)/2 {
		t.Errorf("only %d evaluations are compared", compared)
	}
}

// expensive are rules that do much with large values of a request. In each, input.body is a large object, and
// input.list a long array.
var expensive = map[string]string{
	"a function with a large argument": "matches(rule, body) if body[rule] == \"x\"\nallow if { some rule in data.rules; matches(rule, input.body) }",
	"functions with large arguments": "a(body, n) if b(body, n)\nb(body, n) if c(body, n)\nc(body, n) if body.a == n\n" +
		"allow if { some n in numbers.range(1, 200); a(input.body, n) }\nallow if a(input.list, 1)",
	"a function with a long list":          "has(list, x) if x in list\nhas(list, x) if x in input.body\nallow if { some x in data.rules; has(input.list, x); has(input.body, x) }",
	"lists in lists":                       "allow if { some x in input.list; some y in input.list; x == concat(\"\", [y, \"!\"]) }",
	"a comprehension of a list":            "allow if count({x | some x in input.list; not startswith(x, \"n\")}) > 0",
	"comprehensions in a rule":             "allow if { some rule in data.rules; count([x | some x in input.list; x == rule]) > 0 }",
	"each entry of an object":              "allow if { some k, v in input.body; k == v }",
	"each entry, by many rules":            "allow if { some rule in data.rules; some k, v in input.body; k == rule; v == rule }",
	"a set of a list":                      "all := {x | some x in input.list}\nallow if { some rule in data.rules; rule in all }",
	"a partial rule":                       "names contains x if some x in input.list\nallow if { some rule in data.rules; rule in names }",
	"a partial object":                     "by[k] := v if some k, v in input.body\nallow if { some rule in data.rules; by[rule] == rule }",
	"an object of large parts":             "all := {\"a\": input.body, \"b\": input.list}\nallow if { some rule in data.rules; all.a[rule] == rule }",
	"texts of a list":                      "allow if concat(\",\", input.list) == \"x\"\nallow if { some rule in data.rules; contains(concat(\",\", input.list), rule) }",
	"a body that is parsed":                "claims := json.unmarshal(input.text)\nallow if { some rule in data.rules; claims[rule] == rule }",
	"parts of a path":                      "allow if { some rule in data.rules; split(rule, \"/\") == split(input.path, \"/\") }",
	"rules by an element":                  "allow if { some x in input.list; x == \"a\" }\n" + rulesOf(300, `allow if { input.text == "rule-%d"; input.path == "/%[1]d" }`),
	"rules by a pattern":                   rulesOf(300, `allow if { glob.match("/rule-%d/*", ["/"], input.path) }`),
	"a part of the data that is not there": "allow if { some x in input.list; some y in input.list; x == concat(\"\", [y, \"!\"]); data.none }",
	"walk":                                 "allow if { walk(input.body, [_, value]); value == \"x\" }",
}

// rulesOf returns n rules of a form with a number.
func rulesOf(n int, form string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, form+"\n", i)
	}
	return b.String()
}

// expensiveInput is the input of those.
func expensiveInput() map[string]any {
	body, list := map[string]any{}, []any{}
	var text []string
	for i := range 400 {
		body[fmt.Sprintf("name-%d", i)] = fmt.Sprintf("value %d", i)
		list = append(list, fmt.Sprintf("name-%d", i))
		text = append(text, fmt.Sprintf(`"name-%d": "value %d"`, i, i))
	}
	return map[string]any{"body": body, "list": list, "text": "{" + strings.Join(text, ", ") + "}", "path": "/a/b/c/d/e"}
}

// TestLargeValuesCostNoMoreThanWithOPA: what is done with values of some kilobytes.
func TestLargeValuesCostNoMoreThanWithOPA(t *testing.T) {
	rules := make([]any, 500)
	for i := range rules {
		rules[i] = fmt.Sprintf("rule/%d/x", i)
	}
	data, document := map[string]any{"rules": rules}, expensiveInput()
	for name, rule := range expensive {
		modules := map[string]string{"p.rego": "package p\n" + rule}
		ours, err := rego.Compile(context.Background(), rego.Source{Modules: modules, Data: data, Paths: []string{"p/allow"}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !ours.Evaluates("p/allow") {
			t.Errorf("%s is left to OPA", name)
			continue
		}
		e := expenseOf(t, ours, prepareOPA(t, modules, data, "p/allow")["p/allow"], document)
		if e == nil {
			t.Errorf("%s: OPA has to decide", name)
			continue
		}
		e.compare(t, name, *soak > 0)
	}
}
