package rego_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"understudy/cmd/testkit"
	"understudy/rego"
)

// closures makes random policies that declare a variable in one body and set it in others: in
// closures of that body, which are comprehensions, every, not and the operands of or and and. OPA
// binds the variable in each anew, while all have one name for it.
type closures struct {
	*modules
	// numbers are rules that are numbers.
	numbers []string
}

// randomClosures returns the text of a module whose rule is p/allow, with import rego.v2.
func randomClosures(seed uint64) string {
	c := &closures{modules: &modules{Rand: rand.New(rand.NewPCG(seed, 11))}, numbers: []string{"0"}}
	var b strings.Builder
	b.WriteString("package p\nimport rego.v2\ndefault allow := false\nnow := time.now_ns() / 1000000000\n")
	fmt.Fprintf(&b, "helper := n if { some n; %s; n = %s }\n", c.closure("n", 1), c.pick("0", "5", "input.t"))
	c.numbers = []string{"0", "now", "now - 5", "helper"}
	for range 1 + c.IntN(2) {
		fmt.Fprintf(&b, "allow if { %s }", c.body(2))
		if c.IntN(5) == 0 {
			fmt.Fprintf(&b, " else := %s if { %s }", c.pick("true", "1"), c.body(1))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// body declares a variable, and sets it in two closures or more. Now and then it is set outside too, and
// is one value then.
func (c *closures) body(depth int) string {
	v := c.pick("v", "v", "w", "n")
	parts := []string{"some " + v, c.closure(v, depth), c.closure(v, depth)}
	switch c.IntN(8) {
	case 0:
		parts = append(parts, c.set(v), c.use(v))
	case 1:
		parts = slices.Insert(parts, 1, c.set(v))
	case 2, 3:
		parts = append(parts, c.closure(v, depth))
	case 4:
		parts = append(parts, c.observation("input.s"))
	}
	return strings.Join(parts, "; ")
}

// closure sets a variable in a closure, and uses it there.
func (c *closures) closure(v string, depth int) string {
	within := c.set(v) + "; " + c.use(v)
	if depth > 0 && c.IntN(6) == 0 {
		within = c.pick(c.closure(v, depth-1), c.body(depth-1), within+"; "+c.closure(v, depth-1))
	}
	form := c.pick(
		"count([1 | %[1]s]) %[2]s", "count([1 | %[1]s]) %[2]s", "count({1 | %[1]s}) %[2]s", `count({"k": 1 | %[1]s}) %[2]s`, "count([%[3]s | %[1]s]) %[2]s",
		"every q in [1] { %[1]s; q == 1 }", "every q in input.l { %[1]s; q != 99 }", "not { %[1]s }", "{ %[1]s } or { %[4]s }", "{ %[1]s } and { %[4]s }",
	)
	return fmt.Sprintf(form+"%[5]s", within, c.pick("== 0", "> 0"), v, c.set(v)+"; "+c.use(v), "")
}

// set binds a variable in the body in which it stands: n to a number, others to a text.
func (c *closures) set(v string) string {
	if v != "n" && c.IntN(16) == 0 {
		return fmt.Sprintf(c.pick("[%s, _] = input.p", "[_, %s] = input.p", `["x", %s] = input.p`), v)
	}
	return fmt.Sprintf(c.pick("%[1]s = %[2]s", "%[1]s = %[2]s", "%[2]s = %[1]s"), v, c.term(v))
}

// term is a value to which a variable is set, mostly one that is known.
func (c *closures) term(v string) string {
	known, any := c.pick(`"/x"`, `"/x/y"`, `"x"`, `"y"`, `"/"`, `"/X"`, "data.d.words[_]", "data.d.rules[_].prefix", "data.d.two"),
		c.pick("input.s", "input.a.c", "input.p[0]", "lower(input.s)", `split(input.s, "/")[1]`, "substring(input.s, 0, 2)")
	if v == "n" {
		known, any = c.pick("0", "1", "2", "5", fmt.Sprint(epoch+c.IntN(12)), "data.d.one"), c.pick("input.a.b", "input.t", "count(input.s)", c.pick(c.numbers...))
	}
	if c.IntN(8) == 0 {
		return any
	}
	return known
}

// use is a condition on a value, with a variable that has one. Mostly it finds out little about the value.
func (c *closures) use(v string) string {
	observing := c.pick(
		"startswith(%s, %s)", "startswith(%s, %s)", "not startswith(%s, %s)", "endswith(%s, %s)", "contains(%s, %s)", "%s == %s", "%s = %s", "%s != %s",
		"%[2]s == %[1]s", "%[1]s in [%[2]s, 7]", "split(%s, %s)[1] == \"x\"", "trim_prefix(%s, %s) == \"y\"", "regex.match(%[2]s, %[1]s)",
	)
	any := c.pick("startswith(%[2]s, %[1]s)", "%[2]s in [%[1]s, \"x\"]", "%[2]s < %[1]s", "startswith(%[2]s, \"/x\"); %[1]s != 1", "%[2]s in data.d.words; %[1]s != 1")
	if v == "n" {
		observing = c.pick(
			"substring(%s, 0, %s) == \"/x\"", "substring(%s, %s, 2) == \"/y\"", "count(%s) > %s", "input.t > %[2]s; %[1]s != 1",
			"input.a.b == %[2]s; %[1]s != 1", "%[2]s > input.a.b; %[1]s != 1", "input.t > now - %[2]s; %[1]s != 1", "now > %[2]s; %[1]s != 1",
		)
	}
	value := "input.s"
	if c.IntN(6) == 0 {
		value = c.pick("input.a.c", "input.p[0]")
	}
	if c.IntN(8) == 0 {
		observing = any
	}
	return fmt.Sprintf(observing, value, v)
}

// randomData is the data of the random policies.
var randomData = map[string]any{"d": map[string]any{
	"one": 1, "two": "x", "words": []any{"x", "/x", 3, "y"}, "rules": []any{map[string]any{"prefix": "/x/y"}, map[string]any{"prefix": "/"}},
}}

// TestClosuresAreSound holds such policies and their records against OPA.
func TestClosuresAreSound(t *testing.T) {
	policies, compiled, recorded := testkit.Cases(400), 0, 0
	for seed := range uint64(policies) {
		n, ok := closuresHold(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, randomClosures(seed))
		}
		if recorded += n; ok {
			compiled++
		}
	}
	t.Logf("%d of %d policies compile, %d evaluations with a record", compiled, policies, recorded)
	if compiled < policies/3 || recorded < 10*compiled {
		t.Errorf("the random policies show too little: %d of %d compile, %d evaluations with a record", compiled, policies, recorded)
	}
}

// closuresHold checks one policy, and returns how many evaluations had a record. It reports false if the
// policy does not compile.
func closuresHold(t *testing.T, seed uint64) (recorded int, compiles bool) {
	t.Helper()
	modules := map[string]string{"p.rego": randomClosures(seed)}
	ours, err := rego.Compile(context.Background(), rego.Source{Modules: modules, Data: randomData, Paths: []string{"p/allow"}})
	if err != nil {
		return 0, false // unsafe variables and the like
	}
	defer rego.Forget(ours)
	opa := prepareOPA(t, modules, randomData, "p/allow")["p/allow"]
	r := rand.New(rand.NewPCG(seed, 12))
	document := randomInput(r)
	for i := range 40 {
		document = maps.Clone(document)
		other := randomInput(r)
		for _, name := range []string{"s", "a", "t", "p", "l"}[r.IntN(5):][:1] {
			document[name] = other[name]
		}
		if (plainCase{t, ours, opa, i, document, time.Unix(epoch, r.Int64N(12e9))}).check() {
			recorded++
		}
	}
	return recorded, true
}

// FuzzClosures looks for a policy for which they are not.
func FuzzClosures(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		if closuresHold(t, seed); t.Failed() {
			t.Log(randomClosures(seed))
		}
	})
}
