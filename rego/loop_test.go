package rego_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	oparego "github.com/open-policy-agent/opa/v1/rego"

	"understudy/rego"
)

// loops makes random policies that try the entries of collections, and data for them,
// in which fields are missing and of every type.
type loops struct {
	*rand.Rand
	// entries are the variables that stand for an entry, in the body that is written.
	entries []string
	// callable are the conditions by other rules.
	callable []string
	names    int
}

func (l *loops) pick(options ...string) string { return options[l.IntN(len(options))] }

func (l *loops) name(prefix string) string {
	l.names++
	return fmt.Sprintf("%s%d", prefix, l.names)
}

// data has a list, an object of entries, lists by key, a list of texts, and a mirror
// that a policy puts in the place of the list.
func (l *loops) data() map[string]any {
	list := func(n int) (out []any) {
		for range n {
			out = append(out, l.entry())
		}
		return out
	}
	byName, groups := map[string]any{}, map[string]any{}
	for i := range 8 + l.IntN(24) {
		byName[fmt.Sprint("n", i)] = l.entry()
	}
	for _, name := range []string{"a", "b", "c"} {
		groups[name] = list(8 + l.IntN(24))
	}
	mixed := map[string]any{}
	for i := range 20 {
		mixed[fmt.Sprint("n", i)] = l.entry()
	}
	texts := []any{1}
	for range 8 + l.IntN(24) {
		texts = append(texts, l.text())
	}
	return map[string]any{
		"list": list(8 + l.IntN(24)), "named": byName, "groups": groups, "texts": texts, "mirror": list(20),
		"mixed": map[string]any{"base": mixed}, "one": "a",
	}
}

func (l *loops) text() string { return l.pick("a", "a", "b", "ab", "abc", "") }

func (l *loops) entry() any {
	if l.IntN(12) == 0 {
		return l.value()
	}
	return l.fields(8)
}

// fields returns the fields of an entry or an input, without one in so many.
func (l *loops) fields(n int) map[string]any {
	out := map[string]any{}
	for _, field := range []string{"k", "m", "p", "g"} {
		if l.IntN(n) > 0 {
			out[field] = l.value()
		}
	}
	if l.IntN(4) > 0 {
		out["g"] = []any{l.text(), l.text()}
	}
	return out
}

// value is a text most of the time.
func (l *loops) value() any {
	if l.IntN(5) > 0 {
		return l.text()
	}
	return []any{1, 1.0, true, nil, []any{1, "a"}, map[string]any{"x": "a"}, []any{}, "1"}[l.IntN(8)]
}

func (l *loops) input() map[string]any { return l.fields(10) }

// module returns the text of a module whose rule is p/allow. Its helpers can fail for
// some arguments, which has to be so for the same requests with and without an index.
func (l *loops) module() string {
	var b strings.Builder
	b.WriteString("package p\n")
	b.WriteString("default allow := \"none\"\n")
	b.WriteString("kind(e) := e.k if e.m\nkind(e) := e.m if e.k\n") // a conflict where they differ
	b.WriteString("keys contains k if some k in input.g\nalso := input.m\n")
	fmt.Fprintf(&b, "found(k) if { %s }\n", l.body("k", 1))
	l.callable = append(l.callable, "found(%s)", "not found(%s)")
	fmt.Fprintf(&b, "names contains n if { %s; n := %s }\n", l.body("input.k", 1), l.pick("input.k", "1"))
	b.WriteString("places contains i if data.list[i].k == input.k\n")
	l.callable = append(l.callable, "%s in names", "count(names) > 0; %s != 1", "%s; places[[\"1\", 2, \"x\"][_]]")
	for range 1 + l.IntN(2) {
		value := l.pick("\"yes\"", "v")
		body := l.body("input.k", 1+l.IntN(2))
		if value == "v" {
			body += "; v := " + l.last() + l.pick("", ".k", ".m")
		}
		fmt.Fprintf(&b, "allow := %s if { %s } %s\n", value, body, l.pick("", "", "else := \"else\" if { "+l.body("input.m", 1)+" }"))
	}
	return b.String()
}

// body returns loops with conditions; k is a value.
func (l *loops) body(k string, loops int) string {
	l.entries = nil
	var parts []string
	for range loops {
		e := l.name("e")
		parts = append(parts, l.loop(e, k))
		l.entries = append(l.entries, e)
		for range 1 + l.IntN(2) {
			parts = append(parts, l.condition(k))
		}
	}
	if len(l.callable) > 0 && l.IntN(4) == 0 {
		parts = append(parts, fmt.Sprintf(l.pick(l.callable...), k))
	}
	return strings.Join(parts, "; ")
}

func (l *loops) last() string { return l.entries[len(l.entries)-1] }

// loop returns the expression that binds e to an entry.
func (l *loops) loop(e, k string) string {
	i := l.name("i")
	switch l.IntN(10) {
	case 0:
		return fmt.Sprintf("%s := data.list[_]", e)
	case 1:
		return fmt.Sprintf("some %s; data.list[%[1]s].k == %s; %s := data.list[%[1]s]", i, k, e)
	case 2:
		return fmt.Sprintf("some %s, %s in data.named", i, e)
	case 3:
		return fmt.Sprintf("some %s in data.groups[%s]", e, k)
	case 4:
		return fmt.Sprintf("some %s in data.groups[_]", e)
	case 5:
		return fmt.Sprintf("some %s in data.texts", e)
	case 6:
		return fmt.Sprintf("some %s in data.mixed.base", e)
	case 7:
		return fmt.Sprintf("%s = data.list[%s]; %[2]s != 3", e, i)
	}
	return fmt.Sprintf("some %s in data.list", e)
}

// condition returns an expression about the last entry.
func (l *loops) condition(k string) string {
	e := l.last()
	field := e + l.pick(".k", ".k", ".m", ".p", "", ".g[0]", ".g.x")
	key := l.pick(k, "input.k", "input.m", `"a"`, "also", "data.one", "input.g[_]", l.entries[0]+".k", l.entries[0]+".m")
	switch l.IntN(12) {
	case 0, 1:
		return fmt.Sprintf("startswith(%s, %s.p)", key, e)
	case 2:
		return fmt.Sprintf("%s in %s.g", key, e)
	case 3:
		return fmt.Sprintf("%s in input.g", field)
	case 4:
		return fmt.Sprintf("%s in keys", field)
	case 5:
		return fmt.Sprintf("kind(%s) == %s", e, key)
	case 6:
		return fmt.Sprintf("not %s == %s", field, k)
	case 7:
		v := l.name("v")
		return fmt.Sprintf("%s := %s; %[1]s == %s", v, key, field)
	case 8:
		return fmt.Sprintf("startswith(%s, %s.p) == %s", key, e, l.pick("true", "false"))
	case 9:
		return fmt.Sprintf("count([1 | some x in data.list; x.k == %s]) %s 1", field, l.pick(">", "=="))
	case 10:
		return fmt.Sprintf("%s == %s with %s", field, key, l.pick("input.k as \"a\"", "data.one as \"b\"", "input as {\"m\": \"a\"}"))
	}
	return fmt.Sprintf("%s == %s", field, key)
}

// asker is a policy over loops, by ours and by nothing but OPA.
type asker struct {
	*testing.T
	text string
	ours *rego.Program
	// opa :: path → how OPA is asked.
	opa map[string]oparego.PreparedEvalQuery
	// narrowed counts the loops that have an index.
	narrowed int
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
		T: t, text: modules["p.rego"], ours: ours, narrowed: rego.Indexed(ours),
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

// check asks about an input: by ours, by ours without an index, and by OPA.
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
			"Eval": a.ours.Eval, "EvalPlain": a.ours.EvalPlain,
		} {
			if got := outcome(eval(context.Background(), path, document, now)); got != want {
				a.Fatalf("%s by %s is %s, by OPA %s\ninput %v\n%s", path, name, got, want, in, a.text)
			}
		}
	}
}

// listed is data of which a list has the entries, and then others without any field.
func listed(entries ...any) map[string]any {
	for range 20 {
		entries = append(entries, map[string]any{"other": true})
	}
	return map[string]any{
		"list": entries, "mirror": []any{}, "byName": map[string]any{"a": entries}, "one": "a", "few": entries[:3],
		"mixed": map[string]any{"base": map[string]any{}},
	}
}

// TestLoops shows which loops have an index, and what could go wrong with one.
func TestLoops(t *testing.T) {
	ab := func(extra ...any) map[string]any {
		return listed(append([]any{map[string]any{"k": "a", "g": []any{"a"}}, map[string]any{"k": "b"}, map[string]any{"k": "a", "p": "x"}}, extra...)...)
	}
	// An entry for which kind has two values: an error, unless another allows before.
	fails := map[string]any{"k": "a", "p": "ab", "m": 1, "n": 2}
	for name, tt := range map[string]struct {
		module   string
		data     map[string]any
		input    map[string]any
		narrowed int
		want     string
	}{
		"a field": {
			`allow if { some e in data.list; e.k == input.k }`, ab(), map[string]any{"k": "b"}, 1, "true",
		},
		"another field": {
			`allow if { some e in data.list; e.k == input.k }`, ab(), map[string]any{"k": "c"}, 1, "undefined",
		},
		"the entry itself": {
			`allow if { some e in data.byName[input.k][_].g; e == input.k }`, ab(), map[string]any{"k": "a"}, 0, "true",
		},
		"by the name of the data": {
			`allow if { some i; data.list[i].k == input.k; data.list[i].p == "x" }`, ab(), map[string]any{"k": "a"}, 1, "true",
		},
		"in data by a name": {
			`allow if { some e in data.byName[input.k]; e.k == input.k }`, ab(), map[string]any{"k": "a"}, 1, "true",
		},
		"by a function's argument": {
			"allow if f(input.k)\nf(x) if { some e in data.list; e.k == x }", ab(), map[string]any{"k": "b"}, 1, "true",
		},
		"by what was found before": {
			`allow if { some a in data.list; a.p == "x"; some b in data.list; b.k == a.k; b.g }`, ab(), nil, 2, "true",
		},
		"all of a list": {
			`allow if { some e in data.list; e.k }`, ab(), nil, 0, "true",
		},
		"few entries": {
			`allow if { some e in data.few; e.k == input.k }`, ab(), map[string]any{"k": "b"}, 0, "true",
		},
		"a field that no entry has": {
			`allow if { some e in data.list; e.same == input.k }`, listed(map[string]any{"k": 1}), map[string]any{"k": "x"}, 1, "undefined",
		},
		"within a comprehension": {
			`allow if count([e | some e in data.list; e.k == input.k]) == 2`, ab(), map[string]any{"k": "a"}, 0, "true",
		},
		"a condition that must not hold": {
			`allow if { some e in data.list; not e.k == input.k; e.k }`, ab(), map[string]any{"k": "a"}, 0, "true",
		},
		"a key that is no text": {
			`allow if { some e in data.list; e.k == input.k }`, ab(map[string]any{"k": 1}), map[string]any{"k": 1}, 1, "true",
		},
		"a key that is equal in another way": {
			`allow if { some e in data.list; e.k == input.k }`, ab(map[string]any{"k": 1}), map[string]any{"k": 1.0}, 1, "true",
		},
		"keys of which one is no text": {
			`allow if { some e in data.list; e.k in input.g }`, ab(map[string]any{"k": 1}), map[string]any{"g": []any{"z", 1}}, 1, "true",
		},
		"a list that is not all text": {
			`allow if { some e in data.list; input.k in e.g }`, ab(map[string]any{"g": []any{1, "b"}}), map[string]any{"k": "b"}, 1, "true",
		},
		"values of an object": {
			`allow if { some e in data.list; input.k in e.g }`, ab(map[string]any{"g": map[string]any{"x": "b"}}), map[string]any{"k": "b"}, 1, "true",
		},
		"prefixes, in the order of the list": {
			"allow if { some e in data.list; startswith(input.k, e.p); kind(e) == 1 }\nkind(e) := e.m\nkind(e) := e.n",
			listed(fails, map[string]any{"p": "a", "m": 1}), map[string]any{"k": "abc"}, 1, "error",
		},
		"a prefix that allows before an error": {
			"allow if { some e in data.list; startswith(input.k, e.p); kind(e) == 1 }\nkind(e) := e.m\nkind(e) := e.n",
			listed(map[string]any{"p": "a", "m": 1}, fails), map[string]any{"k": "abc"}, 1, "true",
		},
		"an error before the condition": {
			"allow if { some e in data.list; kind(e) == 1; e.k == input.k }\nkind(e) := e.m\nkind(e) := e.n",
			listed(fails), map[string]any{"k": "z"}, 0, "error",
		},
		"an error after the condition": {
			"allow if { some e in data.list; e.k == input.k; kind(e) == 1 }\nkind(e) := e.m\nkind(e) := e.n",
			listed(fails), map[string]any{"k": "z"}, 1, "undefined",
		},
		"rules within the data": {
			`allow if { some e in data.mixed.base; e.k == input.k }`, mixed(), map[string]any{"k": "a", "m": "b"}, 0, "true",
		},
		"rules within the data that fail": {
			`allow if { some e in data.mixed.base; e.k == input.k }`, mixed(), map[string]any{"k": "a", "m": "a"}, 0, "error",
		},
		"rules beside the entries": {
			"allow if { some i; data.base[i].k == input.k }", below(), map[string]any{"k": "3"}, 0, "true",
		},
		"fields that are written alike": {
			"allow if { some e in data.list; e[0] == input.k }\nallow if { some e in data.list; e[\"0\"] == input.k }",
			listed(map[string]any{"0": "q"}), map[string]any{"k": "q"}, 2, "true",
		},
		"a position as a name": {
			`allow if { some i; data.list[i]["0"] == input.k }`, listed([]any{"q"}), map[string]any{"k": "q"}, 0, "true",
		},
		"a name as a position": {
			`allow if { some i; data.list[i][0] == input.k }`, listed(map[string]any{"0": "q"}), map[string]any{"k": "q"}, 0, "true",
		},
		"a position in an entry": {
			`allow if { some e in data.list; e[0] == input.k }`, listed([]any{"q"}, map[string]any{"0": "r"}), map[string]any{"k": "q"}, 1, "true",
		},
		"another built-in that fails": {
			"allow if v with lower as bad\nbad(x) := \"1\" if is_string(x)\nbad(x) := \"2\" if is_string(x)\n" +
				"v if { some e in data.list; lower(e.m) == \"1\"; e.k == input.k }",
			listed(map[string]any{"k": "a", "m": "b"}), map[string]any{"k": "none"}, 0, "error",
		},
		"more keys than are looked up": {
			`allow if { some e in data.list; e.k in data.keys }`, withKeys(ab()), nil, 1, "true",
		},
		"more entries than are put in order": {
			`allow if { some e in data.many; input.k in e.g }`, withMany(), map[string]any{"k": "a"}, 1, "true",
		},
		"a key that the caller has bound": {
			"allow if names[input.i]\nnames contains i if data.list[i].k == input.k", ab(), map[string]any{"k": "b", "i": "1"}, 0, "true",
		},
		"a name that the caller has bound": {
			"allow if names[input.i].x\nnames[i].x := 1 if data.list[i].k == input.k", ab(), map[string]any{"k": "b", "i": "1"}, 0, "true",
		},
		"a variable of a pattern": {
			`allow if { [i, j] := [input.i, 1]; data.list[i].k == input.k }`, ab(), map[string]any{"k": "b", "i": "1"}, 0, "true",
		},
		"a variable of a comprehension": {
			`allow if { some i; [i] = [x | x := input.i]; data.list[i].k == input.k }`, ab(), map[string]any{"k": "b", "i": "1"}, 0, "true",
		},
		"other data for a while": {
			"allow if v with data.list as [{\"k\": input.k}]\nv if { some e in data.list; e.k == input.k }", ab(), map[string]any{"k": "new"}, 1, "true",
		},
		"a part of the data for a while": {
			"allow if v with data.byName.a as [{\"k\": input.k}]\nv if { some e in data.byName[_]; e.k == input.k; some e2 in data.byName.a; e2.k == input.k }",
			ab(), map[string]any{"k": "new"}, 1, "true",
		},
		"other input for a while": {
			"allow if v with input.k as \"b\"\nv if { some e in data.list; e.k == input.k }", ab(), map[string]any{"k": "z"}, 1, "true",
		},
		"another built-in for a while": {
			"allow if v with startswith as ends\nends(a, b) := endswith(a, b)\nv if { some e in data.list; startswith(input.k, e.p) }",
			listed(map[string]any{"p": "c"}), map[string]any{"k": "abc"}, 0, "true",
		},
		"other input for a condition": {
			`allow if { some e in data.list; e.k == input.k with input.k as "b" }`, ab(), map[string]any{"k": "z"}, 0, "true",
		},
	} {
		t.Run(name, func(t *testing.T) {
			modules := map[string]string{"p.rego": "package p\n" + tt.module, "m.rego": shadowing, "b.rego": beside}
			a := newAsker(t, modules, tt.data)
			if a == nil {
				t.Fatal("it does not compile")
			}
			a.check(tt.input)
			if got := plainly(a.opa["p/allow"], tt.input, time.Unix(epoch, 0)); got != tt.want || a.narrowed != tt.narrowed {
				t.Errorf("it is %s with %d indexes, want %s with %d", got, a.narrowed, tt.want, tt.narrowed)
			}
		})
	}
}

// beside is a rule in a collection of the data that fails, and that a loop over the
// names of the entries does not ask.
const beside = `package base.late.other
deep := 1 if input.k
deep := 2 if input.k
`

// below is data for beside.
func below() map[string]any {
	out := mixed()
	out["base"] = out["mixed"].(map[string]any)["base"]
	return out
}

func withKeys(data map[string]any) map[string]any {
	var keys []any
	for i := range 30 {
		keys = append(keys, fmt.Sprint(i))
	}
	data["keys"] = append(keys, "b")
	return data
}

// withMany has entries of which every other is for a, in lists of which some are not
// of text alone.
func withMany() map[string]any {
	data := listed(1, 2, 3)
	var many []any
	for i := range 400 {
		many = append(many, map[string]any{"g": [][]any{{"a"}, {fmt.Sprint(i)}, {"c", 1}, {fmt.Sprint(i)}}[i%4]})
	}
	data["many"] = many
	return data
}

// mixed is data to which shadowing adds.
func mixed() map[string]any {
	base := map[string]any{}
	for i := range 20 {
		base[fmt.Sprint("n", i)] = map[string]any{"k": fmt.Sprint(i)}
	}
	out := listed()
	out["mixed"] = map[string]any{"base": base}
	return out
}

// TestLoopsAreNarrowedSoundly is the proof by example that an index of the data never
// changes a value, nor whether there is an error: for random policies, data and inputs.
func TestLoopsAreNarrowedSoundly(t *testing.T) {
	compiled, narrowed := 0, 0
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
		narrowed += a.narrowed
		for range 6 {
			in := l.input()
			a.check(in)
			outcomes[plainly(a.opa["p/allow"], in, time.Unix(epoch, 0))]++
		}
	}
	t.Logf("%d policies, %d loops with an index, %v", compiled, narrowed, outcomes)
	if compiled < policies*4/5 || narrowed < policies/2 || len(outcomes) < 5 || outcomes["error"] < policies/3 || outcomes["yes"] < policies/5 {
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
