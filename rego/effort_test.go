package rego_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"understudy/rego"
)

// TestEffortIsBounded: the compiler cannot be interrupted, so a policy that would keep
// it busy is refused before, with the name of the rule.
func TestEffortIsBounded(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"comprehensions": {"allow if count(" + nested("[1 | x := ", "1", "]", 20) + ") > 0", "too long to compile"},
		"sets":           {"allow if " + nested("{1 | 1 == count(", "[]", ")}", 20) + " == {1}", "too long to compile"},
		"objects":        {"x := " + nested("{1: ", "1", " | true}", 20) + "\nallow if x", "too long to compile"},
		"templates":      {"allow if " + nested(`$"{`, "1", `}"`, 20) + ` == "1"`, "too long to compile"},
		"negations":      {"import future.keywords.not\nallow if { " + nested("not { input.a; ", "input.b", "}", 20) + " }", "too long to compile"},
		"alternatives":   {"import future.keywords.or\nallow if " + nested("{ input.a == 1 or ", "{ input.b }", "}", 20), "too long to compile"},
		"long body":      {longBody(2000), "too long to compile"},
		"sum":            {"allow if 1" + strings.Repeat("+1", 2000) + " > 0", "deep within one another"},
		"arrays":         {"x := " + nested("[", "", "]", 600) + "\nallow if x", "deep within one another"},
		"calls":          {"x := " + nested("abs(", "1", ")", 600) + "\nallow if x", "deep within one another"},
		"references":     {"x := " + nested("input[", "1", "]", 600) + "\nallow if x", "deep within one another"},
		"number":         {"allow if input.a == 1" + strings.Repeat("0", 20_000), "more than 20000 digits"},
		"doubling":       {"allow if {\n" + doubling(30, "x%d := [x%d, x%d]") + "count(x30) > 0\n}", "parts"},
		"unified":        {"allow if {\n" + doubling(30, "{\"a\": x%d} = {\"a\": {x%d, [x%d]}}") + "count(x30) > 0\n}", "parts"},
		"by names":       {"allow if {\n" + doubling(30, "x%[1]d := y%[1]d\ny%[1]d := [x%[2]d, x%[2]d]") + "count(x30) > 0\n}", "parts"},
		"in brackets":    {"allow if count([1 | " + strings.ReplaceAll(doubling(30, "x%d := {1: x%d, 2: x%d}"), "\n", ";") + "count(x30) > 0]) > 0", "parts"},
		"rules":          {strings.Repeat("allow if input.a\n", 10_001), "the limit is 10000"},
		"else":           {"allow if input.a" + strings.Repeat(" else := true if input.b", 10_001), "the limit is 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rego.Compile(context.Background(), rego.Source{
				Modules: map[string]string{"p.rego": "package p\n" + tt.text}, Paths: []string{"p/allow"},
			})
			var refused *rego.CompileError
			if !errors.As(err, &refused) {
				t.Fatalf("the error is %v, want a *CompileError", err)
			}
			if p := refused.Problems[0]; p.Code != "effort_error" || !strings.Contains(p.Message, tt.want) {
				t.Errorf("the problem is %+v, want an effort_error that says %q", p, tt.want)
			}
		})
	}
}

// TestEffortOfLargePoliciesIsFine: what people and generators write is far from the
// bounds.
func TestEffortOfLargePoliciesIsFine(t *testing.T) {
	for name, text := range map[string]string{
		"comprehensions": "allow if count(" + nested("[1 | x := ", "1", "]", 6) + ") > 0",
		"body":           longBody(100),
		"rules":          strings.Repeat("allow if { input.a == 1; input.b in data.x; startswith(input.c, \"y\") }\n", 2000),
		"doubling":       "allow if {\n" + doubling(15, "x%d := [x%d, x%d]") + "count(x15) > 0\n}",
		"list":           "x := [" + strings.Repeat(`{"a": [1, 2]}, `, 5000) + "1]\nallow if x",
		"else":           "allow if input.a" + strings.Repeat(" else := true if input.b", 500),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rego.Compile(context.Background(), rego.Source{
				Modules: map[string]string{"p.rego": "package p\n" + text}, Paths: []string{"p/allow"},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func nested(open, inner, end string, depth int) string {
	return strings.Repeat(open, depth) + inner + strings.Repeat(end, depth)
}

// longBody has a body that the compiler has to put in another order.
func longBody(length int) string {
	var b strings.Builder
	for i := length; i > 0; i-- {
		fmt.Fprintf(&b, "x%d = x%d + 1\n", i, i-1)
	}
	return "allow if {\n" + b.String() + "x0 = 1\n}"
}

// doubling returns n lines, each of which makes a variable of the one before.
func doubling(n int, line string) string {
	var b strings.Builder
	b.WriteString("x0 := input.a\n")
	for i := range n {
		b.WriteString(fmt.Sprintf(line, i+1, i, i) + "\n")
	}
	return b.String()
}
