package rego_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// forms makes random policies of the forms that the abstract syntax of Rego has: each kind of
// rule, head, expression and term, in each other. What matters is that nothing is left out.
// Some variables are declared outside of the closures that set them, in each anew.
type forms struct {
	*rand.Rand
	// v2 says that the module imports rego.v2.
	v2 bool
	// rules are the terms by which rules before this one are used: they must not be recursive.
	// A %s is an argument.
	rules []string
	// functions are the names of those that are functions.
	functions []string
	// names counts the variables.
	names int
}

// vars are the variables of a place in a body.
type vars struct {
	// bound have a value, and open are declared and have none yet.
	bound, open []string
}

// formModule returns the text of a module whose rule is p/allow.
func formModule(seed uint64) string {
	f := &forms{Rand: rand.New(rand.NewPCG(seed, 77))}
	f.v2 = f.IntN(2) == 0
	var b strings.Builder
	b.WriteString("package p\n")
	if f.v2 {
		b.WriteString("import rego.v2\n")
	}
	for i := range f.IntN(4) {
		b.WriteString(f.rule(fmt.Sprintf("r%d", i)))
	}
	if f.IntN(2) == 0 {
		fmt.Fprintf(&b, "default allow := %s\n", f.literal())
	}
	for range 1 + f.IntN(2) {
		b.WriteString(f.complete("allow"))
	}
	return b.String()
}

// rule returns the rules of one name, and notes how they are used.
func (f *forms) rule(name string) (text string) {
	var uses []string
	switch f.IntN(11) {
	case 0, 1:
		text = f.complete(name)
		if f.IntN(3) == 0 {
			text += f.complete(name)
		}
		if f.IntN(3) == 0 {
			text += fmt.Sprintf("default %s := %s\n", name, f.literal())
		}
		uses = []string{"%[1]s", "%[1]s", "%[1]s[_]", "%[1]s.a"}
	case 2:
		for range 1 + f.IntN(2) {
			body, v := f.body(f.IntN(2), vars{})
			text += fmt.Sprintf("%s contains %s if { %s }\n", name, f.head(v), body)
		}
		uses = []string{"%[1]s", "%[1]s[%%s]", "%[1]s[_]"}
	case 3:
		for range 1 + f.IntN(2) {
			body, v := f.body(f.IntN(2), vars{})
			text += fmt.Sprintf("%s[%s] := %s if { %s }\n", name, f.value(v), f.head(v), body)
		}
		uses = []string{"%[1]s", "%[1]s[%%s]", "%[1]s[_]", "%[1]s[%%s].a"}
	case 4:
		body, v := f.body(f.IntN(2), vars{})
		text = fmt.Sprintf("%s.a := %s if { %s }\n%[1]s.b := %s\n", name, f.head(v), body, f.constant())
		uses = []string{"%[1]s", "%[1]s.a", "%[1]s.b", "%[1]s[%%s]", "%[1]s[_]"}
	case 5:
		for range 1 + f.IntN(2) {
			body, v := f.body(f.IntN(2), vars{})
			text += fmt.Sprintf("%s[%s]%s if { %s }\n", name, f.value(v), f.pick(
				"["+f.value(v)+"] := "+f.head(v), " contains "+f.head(v), ".a := "+f.head(v), " := "+f.head(v),
			), body)
		}
		if f.IntN(3) == 0 {
			text += fmt.Sprintf("%s.a := %s\n", name, f.constant())
		}
		uses = []string{"%[1]s", "%[1]s[%%s]", "%[1]s[_]", "%[1]s[%%s][_]", "%[1]s[%%s].a", "%[1]s.a"}
	case 6:
		body, v := f.body(f.IntN(2), vars{})
		text = fmt.Sprintf("%s() := %s if { %s }%s\n", name, f.head(v), body, f.otherwise(vars{}))
		if f.IntN(3) == 0 {
			text += fmt.Sprintf("default %s() := %s\n", name, f.literal())
		}
		uses = []string{"%[1]s()", "%[1]s().a", "%[1]s"}
	case 7:
		text = f.complete(name) + fmt.Sprintf("default %s := %s\n", name, f.comprehension(0, vars{}))
		uses = []string{"%[1]s", "%[1]s[_]"}
	default:
		for range 1 + f.IntN(2) {
			arg, v := f.parameter()
			body, after := f.body(f.IntN(2), v)
			text += fmt.Sprintf("%s(%s) := %s if { %s }%s\n", name, arg, f.head(after), body, f.otherwise(v))
		}
		if f.IntN(3) == 0 {
			text += fmt.Sprintf("default %s(_) := %s\n", name, f.literal())
		}
		uses = []string{"%[1]s(%%s)"}
		defer func() { f.functions = append(f.functions, name) }()
	}
	for _, use := range uses {
		f.rules = append(f.rules, fmt.Sprintf(use, name))
	}
	return text
}

// parameter returns the pattern of a function's argument.
func (f *forms) parameter() (string, vars) {
	x, y := f.name(), f.name()
	switch f.IntN(7) {
	case 0:
		return fmt.Sprintf("[%s, %s]", x, y), vars{bound: []string{x, y}}
	case 1:
		return fmt.Sprintf(`{"a": %s}`, x), vars{bound: []string{x}}
	case 2:
		return f.literal(), vars{}
	case 3:
		return "_", vars{}
	}
	return x, vars{bound: []string{x}}
}

func (f *forms) complete(name string) string {
	body, v := f.body(1+f.IntN(2), vars{})
	return fmt.Sprintf("%s := %s if { %s }%s\n", name, f.head(v), body, f.otherwise(vars{}))
}

func (f *forms) otherwise(v vars) string {
	if f.IntN(4) > 0 {
		return ""
	}
	body, after := f.body(1, v)
	return fmt.Sprintf(" else := %s if { %s }", f.head(after), body)
}

func (f *forms) pick(options ...string) string { return options[f.IntN(len(options))] }

func (f *forms) name() string {
	f.names++
	return fmt.Sprintf("v%d", f.names)
}

// head is the value of a rule: mostly constant, as they are.
func (f *forms) head(v vars) string {
	return f.pick("true", "true", f.constant(), f.value(v), f.term(v, 1))
}

// literals are constants in the text of a policy, and constants are those in its data, whose types
// the compiler does not know: it refuses most calls of what has the wrong type.
var literals = []string{
	"1", "1.0", "1e0", "0", "-0", "2", `"a"`, `"b"`, `"1"`, `"/a/b"`, "true", "false", "null", "[1, 2]", `["a"]`, `{"a": 1}`,
	`{"a", 1}`, "set()", "{}", "[]", "100", "1e2",
}

func (f *forms) literal() string { return f.pick(literals...) }

func (f *forms) constant() string {
	if f.IntN(3) == 0 {
		return f.literal()
	}
	return fmt.Sprintf("data.c[%d]", f.IntN(14))
}

// body returns expressions, and the variables that are bound behind them.
func (f *forms) body(depth int, v vars) (string, vars) {
	v = vars{slices.Clone(v.bound), slices.Clone(v.open)}
	var out []string
	if f.IntN(3) == 0 {
		// Declared here, and set where it may be: in this body, or in closures, each time anew.
		name := f.name()
		out, v.open = append(out, "some "+name), append(v.open, name)
		if depth > 0 {
			out = append(out, f.closure(depth-1, v), f.closure(depth-1, v))
		}
	}
	for range 1 + f.IntN(5)/2 {
		out = append(out, f.expression(depth, &v))
	}
	for _, name := range v.open {
		if !strings.Contains(strings.Join(out, ";"), name+" =") {
			out = append(out, fmt.Sprintf("count([1 | %s = %s; %[1]s != 99]) >= 0", name, f.term(v, 0)))
		}
	}
	return strings.Join(out, "; "), v
}

// closure returns an expression with a body in it that sets an open variable.
func (f *forms) closure(depth int, v vars) string {
	inner := vars{slices.Clone(v.bound), nil}
	var out []string
	for _, name := range v.open {
		out = append(out, fmt.Sprintf("%s = %s", name, f.term(inner, 1)))
		inner.bound = append(inner.bound, name)
	}
	rest, _ := f.body(depth, inner)
	return f.within(strings.Join(append(out, rest), "; "), v, depth)
}

// within returns an expression around a body.
func (f *forms) within(body string, v vars, depth int) string {
	switch f.IntN(6) {
	case 0:
		return fmt.Sprintf("count([1 | %s]) %s %d", body, f.pick("==", ">", ">="), f.IntN(2))
	case 1:
		return fmt.Sprintf("every %s in %s { %[1]s != 99; %s }", f.name(), f.collection(v), body)
	case 2:
		if f.v2 {
			return fmt.Sprintf("not { %s }", body)
		}
	case 3, 4:
		if f.v2 {
			other, _ := f.body(max(depth-1, 0), vars{bound: v.bound})
			return fmt.Sprintf("{ %s } %s { %s }", body, f.pick("or", "and"), other)
		}
	}
	return fmt.Sprintf("count({%s | %s}) %s %d", f.value(v), body, f.pick("==", ">", ">=", "<"), f.IntN(3))
}

// expression returns one of any kind, and notes what it binds.
func (f *forms) expression(depth int, v *vars) string {
	if depth > 0 {
		switch f.IntN(10) {
		case 0:
			k, x := f.name(), f.name()
			inner := vars{bound: append(slices.Clone(v.bound), k, x)}
			body, _ := f.body(depth-1, inner)
			return fmt.Sprintf("every %s, %s in %s { %s; %[1]s != 99; %[2]s != 99 }", k, x, f.collection(*v), body)
		case 1:
			return f.closure(depth-1, vars{bound: v.bound})
		case 2, 3:
			return "not " + f.groundTest(*v)
		case 4, 5:
			name := f.name()
			text := fmt.Sprintf("%s %s %s", name, f.pick(":=", "="), f.comprehension(depth-1, *v))
			v.bound = append(v.bound, name)
			return text
		}
	}
	if f.IntN(2) == 0 {
		return f.test(*v, depth)
	}
	return f.binding(v, depth)
}

// binding returns an expression that binds variables.
func (f *forms) binding(v *vars, depth int) string {
	x, y := f.name(), f.name()
	before := *v
	v.bound = append(slices.Clone(v.bound), x)
	switch f.IntN(10) {
	case 0:
		return fmt.Sprintf("%s = %s", x, f.term(before, depth))
	case 1:
		return fmt.Sprintf("%s = %s", f.term(before, depth), x)
	case 2:
		return fmt.Sprintf("%s := %s", x, f.term(before, depth))
	case 3:
		return fmt.Sprintf("some %s in %s", x, f.term(before, depth))
	case 4:
		v.bound = append(v.bound, y)
		return fmt.Sprintf("some %s, %s in %s", x, y, f.collection(before))
	case 5:
		v.bound = append(v.bound, y)
		return fmt.Sprintf("%s = %s", f.pick("["+x+", "+y+"]", `{"a": `+x+`, "b": `+y+"}", "["+x+", ["+y+"]]", `[{"a": `+x+"}, "+y+"]"), f.pick(f.term(before, depth), f.collection(before)))
	case 6:
		v.bound = append(v.bound, y)
		return fmt.Sprintf("walk(%s, [%s, %s])", f.pick("input", "input.o", "data.d"), x, y)
	case 7:
		return fmt.Sprintf("%s = %s[%s]", f.pick("_", f.value(before)), f.collection(before), x)
	case 8:
		v.bound = append(v.bound, y)
		return fmt.Sprintf("%s[%s][%s] = %s", f.collection(before), x, y, f.pick("_", f.value(before), "["+f.value(before)+", _]"))
	}
	return fmt.Sprintf("some [%s, _] in %s", x, f.collection(before))
}

// test returns an expression that binds nothing.
func (f *forms) test(v vars, depth int) string {
	switch f.IntN(11) {
	case 10:
		// An error that ends the evaluation for some inputs: a body that has it may not be left out.
		return "count(numbers.range(1, input.big)) >= 0"
	case 0, 1, 2:
		return fmt.Sprintf("%s %s %s", f.term(v, depth), f.pick("==", "!=", "<", "<=", ">", ">=", "=", "=="), f.term(v, depth))
	case 3, 4:
		return fmt.Sprintf("%s in %s", f.term(v, 1), f.pick(f.collection(v), f.term(v, depth),
			fmt.Sprintf(f.pick("{%s, %s}", "[%s, %s]", `{"a": %s, "b": %s}`), f.literal(), f.value(v)), "{"+f.value(v)+"}"))
	case 5:
		return fmt.Sprintf("%s(%s, %s)", f.pick("startswith", "endswith", "contains"), f.term(v, 1), f.pick(`"a"`, `"/a"`, f.term(v, 1)))
	case 6:
		return fmt.Sprintf("%s[%s]", f.collection(v), f.value(v))
	case 7:
		if len(f.functions) > 0 && f.IntN(2) == 0 {
			return fmt.Sprintf("%s(%s, %s)", f.pick(f.functions...), f.value(v), f.pick(f.value(v), "["+f.value(v)+", _]"))
		}
		return fmt.Sprintf("[%s, _] = %s", f.value(v), f.collection(v))
	case 8:
		return fmt.Sprintf("%s = %s", f.pick("["+f.value(v)+", _]", `{"a": `+f.value(v)+`, "b": _}`, "_", "{"+f.value(v)+"}"), f.term(v, depth))
	}
	return f.term(v, depth)
}

// groundTest returns an expression without wildcards, as a negation needs it.
func (f *forms) groundTest(v vars) string {
	for {
		if text := f.test(v, 1); !strings.Contains(text, "_") && !strings.HasPrefix(text, "{") {
			return text
		}
	}
}

// collection is what mostly has entries.
func (f *forms) collection(v vars) string {
	return f.pick("input.l", "input.o", "input", "data.d.list", "data.d.o", "data.d", "input.l[_]", "data.d.rules", "data.d.rules[_]",
		f.pick(`{"a", "b", 1}`, "[1, 2, 3]", "input.l", "data.c"), f.use(v, "input.l"), f.use(v, "input.o"))
}

// value is a variable or what is like one.
func (f *forms) value(v vars) string {
	if len(v.bound) > 0 && f.IntN(4) > 0 {
		return v.bound[f.IntN(len(v.bound))]
	}
	return f.pick("input.a", "input.s", "input.n", "input.o.a", f.constant())
}

// use returns the value of a rule, or another one.
func (f *forms) use(v vars, other string) string {
	if len(f.rules) == 0 {
		return other
	}
	rule := f.pick(f.rules...)
	if strings.Contains(rule, "%s") {
		return fmt.Sprintf(rule, f.value(v))
	}
	return rule
}

// term returns a term of any kind.
func (f *forms) term(v vars, depth int) string {
	if depth > 0 {
		switch f.IntN(16) {
		case 0:
			return fmt.Sprintf("[%s, %s]", f.term(v, depth-1), f.term(v, depth-1))
		case 1:
			return fmt.Sprintf(`{"a": %s, %s: 1}`, f.term(v, depth-1), f.pick(`"b"`, f.value(v)))
		case 2:
			return fmt.Sprintf("{%s, %s}", f.term(v, depth-1), f.term(v, depth-1))
		case 3:
			return f.comprehension(depth-1, v)
		case 4:
			return fmt.Sprintf("%s(%s)", f.pick("count", "lower", "to_number", "is_number", "json.marshal", "sum", "type_name", "array.reverse", "sort", "max"), f.term(v, depth-1))
		case 5:
			return fmt.Sprintf("%s(%s, %s)", f.pick("split", "array.concat", "trim_prefix", "concat", "object.union"), f.term(v, depth-1), f.term(v, depth-1))
		case 6, 7, 8, 9:
			return f.use(v, "input.a")
		case 10:
			return fmt.Sprintf("%s[%s]", f.collection(v), f.value(v))
		case 11:
			return fmt.Sprintf("%s %s %s", f.value(v), f.pick("+", "-", "*", "&", "|"), f.value(v))
		case 12:
			return fmt.Sprintf("$`{%s}-%s`", f.value(v), f.pick("a", "{input.s}"))
		}
	}
	switch f.IntN(9) {
	case 0, 1, 2:
		return f.value(v)
	case 3:
		if f.IntN(2) == 0 {
			return f.constant()
		}
	case 4:
		return f.pick("data.d.list[0]", `data.d.list["0"]`, "data.d.o[1]", `data.d.o["1"]`, "data.d.o.a", "data.d.rules[_].p", "data.missing",
			"data.d.list[1.0]", "data.d.list[-0]", "data.d.list["+f.value(v)+"]", "data.d["+f.value(v)+"][0]")
	}
	return f.pick("input.a", "input.s", "input.l", "input.o", "input.o.a", "input.l[0]", "input.o["+f.value(v)+"]", "input.l["+f.value(v)+"]",
		"input.l[_]", "input.n", "input.missing", "input", "input.o.b[0]", "input.o[_][_]")
}

// comprehension returns one of each kind.
func (f *forms) comprehension(depth int, v vars) string {
	body, inner := f.body(max(depth, 0), vars{bound: v.bound})
	switch f.IntN(3) {
	case 0:
		return fmt.Sprintf("[%s | %s]", f.head(inner), body)
	case 1:
		return fmt.Sprintf("{%s | %s}", f.head(inner), body)
	}
	return fmt.Sprintf("{%s: %s | %s}", f.value(inner), f.head(inner), body)
}

// formData is the data of these policies.
var formData = map[string]any{"c": []any{
	json.Number("1"), json.Number("1.0"), json.Number("0"), json.Number("2"), "a", "b", "1", "/a/b", true, false, nil, []any{json.Number("1"), "a"},
	map[string]any{"a": json.Number("1"), "b": "a"}, []any{},
}, "d": map[string]any{
	"list": []any{"a", "b", json.Number("1")}, "o": map[string]any{"a": json.Number("1"), "1": "one", "b": []any{json.Number("2")}},
	"rules": []any{map[string]any{"p": "/a", "m": "a"}, map[string]any{"p": "/b", "m": "b"}, map[string]any{"p": "", "m": json.Number("1.0")}},
}}

// formInput returns an input for these policies.
func formInput(r *rand.Rand) map[string]any {
	out := map[string]any{"big": json.Number("1")}
	if r.IntN(4) == 0 {
		out["big"] = json.Number("100000000")
	}
	for _, name := range []string{"a", "s", "l", "o", "n"} {
		if r.IntN(8) > 0 {
			out[name] = formValue(r, name, 2)
		}
	}
	return out
}

func formValue(r *rand.Rand, name string, depth int) any {
	leaves := []any{
		json.Number("1"), json.Number("1.0"), json.Number("0"), json.Number("-0"), json.Number("2"), json.Number("1e0"),
		"a", "b", "/a/b", "1", true, false, nil, "", "x",
	}
	leaf := leaves[r.IntN(len(leaves))]
	if depth == 0 || name == "s" && r.IntN(4) > 0 {
		return leaf
	}
	switch kind := r.IntN(6); {
	case name == "l" && kind > 0, kind == 1:
		list := make([]any, r.IntN(4))
		for i := range list {
			list[i] = formValue(r, "", depth-1)
		}
		return list
	case name == "o" && kind > 0, kind == 2:
		object := map[string]any{}
		for _, k := range []string{"a", "b", "1"} {
			if r.IntN(3) > 0 {
				object[k] = formValue(r, "", depth-1)
			}
		}
		return object
	}
	return leaf
}
