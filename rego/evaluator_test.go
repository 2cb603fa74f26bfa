package rego_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	oparego "github.com/open-policy-agent/opa/v1/rego"
	"github.com/rogpeppe/go-internal/txtar"

	"understudy/cmd/testkit"
	"understudy/rego"
	"understudy/rego/evaluator"
)

// comparison counts what came of asking the evaluator and OPA the same.
type comparison struct {
	*testing.T
	policies, compiled, evaluated, defined, undecided, panicked int
}

// soak is how long TestTheEvaluatorIsRego goes on with policies that nobody has tried, next to its own.
var soak = flag.Duration("soak", 0, "how long random policies are compared with OPA's")

// TestTheEvaluatorIsRego asks the evaluator and OPA about random policies of every form.
func TestTheEvaluatorIsRego(t *testing.T) {
	c := &comparison{T: t}
	for seed := range uint64(testkit.Cases(6000)) {
		c.policy(seed, formModule(seed))
	}
	// What a long comparison has found something with, by the seed of its inputs.
	found, err := txtar.ParseFile(filepath.Join("testdata", "found.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range found.Files {
		seed, err := strconv.ParseUint(file.Name, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		c.policy(seed, string(file.Data))
	}
	for end := time.Now().Add(*soak); time.Now().Before(end); {
		seed := rand.Uint64()
		c.policy(seed, formModule(seed))
	}
	t.Logf("%d policies, %d compiled by OPA and ours, %d evaluations, %d with a value, %d that OPA alone decides, %d in which OPA panics",
		c.policies, c.compiled, c.evaluated, c.defined, c.undecided, c.panicked)
}

// TestCallsWithAnExpectedValue are calls of which OPA knows the value that they have to have: it goes
// on to an else where the value before it is another one, and never asks a body whose value is.
func TestCallsWithAnExpectedValue(t *testing.T) {
	c := &comparison{T: t}
	for _, module := range []string{
		"package p\nf(_) := 1 if input.big else := 2\nallow if f(input.big, 2)",
		"package p\nf(_) := data.c[0] if input.big else := 2\nallow if { some x in [2, 1]; f(input.big, x) }",
		"package p\nf(_) := [1, 2] if input.big else := [3, 4]\nallow if f(input.big, [3, x])",
		"package p\nf(_) := 1 if input.big else := 2\nallow if { f(input.big, 2); f(input.big) == 2 }",
		"package p\nf(_) := 1 if input.big else := true if { not count(numbers.range(1, input.big)) >= 0 }\nallow if { f(input.big, true) }",
		"package p\ndefault f(_) := 2\nf(_) := 1 if input.big\nallow if f(input.big, 2)",
		"package p\nf(_) := 1 if input.big\nf(_) := 2 if input.big\nallow if f(input.big, 2)",
	} {
		c.policy(1, module)
	}
	if c.evaluated == 0 {
		t.Error("not one was evaluated")
	}
}

// TestCollectionsAreGoneThroughInTheOrderOfTheirTerms: OPA goes through a set and the keys of an object as the policy has
// them, and not by their values.
func TestCollectionsAreGoneThroughInTheOrderOfTheirTerms(t *testing.T) {
	c := &comparison{T: t}
	for _, body := range []string{
		"[v | some v in {input.s, input.a}]",
		"[v | some v in {input.s, input.l[_]}]",
		"[v | v := {input.s, input.n, \"b\"}[_]]",
		"[v | x := {input.s, input.n}; y := x; some v in y]",
		"[v | some v in f(input)]",
		"[v | some v in g({input.s, input.n})]",
		"[k | some k, _ in {input.s: 1, \"b\": 2, input.n: 3}]",
		"[v | some v in [{input.s, input.n}, 1][0]]",
		"[v | some v in {\"k\": {input.s, input.n}}.k]",
		"[v | some x in [{input.s, input.n}]; some v in x]",
		"[v | [x, _] = [{input.s, input.n}, 1]; some v in x]",
		"[v | some v in union({{input.s, input.n}, {input.a}})]",
		"[v | some v in {data.c[4], data.c[0]}]",
		"[v | some v in sort({input.s, input.n})]",
		"[v | walk({input.s, input.n}, [_, v])]",
		"[v | some v in p]",
	} {
		const rules = "f(x) := {x.s, x.n}\ng(x) := [v | some v in x]\np := {input.s, input.n}\n"
		for seed := range uint64(20) {
			c.policy(seed, "package p\n"+rules+"allow := "+body)
		}
	}
	if c.compiled < 16*20 || c.defined < 1000 {
		t.Errorf("%d policies compiled, %d evaluations have a value", c.compiled, c.defined)
	}
}

// TestMembershipsAreDecidedAlike: OPA's index of rules takes some elements of a collection for all that a value
// may be. What it leaves out is left out, or left to OPA.
func TestMembershipsAreDecidedAlike(t *testing.T) {
	c := &comparison{T: t}
	elements := []string{
		"input.a", "input.s", "input.o", `"a"`, "null", "[1, 2]", "[input.s]", "[input.s, input.o]", "[[input.s], 1]", `{"a": 1}`, `{"a": input.s}`, "{input.s}", "{1}", "data.c[0]",
	}
	for i, one := range elements {
		for j, other := range elements {
			for _, form := range []string{"[%s, %s]", "{%s, %s}", `{"x": %s, "y": %s}`} {
				of := fmt.Sprintf(form, one, other)
				for _, value := range []string{"input.a", "input.s", "input.l"} {
					c.policy(uint64(i*len(elements)+j), "package p\nimport rego.v1\ndefault allow := 1\nallow := true if "+value+" in "+of)
				}
			}
		}
	}
	if c.compiled < 1000 || c.defined < 1000 {
		t.Errorf("%d policies compiled, %d evaluations have a value", c.compiled, c.defined)
	}
}

// both compiles a policy for the evaluator and for OPA. There is none if the evaluator does not know a form of it.
func (c *comparison) both(module string) (ours *rego.Program, opa oparego.PreparedEvalQuery, done func()) {
	modules := map[string]string{"p.rego": module}
	ours, err := rego.Compile(context.Background(), rego.Source{Modules: modules, Data: formData, Paths: []string{"p/allow"}})
	if err != nil {
		return nil, opa, func() {}
	}
	if _, unsupported, _ := rego.EvalCompiled(ours, "p/allow", rego.Input{}, time.Time{}); unsupported != nil {
		return nil, opa, func() {}
	}
	return ours, prepareOPA(c.T, modules, formData, "p/allow")["p/allow"], func() { rego.Forget(ours) }
}

// policy compares one policy for some inputs.
func (c *comparison) policy(seed uint64, module string) { c.policyOn(seed, module, formInput) }

// policyOn compares one policy for some inputs that a function makes.
func (c *comparison) policyOn(seed uint64, module string, input func(*rand.Rand) map[string]any) {
	c.policies++
	ours, opa, done := c.both(module)
	defer done()
	if ours == nil {
		return
	}
	c.compiled++
	r := rand.New(rand.NewPCG(seed, 3))
	for range 12 {
		if document := input(r); !c.same(ours, "p/allow", opa, document) {
			c.Fatalf("seed %d:\n%s\ninput %v", seed, module, document)
		}
	}
}

// same asks both about an input, and reports whether they say the same, with an error for
// an error: OPA may have another outcome only where ours leaves the evaluation to it.
func (c *comparison) same(ours *rego.Program, path string, opa oparego.PreparedEvalQuery, document map[string]any) bool {
	in, err := rego.NewInput(document)
	if err != nil {
		return true // a number that is too long
	}
	now := time.Unix(1_700_000_000, 0)
	result, _, err := rego.EvalCompiled(ours, path, in, now)
	c.evaluated++
	want, panicked := unlessItPanics(opa, document, now)
	switch got := outcome(result, err); {
	case panicked:
		c.panicked++
	case errors.Is(err, evaluator.ErrUndecided):
		if want != "error" {
			c.undecided++
		}
	case got != want:
		c.Errorf("%s: got %s (%v), want %s", path, got, err, want)
		return false
	case want != "undefined" && want != "false":
		c.defined++
	}
	return true
}

// unlessItPanics is plainly, but reports a panic: OPA 1.22 takes a composite key of an object for a
// variable where it binds it to a pattern, once there are more bindings than its array has.
func unlessItPanics(opa oparego.PreparedEvalQuery, document map[string]any, now time.Time) (want string, panicked bool) {
	defer func() { panicked = recover() != nil }()
	return plainly(opa, document, now), false
}

// TestCasesOfOPAAreEvaluatedAlike asks the policies of OPA's own test cases about inputs that
// differ from theirs at some places. The cases that have a form which the evaluator does not know
// are in a file by name, so that none comes to be one unseen.
func TestCasesOfOPAAreEvaluatedAlike(t *testing.T) {
	c, inputs := &comparison{T: t}, 12
	if testing.Short() {
		inputs = 3
	}
	var interpreted []string
	for i, one := range casesOfOPA(t) {
		path, ok := pathOfQuery(one.Query)
		if !ok {
			continue
		}
		modules, data := map[string]string{}, map[string]any{}
		for i, text := range one.Modules {
			modules[string(rune('a'+i))+".rego"] = text
		}
		if one.Data != nil {
			data = *one.Data
		}
		ours, err := rego.Compile(context.Background(), rego.Source{Modules: modules, Data: data, Paths: []string{path}})
		if err != nil {
			continue // such as for the network
		}
		c.policies++
		if unknown := ours.Interpreted(path); unknown != nil {
			interpreted = append(interpreted, one.Note+": "+unknown[0].What)
		}
		if !ours.Evaluates(path) {
			continue
		}
		c.compiled++
		document := map[string]any{}
		if one.Input != nil {
			if object, ok := (*one.Input).(map[string]any); ok {
				document = object
			}
		}
		r, opa, pool := rand.New(rand.NewPCG(9, uint64(i))), prepareOPA(t, modules, data, path)[path], constantsIn(t, one)
		for n := range inputs {
			if !c.same(ours, path, opa, changed(r, document, pool, n%3).(map[string]any)) {
				t.Errorf("%s: %v", one.Note, document)
				break
			}
		}
	}
	t.Logf("%d cases, %d of them by the evaluator, %d evaluations, %d with a value, %d that OPA alone decides, %d in which OPA panics",
		c.policies, c.compiled, c.evaluated, c.defined, c.undecided, c.panicked)
	slices.Sort(interpreted)
	want, err := os.ReadFile(filepath.Join("testdata", "interpreted.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(strings.TrimSpace(string(want)), "\n"), interpreted); diff != "" {
		t.Errorf("cases that OPA's interpreter evaluates, -want +got:\n%s", diff)
	}
}

// FuzzEvaluator asks the evaluator and OPA about random policies of every form.
func FuzzEvaluator(f *testing.F) {
	f.Add(uint64(0))
	f.Fuzz(func(t *testing.T, seed uint64) { (&comparison{T: t}).policy(seed, formModule(seed)) })
}

// found :: name → a policy of which evaluations were wrong, or contradicted each other, and inputs in
// their order.
var found = map[string]struct {
	module string
	inputs []string
}{
	"a function of a number in two forms": {
		`f(x) := json.marshal(x)
allow if { f(1) == "1"; f(input.n) != "1" }`, []string{`{"n": 1}`, `{"n": 1.0}`, `{"n": 1e0}`, `{"n": 2}`, `{"n": -0}`, `{}`},
	},
	"a function of a number in a list": {
		`f(x) := json.marshal([x])
allow if { f(1) == "[1]"; f(input.n) == "[1]" }`, []string{`{"n": 1}`, `{"n": 1.0}`, `{"n": [1]}`},
	},
	"a function of two numbers of the request": {
		`f(x) := json.marshal(x)
allow if f(input.m) == f(input.n)`, []string{`{"n": 1, "m": 1}`, `{"n": 1.0, "m": 1}`, `{"n": 1, "m": 1.0}`, `{"n": {"a": 1.0}, "m": {"a": 1}}`},
	},
	"a function of elements": {
		`f(x) := json.marshal(x)
allow if { some x in input.l; some y in input.l; f(x) != f(y) }`, []string{`{"l": [1, 1.0]}`, `{"l": [1, 1]}`, `{"l": [1, 2]}`, `{"l": []}`},
	},
	"a key in two forms": {
		`s[x] := json.marshal([x]) if { some x in [1, 2, input.n] }
allow if { s[1] == "[1]"; s[input.n] == "[1]" }`, []string{`{"n": 1}`, `{"n": 1.0}`, `{"n": 2.0}`},
	},
	"a constant that is worked out once, with a function that is called later": {
		`ok(x) if x == "admin"
base if ok("admin")
allow if { base; ok(input.sub) }`, []string{`{"sub": "a"}`, `{"sub": "b"}`, `{"sub": "admin"}`, `{"sub": "c"}`},
	},
	"a constant of a function that is called with a number in two forms": {
		`f(x) := [x]
r := f(1)
allow if { r; not input.n; input.m }
allow if { r; input.m; json.marshal(f(input.n)) == "[1]" }`, []string{`{"m": 1}`, `{"n": 1.0, "m": 2}`, `{"n": 1, "m": 1}`, `{"n": 1.0}`},
	},
	"constants in two forms": {
		`f(x) := [x]
r := f(1)
q := f(1.0)
allow if { input.m; json.marshal(r) == "[1]"; json.marshal(q) == "[1]" }
allow if { not input.m; json.marshal(q) == "[1.0]"; json.marshal(r) == "[1.0]" }`, []string{`{"n": 1, "m": 1}`, `{"n": 1}`, `{"n": 1.0}`},
	},
	"a rule by keys that is constant, whole and then by key": {
		`po[x] := x if { some x in [1.0, 2] }
allow if { input.m; count(po) == 2; json.marshal(po[1]) == "1.0" }
allow if { not input.m; json.marshal(po[1]) == "1" }`, []string{`{}`, `{"m": 1}`, `{}`},
	},
	"a constant of a rule by keys": {
		`po[x] := [x] if { some x in [1.0, 2] }
r := po[1]
allow if { input.m; count(po) == 2; json.marshal(r) == "[1.0]" }
allow if { not input.m; json.marshal(r) == "[1.0]" }`, []string{`{"m": 1}`, `{}`, `{"m": 1}`},
	},
	"a key that an object has lost": {
		`known := {k: 1 | some k in [1, true, 1]}
allow if { input.again; every v in {k: 1 | some k in [1, input.k, input.again]} { v == 1 } }
allow if { input.k == 3; walk(known, [path, 1]); count(path) == 1 }`, // in which OPA panics
		[]string{`{"k": true, "again": 1}`, `{"k": true, "again": true}`, `{"k": 2, "again": 1}`, `{"k": true}`, `{"k": 3}`},
	},
	"a function of the clock": {
		`f(x) := json.marshal(x)
allow if { f(input.n) != "a"; f(time.now_ns() / 512000000000) == "3320312.5" }`, []string{`{"n": 3320312.5}`, `{"n": 1}`},
	},
	"a rule that is constant, behind a function that was called": {
		`g(x) if x == "a"
s contains "u" if g("a")
allow if { input.m == "GET"; g("a"); x := s; x[input.x] }
allow if { input.m == "POST"; x := s; x[input.x] }`,
		[]string{`{"m": "GET", "x": "1"}`, `{"m": "POST", "x": "1"}`, `{"m": "GET", "x": "2"}`, `{"m": "GET", "x": "u"}`},
	},
}

// TestWhatWasFound stays found.
func TestWhatWasFound(t *testing.T) {
	for name, tt := range found {
		t.Run(name, func(t *testing.T) {
			modules := map[string]string{"a.rego": "package p\n" + tt.module}
			ours, err := rego.Compile(context.Background(), rego.Source{Modules: modules, Paths: []string{"p/allow"}})
			if err != nil {
				t.Fatal(err)
			}
			c, opa := &comparison{T: t}, prepareOPA(t, modules, map[string]any{}, "p/allow")["p/allow"]
			for range 2 {
				for _, text := range tt.inputs {
					decoder := json.NewDecoder(strings.NewReader(text))
					decoder.UseNumber()
					document := map[string]any{}
					if err := decoder.Decode(&document); err != nil {
						t.Fatal(err)
					}
					c.same(ours, "p/allow", opa, document)
				}
			}
		})
	}
}

// TestANoteIsNoReasonToInterpret: policies call trace while they are written, and keep it.
func TestANoteIsNoReasonToInterpret(t *testing.T) {
	modules := map[string]string{"a.rego": `package p
allow if { trace(input.note); input.n > 1 }
allow if { x := trace("fixed"); x == input.n }`}
	ours := compile(t, modules["a.rego"], nil, "p/allow")
	if !ours.Evaluates("p/allow") || !ours.Deterministic("p/allow") {
		t.Fatalf("evaluated by OPA because of %v", ours.Interpreted("p/allow"))
	}
	c, opa := &comparison{T: t}, prepareOPA(t, modules, map[string]any{}, "p/allow")["p/allow"]
	for _, document := range []map[string]any{
		{"note": "a", "n": 2}, {"note": "b", "n": 2}, {"note": "a", "n": 1}, {"note": 1, "n": 2}, {"n": 2}, {"n": true}, {},
	} {
		c.same(ours, "p/allow", opa, document)
	}
	if c.defined == 0 {
		t.Error("no input is allowed")
	}
}
