package rego_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// modules makes random policies over the inputs of randomInput. They read it in every
// way that policies do: by path, by index, through local names, rules that name a
// path, functions, comprehensions and built-ins; and they compare with the clock.
type modules struct {
	*rand.Rand
	// callable are the names that a condition may use: rules must not be recursive.
	callable []string
}

// randomModule returns the text of a module whose rule is p/allow.
func randomModule(seed uint64) string {
	return (&modules{Rand: rand.New(rand.NewPCG(seed, 5))}).module()
}

func (m *modules) module() string {
	var b strings.Builder
	b.WriteString("package p\n")
	if m.IntN(2) == 0 {
		b.WriteString("default allow := false\n")
	}
	fmt.Fprintf(&b, "base := %s\n", m.path())
	fmt.Fprintf(&b, "claims := c if { %s[_, c, _] := io.jwt.decode(input.token)%s }\n",
		m.pick("", m.observation("input.s")+"; "), m.pick("", "; "+m.observation("c.sub")))
	fmt.Fprintf(&b, "now := %s\n", m.clock(2))
	fmt.Fprintf(&b, "later := now + %d\n", m.IntN(5))
	fmt.Fprintf(&b, "check(x) if { %s }\n", m.body(1, "x"))
	m.callable = append(m.callable, "check(%s)", "not check(%s)")
	fmt.Fprintf(&b, "pick(x) := y if { y := %s; %s } else := 7 if { %s }\n", m.value("x"), m.body(1, "x"), m.condition(0, "x"))
	m.callable = append(m.callable, "pick(%s) == 7", "pick(%s) == input.a.b")
	fmt.Fprintf(&b, "items contains v if { v := %s; %s }\n", m.value("1"), m.body(1, "1"))
	m.callable = append(m.callable, "%s in items")
	for range 1 + m.IntN(2) {
		fmt.Fprintf(&b, "allow if { %s }\n", m.body(2, m.value("1")))
	}
	return b.String()
}

func (m *modules) pick(options ...string) string { return options[m.IntN(len(options))] }

func (m *modules) body(depth int, x string) string {
	conditions := make([]string, 1+m.IntN(3))
	for i := range conditions {
		conditions[i] = m.condition(depth, x)
	}
	return strings.Join(conditions, "; ")
}

// condition returns an expression in which x is a value.
func (m *modules) condition(depth int, x string) string {
	value := m.value(x)
	if depth > 0 {
		switch m.IntN(12) {
		case 0, 1, 6, 7:
			if len(m.callable) > 0 {
				return fmt.Sprintf(m.pick(m.callable...), value)
			}
		case 2:
			return fmt.Sprintf("count([1 | %s]) == %d", m.body(depth-1, x), m.IntN(2))
		case 3:
			v := m.name()
			return fmt.Sprintf("every %s in input.l { %[1]s != 99; %s }", v, m.body(depth-1, v))
		case 4:
			v := m.name()
			return fmt.Sprintf("some %s in input.l; %[1]s != 99; %s", v, m.condition(depth-1, v))
		case 5:
			v := m.name()
			return fmt.Sprintf("%s := %s; object.get(%[1]s, \"b\", 0) != 99; %s", v, m.path(), m.condition(depth-1, v+m.pick("", ".b", ".c")))
		}
	}
	switch m.IntN(20) {
	case 10, 11:
		return m.pick("", "", "not ") + m.observation(m.text())
	case 12:
		v, w := m.name(), m.name()
		pattern := m.pick(`[%s, %s]`, `["x", %s, %s]`, `[%s, %s, _]`, `[_, %s, "y", %s]`, `[%s, [%s, _]]`)
		return fmt.Sprintf(pattern+" %s input.p; %s; %s", v, w, m.pick(":=", "="), m.seen(v, x), m.seen(w, x))
	case 13:
		return fmt.Sprintf("count(%s) %s %d", m.pick("input.p", "input.s", "input.l", "input.a"), m.pick("==", "!=", ">"), m.IntN(5))
	case 14:
		v := m.name()
		from := m.pick(`io.jwt.decode(input.token)`, `io.jwt.decode(substring(input.bearer, 2, -1))`, `io.jwt.decode_verify(input.token, {"secret": data.d.secret})`)
		place := m.pick("[_, %s, _]", "[_, %s, _]", "[_, _, %s]")
		return fmt.Sprintf(place+" := %s; %s", v, from, m.seen(v+m.pick("", ".exp", ".sub", ".sub", "[0]"), x))
	case 15:
		return m.observation("input.s") + " with input.s as " + m.pick(`"/x"`, "input.a.c")
	case 0, 1, 2, 16, 17, 18, 19:
		return fmt.Sprintf("%s %s %s", value, m.pick("<", "<=", ">", ">=", "!="), m.clock(2))
	case 3:
		return fmt.Sprintf("%s %s %s", m.clock(2), m.pick("<", "<=", ">", ">="), value)
	case 4:
		return `io.jwt.decode_verify(input.token, {"secret": "s"})[0]`
	case 5:
		return fmt.Sprintf("b%d := %s < %s; b%[1]d == %s", m.IntN(1000), value, m.clock(1), m.pick("true", "false"))
	case 6:
		return fmt.Sprintf("not %s > %s", value, m.pick("now", "later", value))
	}
	return fmt.Sprintf("%s %s %s", value, m.pick("==", "!=", "<", ">="), m.value(x))
}

// seen returns a condition on a value that is mostly an observation, and often none at all.
func (m *modules) seen(value, x string) string {
	switch m.IntN(6) {
	case 0, 1:
		return fmt.Sprintf("%s %s %s", value, m.pick("<", ">", ">=", "!="), m.clock(2))
	case 2, 3:
		return m.observation(value)
	case 4:
		return fmt.Sprintf("%s != %s", value, m.value(x))
	}
	return "true"
}

// observation returns a condition that finds out little about a text.
func (m *modules) observation(value string) string {
	word := m.pick(`"/x"`, `"/x/y"`, `"x"`, `"y"`, `"/"`, "3", "data.d.two", "data.d.words[_]", "data.d.rules[_].prefix", "input.a.c")
	form := m.pick(
		"startswith(%s, %s)", "startswith(%s, %s)", "endswith(%s, %s)", "contains(%s, %s)", "%s == %s", "%s != %s", "%s < %s", "lower(%s) == %s",
		"%s in {%s, 1}", "%s in data.d.words; 1 != %s", "%s in {%s, input.a.c}", "glob.match(\"/x/*\", [\"/\"], %s); 1 != %s",
		"regex.match(\"^/?x\", %s); 1 != %s", "split(%s, \"/\")[1] == %s", "substring(%s, 0, 2) == %s", "count(%s) != %s",
		"b := startswith(%s, %s); b == false", "some w in [\"/x\", \"/y\", %[2]s]; startswith(%[1]s, w)", "not startswith(%s, %s)",
		"every w in [\"/x\", %[2]s] { not endswith(%[1]s, w) }", "count([1 | startswith(%s, %s)]) == 0", "t := trim_prefix(%s, \"/\"); startswith(t, %s)",
	)
	b := m.name()
	return strings.NewReplacer("b :=", b+" :=", "b ==", b+" ==").Replace(fmt.Sprintf(form, value, word))
}

// text returns a path at which there mostly is a text.
func (m *modules) text() string {
	return m.pick("input.s", "input.s", "input.p[0]", "input.p[2]", "input.a.c", "claims.sub", "claims.sub", "input.o.a.b", "input.p[1]")
}

func (m *modules) name() string { return fmt.Sprintf("v%d", m.IntN(1_000_000)) }

func (m *modules) path() string {
	return m.pick("input.a", "input.a.b", "input.a.c", "input.l[0]", "input.o.a.b", `input["a"]`, "input.t", "input.missing", "input.s", "input.p[1]", "claims.exp", "claims.sub")
}

func (m *modules) value(x string) string {
	switch m.IntN(9) {
	case 0:
		return fmt.Sprint(m.IntN(4))
	case 1:
		return fmt.Sprintf("object.get(%s, %s, %d)", m.pick("input.a", "input.o", "input", "base"), m.pick(`"b"`, `"c"`, `["a", "b"]`), m.IntN(3))
	case 2:
		return "data.d." + m.pick("one", "two", "map[input.a.c]")
	case 3:
		return m.pick("base", "base.b", "base.c")
	case 4:
		return x
	case 5:
		return "input.t"
	}
	return m.path()
}

// clock returns a value that depends on the clock, mostly in seconds.
func (m *modules) clock(depth int) string {
	seconds := "time.now_ns() / 1000000000"
	if depth == 0 {
		return seconds
	}
	switch m.IntN(8) {
	case 0:
		return fmt.Sprintf("%s + %d", m.clock(depth-1), m.IntN(7))
	case 1:
		return fmt.Sprintf("(%s - %d) + 0.5", m.clock(depth-1), m.IntN(7))
	case 2:
		return fmt.Sprintf("3400000000 - (%s)", m.clock(depth-1))
	case 3:
		return fmt.Sprintf("(%s * 2) / 2", m.clock(depth-1))
	case 4:
		return fmt.Sprintf("round(%s)", m.clock(depth-1))
	}
	return seconds
}
