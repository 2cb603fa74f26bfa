package rego_test

import (
	"fmt"
	goast "go/ast"
	"go/parser"
	gotoken "go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"understudy/rego"
)

// causesOf returns the causes of a module, one a line, but for those of what is only looked up.
func causesOf(t *testing.T, file, module string) (out []string) {
	t.Helper()
	p, err := rego.Compile(t.Context(), rego.Source{
		Modules: map[string]string{file: module}, Paths: []string{"envoy/authz/allow"},
		Data: map[string]any{
			"permissions": map[string]any{"reader": []any{map[string]any{"resource": "orders", "methods": []any{"GET"}}}},
			"public":      []any{"/a", "/b"}, "table": map[string]any{"a": "b"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	causes := p.Causes("envoy/authz/allow")
	for _, c := range causes {
		if c.Kind != rego.CauseRead {
			out = append(out, fmt.Sprintf("%d %s %s", c.Row, c.Kind, c.What))
		}
		if c.File != file {
			t.Errorf("%+v is in another file than %s", c, file)
		}
	}
	unknown := slices.ContainsFunc(causes, func(c rego.Cause) bool { return c.Kind == rego.CauseImpure || c.Kind == rego.CauseInterpreted })
	if forms := p.Interpreted("envoy/authz/allow"); unknown != (len(forms) > 0) {
		t.Errorf("the unknown forms are %v, with the causes %q", forms, out)
	}
	return out
}

// TestCausesOfTheBenchmark: what is expensive about the policies that are measured.
func TestCausesOfTheBenchmark(t *testing.T) {
	const http = "input.attributes.request.http"
	const claims = `input.attributes.metadataContext.filterMetadata["envoy.filters.http.jwt_authn"].payload`
	const permission = "data.permissions[" + claims + ".roles[_]]"
	for file, want := range map[string][]string{
		"prefix.rego": {
			"9 asked " + http + ".method", "10 asked " + http + ".path", "14 asked " + http + ".method",
			"15 asked " + http + ".path", "19 asked " + http + ".method", "21 asked " + http + ".path",
		},
		"claims.rego": {
			"10 asked " + claims + ".exp", "10 clock_asked time.now_ns", "11 elements " + claims + ".roles", "12 asked " + permission,
			"13 asked " + permission + "[_].resource", "13 asked input.parsed_path[2]",
			"14 asked " + permission + "[_].methods", "14 asked " + http + ".method", "17 asked " + claims,
		},
		"owner.rego": {
			"9 asked " + http + ".method", "10 asked input.parsed_path[2]", "13 asked claims.sub", "13 asked input.parsed_path[3]",
			"16 elements claims.roles", "17 asked claims.roles[_]", "21 asked " + http + ".headers.authorization",
			"22 asked " + http + ".headers.authorization", "22 asked io.jwt.decode(substring(" + http + ".headers.authorization, 7, -1))",
			"22 asked substring(" + http + ".headers.authorization, 7, -1)",
		},
	} {
		text, err := os.ReadFile(filepath.Join("../cmd/authzbench/policies", file))
		if err != nil {
			t.Fatal(err)
		}
		if got := causesOf(t, file, string(text)); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%q, want\n%q", file, got, want)
		}
	}
}

// TestCausesSayWhatIsLearned at each place: of which values, and how much.
func TestCausesSayWhatIsLearned(t *testing.T) {
	for rule, want := range map[string][]string{
		`allow if input.x == "a"`:                                    {"2 asked input.x"},
		`allow if input.x`:                                           {"2 asked input.x"},
		`allow if input.x in ["a", "b"]`:                             {"2 asked input.x"},
		`allow if input.x in data.public`:                            {"2 asked input.x"},
		`allow if input.x in {"a", "b"}`:                             {"2 asked input.x"},
		`allow if input.x in {"a", input.y}`:                         {"2 asked input.x", "2 asked input.y", "2 left input.y"},
		`allow := input.x`:                                           {"2 whole input.x"},
		`allow if {"a", input.x} == {"b"}`:                           {"2 whole input.x"},
		`allow if json.marshal(input.x) == "1"`:                      {"2 whole input.x"},
		`allow if json.marshal(input) == "1"`:                        {"2 whole input"},
		`allow if input.x == sprintf("%d", [1])`:                     {"2 asked input.x"},
		`allow if data.table[input.x] == "b"`:                        {"2 asked data.table[input.x]", "2 asked input.x"},
		`allow if { some p in data.public; startswith(input.x, p) }`: {"2 asked input.x"},
		`allow if { some x in input.l; x == "a" }`:                   {"2 elements input.l", "2 asked input.l[_]"},
		`allow if { [_, x] = input.l; x == 1 }`:                      {"2 asked input.l", "2 asked input.l[1]"},
		`allow if lower(input.x) == "a"`:                             {"2 asked input.x", "2 asked lower(input.x)"},
		`allow if input.h[input.k] == "a"`:                           {"2 asked input.h", "2 asked input.h[input.k]", "2 asked input.k"},
		`allow if input.h[sprintf("%d", [1])] == "a"`:                {`2 asked input.h[sprintf("%d", [1])]`},
		`allow if input.x < time.now_ns()`:                           {"2 asked input.x", "2 clock_asked time.now_ns"},
		`allow if time.weekday(time.now_ns()) == "Monday"`:           {"2 clock_asked time.now_ns"},
		`allow if io.jwt.decode_verify(input.t, {"secret": "s"})[0]`: {
			"2 asked input.t", "2 clock_asked io.jwt.decode_verify", "2 asked io.jwt.decode_verify(input.t, …)", "2 asked io.jwt.decode_verify(input.t, …)[0]",
		},
		"f(x) if x == \"a\"\nallow if f(input.x)":                        {"2 asked input.x", "3 asked input.x"},
		"f(x) if lower(x) == \"a\"\nallow if { f(input.x); f(input.y) }": {"2 asked lower(x)", "3 asked input.x", "3 numbers input.x", "3 asked input.y", "3 numbers input.y"},
		"f(x) if lower(x) == \"a\"\nallow if { f(lower(input.x)); f(input.parsed_path[0]) }": {
			"2 asked lower(x)", "3 asked input.parsed_path[0]", "3 asked input.x", "3 asked lower(input.x)",
		},
		"h(k) := input.headers[k]\nallow if h(\"a\") == \"b\"":                 {"2 asked input.headers[k]", "3 asked input.headers[k]"},
		"f(x) := lower(x)\nallow if f(f(input.x)) == \"a\"":                    {"2 asked lower(x)", "3 asked f", "3 asked input.x", "3 numbers input.x"},
		`allow := x if some x in input.l`:                                      {"2 elements input.l", "2 whole input.l[_]"},
		"r := input.x if input.y\nr := input.z if input.w\nallow if r == 1":    {"2 asked input.x", "2 asked input.y", "2 whole r", "3 asked input.w", "3 asked input.z", "4 asked r"},
		"r := x if some x in input.l\nallow if r == 1":                         {"2 elements input.l", "2 whole input.l[_]", "3 asked input.l[_]"},
		"f(_) if true\nallow if {\nx := input.x\nf(x)\n}":                      {"4 asked input.x", "5 asked input.x"},
		"allow if {\nx := input.x\nc := {x: 1 |\ninput.y\n}\ncount(c) == 1\n}": {"3 asked input.x", "5 whole input.x", "5 asked input.y"},
		"allow if {\nx := input.x\nc := [x |\ninput.y\n]\ncount(c) == 1\n}":    {"3 asked input.x", "5 whole input.x", "5 asked input.y"},
		"s contains x if {\nx := input.x\ninput.y\n}\nallow if count(s) == 1":  {"3 asked input.x", "4 whole input.x", "4 asked input.y"},
		"allow if {\nx := input.x\nnot {x}[1]\n}":                              {"3 asked input.x", "4 whole input.x"},
		"allow if {\nx := input.x\n{\"a\": y} = x\ny\n}":                       {"3 asked input.x", "4 whole input.x", "4 asked input.x.a", "5 asked input.x.a"},
		"po[k] := 1 if some k in [\"a\"]\nallow if {\nx := input.x\npo[x]\n}":  {"2 asked input.x", "4 asked input.x", "5 asked input.x", "5 numbers input.x"},
		"a.b := input.x\nallow if {\njson.marshal(a) == \"1\"\n}":              {"2 asked input.x", "4 whole input.x"},
		"allow if {\nx := input.l\nevery y in x { y == 1 }\n}":                 {"3 asked input.l", "4 asked input.l", "4 elements input.l", "4 asked input.l[_]"},
		"allow if {\nx := input.x\njson.marshal({\"a\": x}) == \"1\"\n}":       {"3 asked input.x", `4 whole json.marshal({"a": x})`},
		`allow if rand.intn("x", 2) == 1`:                                      {"2 impure rand.intn"},
		`allow if input.x == 1 with input.x as "a"`:                            {"2 interpreted with"},
	} {
		if got := causesOf(t, "a.rego", "package envoy.authz\n"+rule+"\n"); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%q, want\n%q", rule, got, want)
		}
	}
}

// TestNothingIsLearnedWithoutAPlace: closures ask by the methods of a machine, which take a place.
func TestNothingIsLearnedWithoutAPlace(t *testing.T) {
	learning := []string{"Answer", "Ask", "Derive", "Force", "Input", "Length", "Matches", "Missing", "Test"}
	files, err := filepath.Glob("evaluator/*.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		goast.Inspect(file, func(n goast.Node) bool {
			call, ok := n.(*goast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*goast.SelectorExpr)
			if !ok || !slices.Contains(learning, method.Sel.Name) {
				return true
			}
			if of, ok := method.X.(*goast.CallExpr); ok {
				if at, ok := of.Fun.(*goast.SelectorExpr); ok && at.Sel.Name == "At" {
					return true
				}
			}
			if of, ok := method.X.(*goast.SelectorExpr); ok && strings.HasSuffix(of.Sel.Name, "vocabulary") {
				return true // what is known when a policy is compiled
			}
			t.Errorf("%s calls %s without a place", name, method.Sel.Name)
			return true
		})
	}
}
