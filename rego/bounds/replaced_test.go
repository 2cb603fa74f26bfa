package bounds_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"context"
	"errors"

	"github.com/google/go-cmp/cmp"

	"understudy/rego"
)

// TestRenderTemplate has what templates do, which is what the package text/template does.
func TestRenderTemplate(t *testing.T) {
	for template, want := range map[string]any{
		`{{.name}} is {{.age}}`: "Ann is 42",
		`{{range $i, $e := .list}}{{if $i}}, {{end}}{{$e}}{{else}}none{{end}}`:                      "a, b",
		`{{range .none}}x{{else}}none{{end}}`:                                                       "none",
		`{{with .name}}{{.}}{{end}}{{.missing}}`:                                                    "Ann<undefined>",
		`{{define "t"}}[{{.}}]{{end}}{{template "t" .name}}{{template "t" 1}}`:                      "[Ann][1]",
		`{{block "b" .list}}{{len .}}{{end}}`:                                                       "2",
		`{{printf "%03d %s" 7 .name | print "a" | html}}{{js "'"}}{{urlquery "a b"}}{{html "<" 1}}`: `a007 Ann\'a+b&lt;1`,
		`{{range .list}}{{if eq . "b"}}{{break}}{{end}}{{.}}{{end}}`:                                "a",
		`{{println .age}}`: "42\n",
		`{{understudyEnter}}{{understudyLeave}}{{understudyRound}}x`: "x",
		`{{`:                nil,
		`{{nosuch .name}}`:  nil,
		`{{template "no"}}`: nil,
		`{{index .list 9}}`: nil,
	} {
		got, err := eval(t, "x := strings.render_template(input.t, {\"name\": \"Ann\", \"age\": 42, \"list\": [\"a\", \"b\"], \"none\": []})",
			map[string]any{"t": template})
		if err != nil || got.Value != want {
			t.Errorf("%s: %v, %v; want %v", template, got.Value, err, want)
		}
	}
}

// endless are calls that would not end: they have to stop with the context, though they
// are far from any bound of the operands.
var endless = map[string]string{
	"loops that write nothing":        `strings.render_template("{{range .a}}{{range $.a}}{{range $.a}}{{end}}{{end}}{{end}}", {"a": numbers.range(1, 3000)})`,
	"loops over numbers":              `strings.render_template("{{range 1000000}}{{range 1000000}}{{end}}{{end}}", {})`,
	"templates that call one another": `strings.render_template("{{define \"a\"}}{{if lt (len .) 100}}{{template \"a\" (print . 1)}}{{template \"a\" (print . 1)}}{{end}}{{end}}{{template \"a\" \"\"}}", {})`,
	"a walk that nothing matches":     `walk(data.p.tree, [_, 5])`,
}

const tree = "\nt0 := [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + `
t1 := [t0, t0, t0, t0, t0, t0, t0, t0, t0, t0]
t2 := [t1, t1, t1, t1, t1, t1, t1, t1, t1, t1]
t3 := [t2, t2, t2, t2, t2, t2, t2, t2, t2, t2]
t4 := [t3, t3, t3, t3, t3, t3, t3, t3, t3, t3]
t5 := [t4, t4, t4, t4, t4, t4, t4, t4, t4, t4]
t6 := [t5, t5, t5, t5, t5, t5, t5, t5, t5, t5]
t7 := [t6, t6, t6, t6, t6, t6, t6, t6, t6, t6]
t8 := [t7, t7, t7, t7, t7, t7, t7, t7, t7, t7]
tree := [t8, t8, t8, t8, t8, t8, t8, t8, t8, t8]
`

func TestReplacedBuiltinsStopWithContext(t *testing.T) {
	for name, call := range endless {
		t.Run(name, func(t *testing.T) {
			p, err := rego.Compile(context.Background(), rego.Source{
				Modules: map[string]string{"m.rego": "package p\nx if " + call + tree}, Paths: []string{"p/x"},
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			if got, err := p.Eval(ctx, "p/x", rego.Input{}, time.Now()); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, %v; want that the deadline was exceeded", got.Defined, err)
			}
		})
	}
}

// TestValuesThatAreTooLarge: the value of a rule is copied, which must not take more
// memory than there is.
func TestValuesThatAreTooLarge(t *testing.T) {
	got, err := eval(t, "x := tree"+tree, nil)
	if err == nil || !strings.Contains(err.Error(), "the value is too large") {
		t.Errorf("%v, %v; want an error", got.Defined, err)
	}
}

// TestGraphs holds what is reachable in random graphs against a rule that says what that
// is.
func TestGraphs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		graph := map[string]any{}
		for i := range 1 + r.IntN(6) {
			edges := []any{}
			for range r.IntN(4) {
				edges = append(edges, fmt.Sprint(r.IntN(8)))
			}
			graph[fmt.Sprint(i)] = edges
		}
		input := map[string]any{"graph": graph, "from": []any{fmt.Sprint(r.IntN(8)), fmt.Sprint(r.IntN(8))}}
		got, err := eval(t, "x := graph.reachable(input.graph, input.from)", input)
		if err != nil {
			t.Fatal(err)
		}
		// Each vertex of a path is reachable, and each reachable one is on a path, or begins
		// none.
		want, err := eval(t, `x := {v | some v in input.from; input.graph[v]} | {v | some path in graph.reachable_paths(input.graph, input.from); some v in path; input.graph[v]}`, input)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Value, got.Value); diff != "" {
			t.Errorf("%v (-want +got):\n%s", input, diff)
		}
	}
}

// TestPatches has patches with copies, which are applied in parts.
func TestPatches(t *testing.T) {
	for operations, want := range map[string]string{
		`[]`: `{"a":[1]}`,
		`[{"op": "copy", "from": "/a", "path": "/b"}]`:                                                                             `{"a":[1],"b":[1]}`,
		`[{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 2}]`:                                  `{"a":[1],"b":[1,2]}`,
		`[{"op": "copy", "from": "/a", "path": "/b"}, {"op": "copy", "from": "/b", "path": "/c"}, {"op": "remove", "path": "/a"}]`: `{"b":[1],"c":[1]}`,
		`[{"op": "copy", "from": "/no", "path": "/b"}]`:                                                                            `undefined`,
		`[{"op": "copy", "from": "/a", "path": "/b"}, {"op": "test", "path": "/b", "value": 3}]`:                                   `undefined`,
		`[{"op": "copy", "from": "/a", "path": "/b"}, 5]`:                                                                          `undefined`,
	} {
		got, err := eval(t, "default x := \"undefined\"\nx := json.marshal(json.patch({\"a\": [1]}, json.unmarshal(input.patch)))", map[string]any{"patch": operations})
		if err != nil || got.Value != want {
			t.Errorf("%s: %v, %v; want %s", operations, got.Value, err, want)
		}
	}
}

// TestSchemas has schemas that refer to themselves: those that end are matched.
func TestSchemas(t *testing.T) {
	const treeSchema = `{"type": "object", "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}}}`
	for call, want := range map[string]string{
		`json.match_schema({"value": 1, "children": [{"value": 2}, {"value": 3, "children": []}]}, ` + treeSchema + `)`:            "true",
		`json.match_schema({"value": 1, "children": [{"value": "2"}]}, ` + treeSchema + `)`:                                        "false",
		`json.match_schema({"a": 1}, {"$ref": "#/definitions/x%79", "definitions": {"xy": {"$ref": "#/definitions/xy"}}})`:         "bound",
		`json.match_schema({"a": 1}, {"$id": "http://localhost/s", "allOf": [{"$ref": "http://localhost/s"}]})`:                    "bound",
		`json.match_schema({"a": 1}, {"$id": "http://localhost/s", "not": {"$ref": "s"}})`:                                         "bound",
		`json.match_schema({"a": 1}, {"dependencies": {"a": {"$ref": "#"}}})`:                                                      "bound",
		`json.match_schema({"a": 1}, json.marshal({"allOf": [{"$ref": "#"}]}))`:                                                    "bound",
		`json.match_schema({"a": [{"b": 1}]}, {"properties": {"a": {"items": [{"$ref": "#/x"}]}}, "x": {"not": {"$ref": "#/x"}}})`: "bound",
	} {
		got, err := eval(t, "x := "+call+"[0]", nil)
		result := fmt.Sprint(got.Value)
		if err != nil {
			result = "bound"
		}
		if result != want {
			t.Errorf("%s: %s, %v; want %s", call, result, err, want)
		}
	}
}
