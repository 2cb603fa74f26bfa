package rego_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"understudy/rego"
)

// readsCases :: name → a module, and what its rule allow reads, in the canonical form:
// {names below}, * for whole, ? where it matters that there is something. Names that begin
// with a control character are elements and observations.
var readsCases = map[string]struct{ module, want string }{
	"nothing":          {`allow := true`, ``},
	"a path":           {`allow if input.a.b == 1`, `{"a"{"b"*}}`},
	"an index":         {`allow if input.a[0] == 1`, `{"a"{"\x000"*}}`},
	"an index and all": {`allow if { input.a[0] == 1; sum(input.a) == 2 }`, `{"a"*}`},
	"below an index":   {`allow if input.a[1].b == 1`, `{"a"{"\x001"{"b"*}}}`},
	"no index":         {`allow if input.a[1.5] == "x"`, `{"a"*}`},
	"a variable key":   {`allow if input.a[_].b == 1`, `{"a"*}`},
	"the whole input":  {`allow if sum(input) == 1`, `*`},
	"an import":        {"import input.a.b as ab\nallow if ab.c == 1", `{"a"{"b"{"c"*}}}`},
	"a local name":     {`allow if { x := input.a.b; x.c == 1; x.d == 2 }`, `{"a"{"b"?{"c"*"d"*}}}`},
	"a local name, used whole": {
		`allow if { x := input.a.b; x.c == 1; sum(x) == 1 }`, `{"a"{"b"*}}`,
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
	"compared with a text":                             {`allow if input.a == "x"`, `{"a"?{"\x02=x"*}}`},
	"not equal to texts":                               {`allow if { input.a != "x"; "y" != input.a }`, `{"a"?{"\x02=x"*"\x02=y"*}}`},
	"one of some texts":                                {`allow if input.a in {"x", "y", 1}`, `{"a"?{"\x02=x"*"\x02=y"*}}`},
	"compared with texts of the data":                  {`allow if { some r in data.list; startswith(input.a, r.p) }`, `{"a"?{"\x02^/x"*"\x02^/y"*}}`},
	"one of the data":                                  {`allow if input.a in data.list[_].q`, `{"a"?{"\x02=x"*}}`},
	"a number as a name in the data":                   {`allow if input.a == data.list["1"].p`, `{"a"?{"\x02=/x"*"\x02=/y"*}}`},
	"compared with what is read":                       {`allow if startswith(input.a, data.roles[input.b])`, `{"a"*"b"*}`},
	"compared with a rule":                             {"r := \"x\"\nallow if startswith(input.a, r)", `{"a"*}`},
	"compared with an argument":                        {"f(x) if { x = \"x\"; startswith(input.a, x) }\nallow if f(input.b)", `{"a"*"b"*}`},
	"compared, and used":                               {`allow if { input.a == "x"; data.roles[input.a] }`, `{"a"*}`},
	"compared, in a negation":                          {`allow if not startswith(input.a, "x")`, `{"a"?{"\x02^x"*}}`},
	"compared in three ways":                           {`allow if { startswith(input.a, "x"); endswith(input.a, "y"); contains(input.a, "z") }`, `{"a"?{"\x01contains\x00\x00\"z\""*"\x02$y"*"\x02^x"*}}`},
	"taken apart":                                      {`allow if { ["x", y, _] = input.a; y != "z" }`, `{"a"?{"\x000"{"\x02=x"*}"\x001"{"\x02=z"*}"\x03"*}}`},
	"taken apart twice":                                {`allow if { [[x, _], _] := input.a; data.roles[x] }`, `{"a"?{"\x000"{"\x000"*"\x03"*}"\x03"*}}`},
	"taken apart, with what is known":                  {`allow if { y := data.x; [y, _] = input.a }`, `{"a"?{"\x000"*"\x03"*}}`},
	"taken apart, into the head":                       {"r := x if [x, _] = input.a\nallow if r.c == 1", `{"a"?{"\x000"{"c"*}"\x03"*}}`},
	"called":                                           {`allow if { regex.match("^x", input.a); not glob.match("x*", [], input.a) }`, "{\"a\"?{\"\\x01glob.match\\x00\\\"x*\\\"\\x00[]\\x00\"*\"\\x01regex.match\\x00\\\"^x\\\"\\x00\"*}}"},
	"called for a text":                                {`allow if upper(input.a) == "X"`, `{"a"?{"\x01upper\x00"?{"\x02=X"*}}}`},
	"called for a text that is used":                   {`allow if data.roles[lower(input.a)]`, `{"a"*}`},
	"called with texts of the data":                    {`allow if { some r in data.list; regex.match(r.p, input.a) }`, `{"a"*}`},
	"called with what is read":                         {`allow if regex.match(input.b, input.a)`, `{"a"*"b"*}`},
	"a claim of a token":                               {"claims := c if [_, c, _] := io.jwt.decode(input.a)\nallow if claims.sub == \"x\"", `{"a"?{"\x01io.jwt.decode\x00"?{"\x001"{"sub"?{"\x02=x"*}}"\x03"*}}}`},
	"a claim that ends":                                {"claims := c if [_, c, _] := io.jwt.decode(input.a)\nallow if claims.exp > time.now_ns() / 1000000000", `{"a"?{"\x01io.jwt.decode\x00"?{"\x001"{"exp"?{"\x041e-09 0"*}}"\x03"*}}}`},
	"a name that looks like an index":                  {`allow if input.a["\u00000"] == "x"`, `{"a"*}`},
	"a name that looks like a text":                    {`allow if input.a["\u0002=x"].b == 1`, `{"a"*}`},
	"object.get of what looks like it":                 {`allow if object.get(input.a, "\u0003", 1) == 1`, `{"a"*}`},
	"a name of the compiler's":                         {`allow if { __local0__ = input.a; __local0__.b }`, `*`},
	"a call whose result is another path":              {`allow if substring(input.a, 0, 1, input.b)`, `{"a"*"b"*}`},
	"a call whose result is known":                     {`allow if split(input.a, "/", ["x", input.b])`, `{"a"?{"\x01split\x00\x00\"/\""?{"\x000"{"\x02=x"*}"\x001"*"\x03"*}}"b"*}`},
	"compared as the beginning of":                     {`allow if startswith("/x/y", input.a)`, `{"a"*}`},
	"compared, with a result that is read":             {`allow if startswith(input.a, "/x", input.b)`, `{"a"?{"\x02^/x"*}"b"*}`},
	"a rule beside one by a variable":                  {"q.r.m := input.a\nq.r[k] := input.b if some k in [\"m\", \"n\"]\nallow if q.r.m.c == 1", `{"a"*"b"*}`},
	"a call that is negated":                           {`allow if not substring(input.a, 0, 1, input.b)`, `{"a"*"b"*}`},
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
				Data: map[string]any{
					"x": 1, "roles": map[string]any{},
					"list": []any{map[string]any{"p": "/x", "q": []any{"x"}}, map[string]any{"p": "/y", "q": 2}},
				},
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

// TestReadsWithoutCalls: what is given to a built-in is read whole, and the rest stays.
func TestReadsWithoutCalls(t *testing.T) {
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules: map[string]string{"m.rego": `package p
			allow if { startswith(input.a, "/x"); input.b.c == "y"; regex.match("z", input.b.d) }
			allow if { [_, claims, _] := io.jwt.decode(input.e); claims.sub == "y" }
			allow if { ["x", _] = input.f }
			allow if { input.g[0] == "x"; startswith(input.g[1], "y"); glob.match("z*", ["/"], input.g[1]) }`},
		Paths: []string{"p/allow"},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := p.Reads("p/allow")
	want := `{"a"?{"\x02^/x"*}"b"{"c"?{"\x02=y"*}"d"*}"e"*"f"?{"\x000"{"\x02=x"*}"\x03"*}"g"{"\x000"?{"\x02=x"*}"\x001"*}}`
	if got := all.WithoutCalls().String(); got != want {
		t.Errorf("got  %s\nwant %s\nof   %s", got, want, all)
	}
}

// TestFewCallsAreObserved: no number of calls is made with a text to find its decision.
func TestFewCallsAreObserved(t *testing.T) {
	for n, whole := range map[int]bool{4: false, 5: true} {
		module := "package p\n"
		for i := range n {
			module += fmt.Sprintf("allow if contains(input.a, \"%d\")\n", i)
		}
		p, err := rego.Compile(context.Background(), rego.Source{Modules: map[string]string{"m.rego": module}, Paths: []string{"p/allow"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Reads("p/allow").Child("a").Observations() == nil; got != whole {
			t.Errorf("with %d calls the text is read whole: %v, want %v", n, got, whole)
		}
	}
}

// TestConstantsHaveABudget compares one path with thousands of texts of the data in hundreds
// of rules: beyond the budget it is read whole, rather than compiled for minutes.
func TestConstantsHaveABudget(t *testing.T) {
	var list []any
	for i := range 900 {
		list = append(list, map[string]any{"p": fmt.Sprint("/", i)})
	}
	for rules, whole := range map[int]bool{1: false, 300: true} {
		module := "package p\n"
		for i := range rules {
			module += fmt.Sprintf("allow if { some r in data.list; startswith(input.a, r.p); input.b == %d }\n", i)
		}
		p, err := rego.Compile(context.Background(), rego.Source{
			Modules: map[string]string{"m.rego": module}, Data: map[string]any{"list": list}, Paths: []string{"p/allow"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Reads("p/allow").Child("a").Observations() == nil; got != whole {
			t.Errorf("with %d rules the path is read whole: %v, want %v", rules, got, whole)
		}
	}
}

// TestConstantsAreAllKnown compares a path with a list that is longer than what is looked at: its last text
// might be the one that matters.
func TestConstantsAreAllKnown(t *testing.T) {
	for n, whole := range map[int]bool{3000: false, 5000: true} {
		list := slices.Repeat([]any{"/a"}, n)
		p, err := rego.Compile(context.Background(), rego.Source{
			Modules: map[string]string{"m.rego": "package p\nallow if { some p in data.list; startswith(input.a, p) }"},
			Data:    map[string]any{"list": append(list, "/b")}, Paths: []string{"p/allow"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Reads("p/allow").Child("a").Observations() == nil; got != whole {
			t.Errorf("with %d texts the path is read whole: %v, want %v", n, got, whole)
		}
	}
}
