package evaluator

import (
	"fmt"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/opaque"
)

// plainSource is the source of an input that has no sealed parts.
type plainSource struct{ *ast.Term }

func (d plainSource) Exists() bool                         { return true }
func (d plainSource) Sealed(*opaque.Path) bool             { return false }
func (d plainSource) Seal(_ *opaque.Path, b []byte) []byte { return b }
func (d plainSource) At(p *opaque.Path) (*ast.Term, error) {
	t := d.Term
	for _, key := range p.Keys {
		if t = opaque.Get(t, key); t == nil {
			return nil, nil
		}
	}
	return t, nil
}

// stepsOf returns how many bodies an evaluation of data.p.allow begins.
func stepsOf(t *testing.T, module, input string) uint {
	t.Helper()
	compiler, err := ast.CompileModulesWithOpt(map[string]string{"p.rego": module}, ast.CompileOpts{ParserOptions: ast.ParserOptions{RegoVersion: ast.RegoV1}})
	if err != nil {
		t.Fatal(err)
	}
	c := NewCompiler(compiler, ast.NewObject())
	q, unknown := c.Compile(ast.MustParseRef("data.p.allow"))
	if q == nil || len(unknown) > 0 {
		t.Fatalf("the unknown forms are %v", unknown)
	}
	m := q.machine()
	m.asks = c.Vocabulary().Begin(plainSource{ast.MustParseTerm(input)}, topdown.BuiltinContext{}, 0, true)
	defer m.asks.End()
	if value := m.force(q.at, q.value(q.layout.enter(m))); m.err != nil || value == nil || value.String() != "true" {
		t.Errorf("allow is %v, with the error %v", value, m.err)
	}
	return m.steps
}

// TestFewOfManyRulesAreEvaluated: the number of rules makes no difference for a request that one of them allows.
func TestFewOfManyRulesAreEvaluated(t *testing.T) {
	const input = `{"method": "GET", "path": "/service-77/x", "parts": ["service-77", "x"], "roles": ["a", "role-77"], "port": 8077, "o": {"k": "role-77", "j": "x"}}`
	for _, form := range []string{
		`allow if { input.method == "GET"; input.path == "/service-N/x" }`,
		`allow if { path := input.path; "/service-N/x" == path }`,
		`allow if { input.method == "GET"; startswith(input.path, "/service-N/") }`,
		`allow if { endswith(input.path, "-N/x") }`,
		`allow if { input.path in {"/service-N/x", "/service-N/y"} }`,
		`allow if { strings.any_prefix_match(input.path, ["/service-N/", "/other-N"]) }`,
		`allow if { strings.any_suffix_match(input.path, ["-N/x", "/other-N"]) }`,
		`allow if { glob.match("/service-N/*", ["/"], input.path) }`,
		`allow if { input.method == "GET"; input.port == 80N }`,
		`allow if { input.port in {80N, 90N} }`,
		`of(x) if x == 80N` + "\n" + `allow if of(input.port)`,
		`allow if { "role-N" in input.roles }`,
		`allow if { input.roles[_] == "role-N" }`,
		`allow if { input.parts[0] == "service-N" }`,
		`allow if { ["service-N", _] = input.parts }`,
		`allow if { input.o.k == "role-N"; input.o.j == "x" }`,
		`names contains "N" if input.path == "/service-N/x"` + "\n" + `allow if names["77"]`,
		`of(x, y) if { x == "role-N"; y == input.path }` + "\n" + `allow if of(input.o.k, input.path)`,
		`value := input.path if { count(input.roles) > 0; input.o.k == "role-N" }` + "\n" + `allow if value`,
	} {
		rule, last, _ := strings.Cut(form, "\n")
		var module strings.Builder
		module.WriteString("package p\n" + last + "\n")
		for i := range 200 {
			module.WriteString(strings.ReplaceAll(rule, "N", fmt.Sprint(i)) + "\n")
		}
		if steps := stepsOf(t, module.String(), input); steps > 8 {
			t.Errorf("%s: %d bodies were begun", form, steps)
		}
	}
}

// TestWhatTakesLongComesLast: a body that cannot hold is not begun with what takes long, such as the function here.
func TestWhatTakesLongComesLast(t *testing.T) {
	for _, needed := range []string{
		`input.a == "b"`, `"b" == input.a`, `startswith(input.a, "b")`, `input.a in {"b", "c"}`, `input.missing`, `x := input.missing`,
		`["b", _] = input.m`, `"b" in input.m`,
	} {
		module := fmt.Sprintf(`package p
long(x) if { some y in input.l; y == x }
allow if { long(input.c); %s }
allow if { input.a == "z" } else := 2 if { long(input.c); %[1]s }
allow if input.a == "a"
`, needed)
		if steps := stepsOf(t, module, `{"a": "a", "c": "c", "l": ["a", "c"], "m": ["a", "c"]}`); steps > 4 {
			t.Errorf("%s: %d bodies were begun", needed, steps)
		}
	}
}
