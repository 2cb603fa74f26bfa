package rego_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"understudy/cmd/testkit"
)

// indexedTexts are those that the rules of TestRulesAreSelectedAsOPADoes compare with, and that their inputs have. The last
// one is too long for a question about all texts at once.
var indexedTexts = append(slices.Clone(similarTexts), strings.Repeat("/a", 2100))

// similarTexts are those of the rules of TestSimilarRulesAreSelectedAsOPADoes.
var similarTexts = []string{"a", "b", "/a", "/a/b", "/a/b/c", "/b", "c", "ab", `/a\/b`, `\a`}

// indexedNumbers are those of rules and inputs, some of them in a form of their own.
var indexedNumbers = []string{
	"0", "1", "2", "8080", "8443", "-1", "2.5", "1.0", "1e0", "8080.0", "80.8e2", "123456789012345678", "123456789012345679",
	"1234567890123456789", "1234567890123456789.5",
}

// commonExpressions are those of indexedExpressions of which most rules of a policy have the same one.
var commonExpressions = []string{
	`input.s == TEXT`, `TEXT == input.s`, `input.s in {TEXT, 1}`, `input.t == TEXT`, `input.o.k == TEXT`, `input["s"] == TEXT`,
	`startswith(input.s, TEXT)`, `endswith(input.s, TEXT)`, `startswith(input.t, TEXT)`, `startswith(input.s, "")`,
	`X := input.s; X == TEXT`, `X := input.s; startswith(X, TEXT)`, `X := input.o; X.k == TEXT`, `X := input.o; Y := X; Y.k == TEXT`,
	`input.s in {TEXT, TEXT}`, `input.s in [TEXT]`, `TEXT in input.l`, `input.l[_] == TEXT`, `some X in input.l; X == TEXT`,
	`glob.match(TEXT, ["/"], input.s)`, `glob.match("/b", ["/", "a"], input.s)`, `input.d.X == TEXT`,
	`input.k == NUMBER`, `NUMBER == input.k`, `X := input.k; X == NUMBER`, `input.k in {NUMBER, NUMBER}`, `input.k in [NUMBER, TEXT]`,
}

// indexedExpressions are forms of expressions about the values s, t and o of a request, of which OPA's index knows many.
// TEXT is one of indexedTexts, and X and Y are variables.
var indexedExpressions = slices.Concat(commonExpressions, []string{
	`glob.match("/*/b", ["/"], input.s)`,
	`strings.any_prefix_match(input.s, [TEXT, TEXT])`, `strings.any_suffix_match(input.s, [TEXT, TEXT])`,
	`input.s != TEXT`, `not input.s == TEXT`, `not startswith(input.s, TEXT)`, `input.n > 1`, `input.o`, `input.t`, `count(input.l) > 0`,
	`input.s == input.t`, `X := TEXT; input.s == X`, `input.o == {"k": TEXT}`, `input.o.k != TEXT`, `lower(input.s) == TEXT`,
	`{ input.s == TEXT } or { input.t == TEXT }`, `{ input.s == TEXT } and { input.t == TEXT }`, `{ input.s == TEXT } or { input.s == TEXT }`,
	`every X in input.l { X == TEXT }`, `input.o[TEXT]`, `input.o[input.s] == TEXT`,
	`["a", X] = input.l`, `[TEXT, TEXT] = input.l`, `input.l == [TEXT]`, `input.l[0] == TEXT`, `input.l[1] == TEXT`,
	`input.s in [TEXT, 1]`, `input.d.X == TEXT`, `input.s == NUMBER`, `NUMBER in input.l`, `input.l == [NUMBER, TEXT]`, `input.l[0] == NUMBER`,
	`input.k != NUMBER`, `not input.k == NUMBER`, `input.k > NUMBER`, `f(input.k) == NUMBER`, `input.k in {NUMBER, true}`,
	`glob.match("/a/*", ["/"], input.s)`, `glob.match("/a/*/c", ["/"], input.s)`, `glob.match("/**", ["/"], input.s)`,
	`conflict == 1`, `conflict == 1`, `count([1 | some X in input.l; X == conflict]) > 0`, `X := conflict; X == 1; input.o.a`, `f(input.s) == TEXT`,
})

// manyRules returns a policy of many rules of one name, of which each has some of the expressions. OPA has an error for
// a rule with a conflict, unless its index leaves the rule out.
func manyRules(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 11))
	text := func() string { return fmt.Sprintf("%q", indexedTexts[r.IntN(len(indexedTexts))]) }
	variables := 0
	fill := func(form string) string {
		variables++
		form = strings.NewReplacer("X", fmt.Sprint("x", variables), "Y", fmt.Sprint("y", variables), "TEXT", "TEXT").Replace(form)
		for strings.Contains(form, "TEXT") {
			form = strings.Replace(form, "TEXT", text(), 1)
		}
		for strings.Contains(form, "NUMBER") {
			form = strings.Replace(form, "NUMBER", indexedNumbers[r.IntN(len(indexedNumbers))], 1)
		}
		return form
	}
	// Most rules of a policy are of the same few forms, as people write them.
	common, most, failing := commonExpressions[r.IntN(len(commonExpressions))], r.IntN(4), r.IntN(20)
	kind := r.IntN(6)
	var b strings.Builder
	b.WriteString("package p\nimport rego.v2\nconflict := 1 if input.n\nconflict := 2 if input.n\nf(x) := x if x != \"b\"\n")
	for i := range 1 + r.IntN(26) {
		var body []string
		for range r.IntN(most + 1) {
			body = append(body, fill(indexedExpressions[r.IntN(len(indexedExpressions))]))
		}
		if len(body) == 0 || r.IntN(4) > 0 {
			body = append(body, fill(common))
		}
		if i == failing {
			body = append(body, "conflict == 1")
		}
		r.Shuffle(len(body), func(i, j int) { body[i], body[j] = body[j], body[i] })
		b.WriteString(ruleOfKind(kind, i, fill, body))
	}
	b.WriteString([]string{
		"allow := r\n", "allow := r\n", "allow := r\n", "allow := r[input.t]\n", "allow := g(input.s, input.t)\n", "allow if g(input.s, input.t) == 1\nallow if g(input.t, input.s) == 1\n",
	}[kind])
	return b.String()
}

// ruleOfKind returns a rule: of a complete rule with one or several values, of a set, an object, or a function.
func ruleOfKind(kind, i int, fill func(string) string, body []string) string {
	all := strings.Join(body, "; ")
	switch kind {
	case 0:
		return fmt.Sprintf("r if { %s }\n", all)
	case 1:
		if middle := len(body) / 2; i%3 == 0 && middle > 0 {
			return fmt.Sprintf("r := %d if { %s } else := 2 if { %s }\n", i%2, strings.Join(body[:middle], "; "), strings.Join(body[middle:], "; "))
		}
		return fmt.Sprintf("r := %d if { %s }\n", i%2, all)
	case 2:
		return fmt.Sprintf("r contains %d if { %s }\n", i, all)
	case 3:
		return fill(fmt.Sprintf("r[TEXT] := %d if { %s }\n", i%2, all))
	case 4:
		return fill(fmt.Sprintf("g(v, w) := %d if { v == TEXT; %s }\n", i%2, all))
	}
	return fill(fmt.Sprintf("g(TEXT, w) := 1 if { startswith(w, TEXT); %s }\n", all))
}

// indexedInput is an input of such policies.
func indexedInput(r *rand.Rand) map[string]any {
	number := func() any { return json.Number(indexedNumbers[r.IntN(len(indexedNumbers))]) }
	value := func() any {
		switch r.IntN(9) {
		case 3:
			return number()
		case 0:
			return []any{nil, true, 1, []any{"a"}, map[string]any{"k": "a"}}[r.IntN(5)]
		case 1:
			return indexedTexts[r.IntN(len(indexedTexts))] + indexedTexts[r.IntN(len(indexedTexts))]
		case 2:
			return 1
		}
		return indexedTexts[r.IntN(len(indexedTexts))]
	}
	out := map[string]any{}
	for _, name := range []string{"s", "t"} {
		if r.IntN(8) > 0 {
			out[name] = value()
		}
	}
	if r.IntN(4) > 0 {
		out["k"] = number()
	}
	if r.IntN(4) > 0 {
		out["o"] = map[string]any{"k": value(), "a": value()}
	}
	if r.IntN(4) > 0 {
		out["l"] = []any{value(), value()}
	}
	if r.IntN(3) == 0 {
		out["n"] = r.IntN(4)
	}
	d := map[string]any{}
	for i := range 100 {
		d[fmt.Sprint("x", i)] = value()
	}
	out["d"] = d
	return out
}

// TestRulesAreSelectedAsOPADoes asks policies of many rules, of which an index leaves out those that cannot hold. OPA's
// has to leave them out as well: a rule that it evaluates may end with an error.
func TestRulesAreSelectedAsOPADoes(t *testing.T) {
	c := &comparison{T: t}
	for seed := range uint64(testkit.Cases(1000)) {
		c.policyOn(seed, manyRules(seed), indexedInput)
	}
	if c.compiled < c.policies/2 || c.defined < c.evaluated/20 {
		t.Errorf("of %d policies, %d compile, and of %d evaluations %d have a value", c.policies, c.compiled, c.evaluated, c.defined)
	}
	t.Logf("%d policies, %d compiled, %d evaluations, %d with a value, %d that OPA alone decides", c.policies, c.compiled, c.evaluated, c.defined, c.undecided)
}

// TestRulesThatNeedManyValues: beyond some of them OPA's index is not asked, and no rule is left out. The last rule is one
// that OPA evaluates.
func TestRulesThatNeedManyValues(t *testing.T) {
	var b strings.Builder
	b.WriteString("package p\nconflict := 1 if input.n\nconflict := 2 if input.n\n")
	for i := range 40 {
		fmt.Fprintf(&b, "allow if { some y in input.l; y != 0; input.d.x%d == \"ab\" }\n", i)
	}
	b.WriteString("allow if { count([1 | some x in input.l; x == conflict]) >= 0; glob.match(\"/**\", [\"/\"], input.s) }\n")
	c := &comparison{T: t}
	for seed := range uint64(20) {
		c.policyOn(seed, b.String(), indexedInput)
	}
	if c.compiled == 0 || c.defined == 0 {
		t.Errorf("of %d evaluations %d have a value", c.evaluated, c.defined)
	}
}

// similarRules :: what they show → the form of most rules of a policy, with a text for TEXT, and one more rule, which stands
// before and behind them.
var similarRules = map[string][2]string{
	"a list of other values":               {`allow if TEXT in input.l`, ""},
	"a list of other values, after a loop": {`allow if { count([1 | some x in input.o; x != "q"]) >= 0; TEXT in input.l }`, ""},
	"texts and another value":              {`allow if input.s in {TEXT, 1}`, ""},
	"two conditions on one value":          {`allow if { conflict == 1; input.s == TEXT; startswith(input.s, "/") }`, ""},
	"a variable with a value before":       {`allow if { conflict == 1; x := TEXT; input.s == x; startswith(input.s, "/") }`, ""},
	"an error, then a value":               {`allow if { input.s == TEXT; conflict == 1 }`, `allow if input.t == "a"`},
	"an error that OPA evaluates":          {`allow if startswith(input.s, TEXT)`, `allow if { conflict == 1; glob.match("/**", ["/"], input.s) }`},
	"a pattern with several delimiters":    {`allow if { conflict == 1; glob.match("/b", ["/", "a"], input.s); input.t != TEXT }`, ""},
	"an else that OPA evaluates": {
		`allow if input.s == TEXT`,
		`allow if { input.t == "q" } else if { count([1 | some x in input.l; x == conflict]) >= 0; glob.match("/**", ["/"], input.s) }`,
	},
	"an empty text": {`allow if { conflict == 1; strings.any_prefix_match(input.s, ["", TEXT]) }`, `allow if input.s == ""`},
	"a text with a byte that is zero": {
		`allow if { conflict == 1; startswith(input.s, TEXT) }`, `allow if { conflict == 1; startswith(input.s, "\u0000") }`,
	},
}

// TestSimilarRulesAreSelectedAsOPADoes is [TestRulesAreSelectedAsOPADoes] for policies whose rules differ by one text, so that
// nothing else decides.
func TestSimilarRulesAreSelectedAsOPADoes(t *testing.T) {
	for name, forms := range similarRules {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString("package p\nconflict := 1 if input.n\nconflict := 2 if input.n\n" + forms[1] + "\n")
			for _, text := range similarTexts {
				b.WriteString(strings.ReplaceAll(forms[0], "TEXT", fmt.Sprintf("%q", text)) + "\n")
			}
			b.WriteString(forms[1])
			c, n := &comparison{T: t}, 0
			for seed := range uint64(testkit.Cases(80)) {
				c.policyOn(seed, b.String(), func(r *rand.Rand) map[string]any {
					input := indexedInput(r)
					n++
					input["s"], input["n"] = similarTexts[n%len(similarTexts)], n%3
					if n%2 == 0 {
						delete(input, "n")
					}
					switch r.IntN(6) {
					case 0, 1:
						input["s"] = fmt.Sprint(input["s"], "/d")
					case 2:
						input["s"] = 1
					}
					return input
				})
			}
			if c.compiled != c.policies {
				t.Errorf("%d of %d policies compile", c.compiled, c.policies)
			}
		})
	}
}
