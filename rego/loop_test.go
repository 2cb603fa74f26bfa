package rego_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

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

// loopCase is a module with a loop, and the value that it has.
type loopCase struct {
	module string
	data   map[string]any
	input  map[string]any
	want   string
}

// entriesAnd is data with three entries, and some more.
func entriesAnd(extra ...any) map[string]any {
	return listed(append([]any{map[string]any{"k": "a", "g": []any{"a"}}, map[string]any{"k": "b"}, map[string]any{"k": "a", "p": "x"}}, extra...)...)
}

// failingEntry is one for which kind has two values: an error, unless another allows before.
var failingEntry = map[string]any{"k": "a", "p": "ab", "m": 1, "n": 2}

// TestLoops shows what could go wrong with a loop in which conditions are looked up in an index.
func TestLoops(t *testing.T) {
	for group, cases := range map[string]map[string]loopCase{
		"plain": plainLoops(), "other types": loopsOverOtherTypes(), "errors": loopsThatFail(),
		"rules": loopsOverRules(), "bounds": loopsBeyondTheBounds(), "with": loopsWithModifiers(),
	} {
		for name, c := range cases {
			t.Run(group+"/"+name, c.check)
		}
	}
}

func (c loopCase) check(t *testing.T) {
	modules := map[string]string{"p.rego": "package p\n" + c.module, "m.rego": shadowing, "b.rego": beside}
	a := newAsker(t, modules, c.data)
	if a == nil {
		t.Fatal("it does not compile")
	}
	a.check(c.input)
	if got := plainly(a.opa["p/allow"], c.input, time.Unix(epoch, 0)); got != c.want {
		t.Errorf("it is %s, want %s", got, c.want)
	}
}

// plainLoops: loops over entries that are texts or have them.
func plainLoops() map[string]loopCase {
	return map[string]loopCase{
		"a field": {
			`allow if { some e in data.list; e.k == input.k }`, entriesAnd(), map[string]any{"k": "b"}, "true",
		},
		"another field": {
			`allow if { some e in data.list; e.k == input.k }`, entriesAnd(), map[string]any{"k": "c"}, "undefined",
		},
		"the entry itself": {
			`allow if { some e in data.byName[input.k][_].g; e == input.k }`, entriesAnd(), map[string]any{"k": "a"}, "true",
		},
		"by the name of the data": {
			`allow if { some i; data.list[i].k == input.k; data.list[i].p == "x" }`, entriesAnd(), map[string]any{"k": "a"}, "true",
		},
		"in data by a name": {
			`allow if { some e in data.byName[input.k]; e.k == input.k }`, entriesAnd(), map[string]any{"k": "a"}, "true",
		},
		"by a function's argument": {
			"allow if f(input.k)\nf(x) if { some e in data.list; e.k == x }", entriesAnd(), map[string]any{"k": "b"}, "true",
		},
		"by a claim of a token": {
			`allow if { [_, claims, _] := io.jwt.decode(input.k); some e in data.list; e.k == claims.sub; startswith(claims.sub, e.k) }`,
			entriesAnd(), map[string]any{"k": tokenFor("b")}, "true",
		},
		"by what is open until then": {
			`allow if { y = [z, 1]; some e in data.list; e.k = z; e.p == "x"; y[0] == input.k }`, entriesAnd(), map[string]any{"k": "a"}, "true",
		},
		"by what was found before": {
			`allow if { some a in data.list; a.p == "x"; some b in data.list; b.k == a.k; b.g }`, entriesAnd(), nil, "true",
		},
		"all of a list": {
			`allow if { some e in data.list; e.k }`, entriesAnd(), nil, "true",
		},
		"few entries": {
			`allow if { some e in data.few; e.k == input.k }`, entriesAnd(), map[string]any{"k": "b"}, "true",
		},
		"a field that no entry has": {
			`allow if { some e in data.list; e.same == input.k }`, listed(map[string]any{"k": 1}), map[string]any{"k": "x"}, "undefined",
		},
		"within a comprehension": {
			`allow if count([e | some e in data.list; e.k == input.k]) == 2`, entriesAnd(), map[string]any{"k": "a"}, "true",
		},
		"a condition that must not hold": {
			`allow if { some e in data.list; not e.k == input.k; e.k }`, entriesAnd(), map[string]any{"k": "a"}, "true",
		},
	}
}

// loopsOverOtherTypes: keys and fields that are not text.
func loopsOverOtherTypes() map[string]loopCase {
	return map[string]loopCase{
		"a key that is no text": {
			`allow if { some e in data.list; e.k == input.k }`, entriesAnd(map[string]any{"k": 1}), map[string]any{"k": 1}, "true",
		},
		"a key that is equal in another way": {
			`allow if { some e in data.list; e.k == input.k }`, entriesAnd(map[string]any{"k": 1}), map[string]any{"k": 1.0}, "true",
		},
		"keys of which one is no text": {
			`allow if { some e in data.list; e.k in input.g }`, entriesAnd(map[string]any{"k": 1}), map[string]any{"g": []any{"z", 1}}, "true",
		},
		"a list that is not all text": {
			`allow if { some e in data.list; input.k in e.g }`, entriesAnd(map[string]any{"g": []any{1, "b"}}), map[string]any{"k": "b"}, "true",
		},
		"values of an object": {
			`allow if { some e in data.list; input.k in e.g }`, entriesAnd(map[string]any{"g": map[string]any{"x": "b"}}), map[string]any{"k": "b"}, "true",
		},
	}
}

// loopsThatFail: conditions and entries that fail with an error: the order has to stay.
func loopsThatFail() map[string]loopCase {
	return map[string]loopCase{
		"prefixes, in the order of the list": {
			"allow if { some e in data.list; startswith(input.k, e.p); kind(e) == 1 }\nkind(e) := e.m\nkind(e) := e.n",
			listed(failingEntry, map[string]any{"p": "a", "m": 1}), map[string]any{"k": "abc"}, "error",
		},
		"a prefix that allows before an error": {
			"allow if { some e in data.list; startswith(input.k, e.p); kind(e) == 1 }\nkind(e) := e.m\nkind(e) := e.n",
			listed(map[string]any{"p": "a", "m": 1}, failingEntry), map[string]any{"k": "abc"}, "true",
		},
		"an error before the condition": {
			"allow if { some e in data.list; kind(e) == 1; e.k == input.k }\nkind(e) := e.m\nkind(e) := e.n",
			listed(failingEntry), map[string]any{"k": "z"}, "error",
		},
		"a call that is too much work before the condition": {
			`allow if { some e in data.list; regex.match(e.p, input.k); e.k == input.m }`,
			listed(map[string]any{"k": "a", "p": "a{900}b"}), map[string]any{"k": strings.Repeat("a", 20_000), "m": "z"}, "error",
		},
		"an error after the condition": {
			"allow if { some e in data.list; e.k == input.k; kind(e) == 1 }\nkind(e) := e.m\nkind(e) := e.n",
			listed(failingEntry), map[string]any{"k": "z"}, "undefined",
		},
	}
}

// loopsOverRules: rules within the data, and names that look like positions.
func loopsOverRules() map[string]loopCase {
	return map[string]loopCase{
		"rules within the data": {
			`allow if { some e in data.mixed.base; e.k == input.k }`, mixed(), map[string]any{"k": "a", "m": "b"}, "true",
		},
		"rules within the data that fail": {
			`allow if { some e in data.mixed.base; e.k == input.k }`, mixed(), map[string]any{"k": "a", "m": "a"}, "error",
		},
		"rules beside the entries": {
			"allow if { some i; data.base[i].k == input.k }", below(), map[string]any{"k": "3"}, "true",
		},
		"fields that are written alike": {
			"allow if { some e in data.list; e[0] == input.k }\nallow if { some e in data.list; e[\"0\"] == input.k }",
			listed(map[string]any{"0": "q"}), map[string]any{"k": "q"}, "true",
		},
		"paths that are written alike": {
			"allow if { some e in data.list; e.a.b == input.k }\nallow if { some e in data.list; e[\"a.b\"] == input.k }",
			listed(map[string]any{"a.b": "q"}), map[string]any{"k": "q"}, "true",
		},
		"a position as a name": {
			`allow if { some i; data.list[i]["0"] == input.k }`, listed([]any{"q"}), map[string]any{"k": "q"}, "true",
		},
		"a name as a position": {
			`allow if { some i; data.list[i][0] == input.k }`, listed(map[string]any{"0": "q"}), map[string]any{"k": "q"}, "true",
		},
		"a position in an entry": {
			`allow if { some e in data.list; e[0] == input.k }`, listed([]any{"q"}, map[string]any{"0": "r"}), map[string]any{"k": "q"}, "true",
		},
		"another built-in that fails": {
			"allow if v with lower as bad\nbad(x) := \"1\" if is_string(x)\nbad(x) := \"2\" if is_string(x)\n" +
				"v if { some e in data.list; lower(e.m) == \"1\"; e.k == input.k }",
			listed(map[string]any{"k": "a", "m": "b"}), map[string]any{"k": "none"}, "error",
		},
	}
}

// loopsBeyondTheBounds: more than is looked up, and variables that are bound already.
func loopsBeyondTheBounds() map[string]loopCase {
	return map[string]loopCase{
		"many keys": {
			`allow if { some e in data.list; e.k in data.keys }`, withKeys(entriesAnd()), nil, "true",
		},
		"more entries than are put in order": {
			`allow if { some e in data.many; input.k in e.g }`, withMany(), map[string]any{"k": "a"}, "true",
		},
		"a key that the caller has bound": {
			"allow if names[input.i]\nnames contains i if data.list[i].k == input.k", entriesAnd(), map[string]any{"k": "b", "i": "1"}, "true",
		},
		"a name that the caller has bound": {
			"allow if names[input.i].x\nnames[i].x := 1 if data.list[i].k == input.k", entriesAnd(), map[string]any{"k": "b", "i": "1"}, "true",
		},
		"a variable of a pattern": {
			`allow if { [i, j] := [input.i, 1]; data.list[i].k == input.k }`, entriesAnd(), map[string]any{"k": "b", "i": "1"}, "true",
		},
		"a variable of a comprehension": {
			`allow if { some i; [i] = [x | x := input.i]; data.list[i].k == input.k }`, entriesAnd(), map[string]any{"k": "b", "i": "1"}, "true",
		},
	}
}

// loopsWithModifiers: what `with` replaces.
func loopsWithModifiers() map[string]loopCase {
	return map[string]loopCase{
		"other data for a while": {
			"allow if v with data.list as [{\"k\": input.k}]\nv if { some e in data.list; e.k == input.k }", entriesAnd(), map[string]any{"k": "new"}, "true",
		},
		"a part of the data for a while": {
			"allow if v with data.byName.a as [{\"k\": input.k}]\nv if { some e in data.byName[_]; e.k == input.k; some e2 in data.byName.a; e2.k == input.k }",
			entriesAnd(), map[string]any{"k": "new"}, "true",
		},
		"other input for a while": {
			"allow if v with input.k as \"b\"\nv if { some e in data.list; e.k == input.k }", entriesAnd(), map[string]any{"k": "z"}, "true",
		},
		"another built-in for a while": {
			"allow if v with startswith as ends\nends(a, b) := endswith(a, b)\nv if { some e in data.list; startswith(input.k, e.p) }",
			listed(map[string]any{"p": "c"}), map[string]any{"k": "abc"}, "true",
		},
		"other input for a condition": {
			`allow if { some e in data.list; e.k == input.k with input.k as "b" }`, entriesAnd(), map[string]any{"k": "z"}, "true",
		},
	}
}

// next to is a rule in a collection of the data that fails, and that a loop over the
// names of the entries does not ask.
const beside = `package base.late.other
deep := 1 if input.k
deep := 2 if input.k
`

// below is data for next to.
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

// tokenFor returns a token that nobody has signed.
func tokenFor(sub string) string {
	part := base64.RawURLEncoding.EncodeToString
	return part([]byte(`{"alg":"none"}`)) + "." + part([]byte(`{"sub":"`+sub+`"}`)) + "."
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
