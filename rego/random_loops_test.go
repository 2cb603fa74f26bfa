package rego_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
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
