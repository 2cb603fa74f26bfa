package rego_test

import (
	"context"
	"testing"

	"understudy/rego"
)

// readsCases :: name → a module, and what its rule allow reads, in the canonical form:
// {names below}, * for whole, ? where it matters that there is something.
var readsCases = map[string]struct{ module, want string }{
	"nothing":          {`allow := true`, ``},
	"a path":           {`allow if input.a.b == 1`, `{"a"{"b"*}}`},
	"an index":         {`allow if input.a[0] == "x"`, `{"a"{"\x000"*}}`},
	"an index and all": {`allow if { input.a[0] == "x"; count(input.a) == 2 }`, `{"a"*}`},
	"below an index":   {`allow if input.a[1].b == "x"`, `{"a"{"\x001"{"b"*}}}`},
	"no index":         {`allow if input.a[1.5] == "x"`, `{"a"*}`},
	"a variable key":   {`allow if input.a[_].b == 1`, `{"a"*}`},
	"the whole input":  {`allow if count(input) == 1`, `*`},
	"an import":        {"import input.a.b as ab\nallow if ab.c == 1", `{"a"{"b"{"c"*}}}`},
	"a local name":     {`allow if { x := input.a.b; x.c == 1; x.d == 2 }`, `{"a"{"b"?{"c"*"d"*}}}`},
	"a local name, used whole": {
		`allow if { x := input.a.b; x.c == 1; count(x) == 1 }`, `{"a"{"b"*}}`,
	},
	"a local name that is compared": {`allow if { x := data.x; x == input.a }`, `{"a"*}`},
	"an argument that is compared":  {"f(x) if x == input.a\nallow if f(1)", `{"a"*}`},
	"one name of two paths": {
		`allow if { count([1 | x = input.a; x.c]) == 1; count([1 | x = input.b; x.c]) == 1 }`, `{"a"*"b"*}`,
	},
	"a rule that names a path":                         {"http := input.a.b\nallow if http.c == 1", `{"a"{"b"?{"c"*}}}`},
	"a rule that names a path, of another package":     {`allow if data.o.http.c == 1`, `{"a"{"b"?{"c"*}}}`},
	"a rule that names a path, reached by its package": {`allow if count(data.o) == 1`, `{"a"{"b"*}}`},
	"a rule that names a path, by a variable":          {`allow if { some k; data.o[k].c == 1; k == "http" }`, `{"a"{"b"*}}`},
	"a rule of two definitions":                        {"h := input.a if input.x\nh := input.b if input.y\nallow if h.c == 1", `{"a"*"b"*"x"*"y"*}`},
	"object.get":                                       {`allow if object.get(input.a, "b", 1) == 1`, `{"a"?{"b"*}}`},
	"object.get with a path":                           {`allow if object.get(input, ["a", "b"], 1) == 1`, `?{"a"{"b"*}}`},
	"object.get, variable key":                         {`allow if { some k in ["b"]; object.get(input.a, k, 1) == 1 }`, `{"a"*}`},
	"object.get, default":                              {`allow if object.get(input.a, "b", input.c) == 1`, `{"a"?{"b"*}"c"*}`},
	"a default rule":                                   {"default allow := false\nallow if input.a", `{"a"*}`},
	"a function":                                       {"f(x) := input.a[x]\nallow if f(\"k\")", `{"a"*}`},
	"an else branch":                                   {`allow := true if { input.a } else := false if { input.b }`, `{"a"*"b"*}`},
	"comprehensions":                                   {`allow if { count({x: y | x := input.a; y := input.b}) == 1; count([1 | input.c]) == 1 }`, `{"a"*"b"*"c"*}`},
	"every":                                            {`allow if { every x in input.a { x == input.b } }`, `{"a"*"b"*}`},
	"negation":                                         {`allow if not input.a.b`, `{"a"{"b"*}}`},
	"nested references":                                {`allow if data.roles[input.a.b][_] == input.c`, `{"a"{"b"*}"c"*}`},
	"a rule by a variable":                             {"q.x if input.a\nq.y if input.b\nallow if q[_]", `{"a"*"b"*}`},
	"the reference of a head":                          {"q[input.a].y := 1\nallow if q.z.y == 1", `{"a"*}`},
	"partial rules":                                    {"s contains input.a if input.b\nallow if \"x\" in s", `{"a"*"b"*}`},
	"a modifier":                                       {"f if input.a\nallow if f with input.a as 1", `*`},
	"a template":                                       {`allow if $"{input.a}-{input.b.c}" == "x"`, `{"a"*"b"{"c"*}}`},
	"a rule that nothing asks":                         {"other if input.b\nallow if input.a", `{"a"*}`},
	"a name of the compiler's":                         {`allow if { __local0__ = input.a; __local0__.b }`, `*`},
}

// TestReads shows what is read.
func TestReads(t *testing.T) {
	for name, tt := range readsCases {
		t.Run(name, func(t *testing.T) {
			p, err := rego.Compile(context.Background(), rego.Source{
				Modules: map[string]string{
					"m.rego": "package p\n" + tt.module,
					"o.rego": "package o\nhttp := input.a.b",
				},
				Data:  map[string]any{"x": 1, "roles": map[string]any{}},
				Paths: []string{"p/allow"},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Reads("p/allow").String(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
