package dependencies

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// What the analysis takes for granted about OPA is held here: README.md lists it.

// compiled returns a module with import rego.v2 as the compiler of OPA makes it.
func compiled(t testing.TB, text string) *ast.Compiler {
	t.Helper()
	compiler, err := ast.CompileModules(map[string]string{"m.rego": "package p\nimport rego.v2\n" + text})
	if err != nil {
		t.Fatal(err)
	}
	return compiler
}

// TestTheFormOfRulesIsKnown: a field that a new version of OPA brings may change what an expression means, so
// that somebody has to decide on it, as on negation and modifiers.
func TestTheFormOfRulesIsKnown(t *testing.T) {
	for node, want := range map[reflect.Type]string{
		reflect.TypeFor[ast.Rule](): "Annotations Body Default Else Head Location Module", reflect.TypeFor[ast.Head](): "Args Assign Key Location Name Reference Value",
		reflect.TypeFor[ast.Expr](): "Generated Index Location Negated Terms With", reflect.TypeFor[ast.Term](): "Location Value",
		reflect.TypeFor[ast.Every](): "Body Domain Key Location Value", reflect.TypeFor[ast.Not](): "Body ExplicitBody Location",
		reflect.TypeFor[ast.LogicalAnd](): "ExplicitLhs ExplicitRhs Lhs Location Rhs", reflect.TypeFor[ast.LogicalOr](): "ExplicitLhs ExplicitRhs Lhs Location Rhs",
		reflect.TypeFor[ast.ArrayComprehension](): "Body Term", reflect.TypeFor[ast.SetComprehension](): "Body Term",
		reflect.TypeFor[ast.ObjectComprehension](): "Body Key Value",
	} {
		var fields []string
		for _, f := range reflect.VisibleFields(node) {
			if f.IsExported() {
				fields = append(fields, f.Name)
			}
		}
		slices.Sort(fields)
		if got := strings.Join(fields, " "); got != want {
			t.Errorf("%s has the fields %s, want %s", node, got, want)
		}
	}
}

// newValue and newTerms are kinds of values and of expressions that no version of OPA has.
type (
	newValue struct{ ast.Value }
	newTerms struct{ Body ast.Body }
)

// TestWhatIsNewIsNotUnderstood: of a rule with a kind of term or expression that the analysis does not
// know everything is read, and nothing is cached.
func TestWhatIsNewIsNotUnderstood(t *testing.T) {
	terms, exprs := nodes(compiled(t, everyKind))
	for i := range len(terms) + len(exprs) {
		compiler := compiled(t, everyKind)
		terms, exprs := nodes(compiler)
		if i < len(terms) {
			terms[i].Value = newValue{ast.String("x")}
		} else {
			exprs[i-len(terms)].Terms = &newTerms{}
		}
		known := Analyse(compiler, ast.NewObject(), nil, false).Of(ast.MustParseRef("data.p.allow"))
		if known.Cacheable || !known.Reads.Whole() {
			t.Errorf("node %d: it reads %s, cacheable is %v", i, known.Reads, known.Cacheable)
		}
	}
	if len(terms) < 50 || len(exprs) < 15 {
		t.Errorf("%d terms and %d expressions were tried", len(terms), len(exprs))
	}
}

// everyKind is a rule with every kind of closure, and with calls, references and collections.
const everyKind = `allow if {
	count([x | x := input.a; x == "x"]) == 1; count({1 | input.b}) == 1; count({"k": 1 | input.c}) == 1
	{ input.d == 1 } or { not { every q in [1] { q == input.e } } }
	{ [y, {"z": 2}] = input.f; y != 1 } and { f(input.g) }
}
f(x) if not x.y[input.h]`

// nodes returns the terms and expressions of a module's bodies, without the names of what is called.
func nodes(compiler *ast.Compiler) (terms []*ast.Term, exprs []*ast.Expr) {
	names := map[*ast.Term]bool{}
	for _, rule := range compiler.Modules["m.rego"].Rules {
		ast.NewGenericVisitor(func(x any) bool {
			switch x := x.(type) {
			case *ast.Term:
				if names[x] {
					return true
				}
				terms = append(terms, x)
			case *ast.Expr:
				exprs = append(exprs, x)
				names[x.OperatorTerm()] = true
			}
			return false
		}).Walk(rule.Body)
	}
	return terms, exprs
}

// TestTheResultOfACallFollowsItsOperands: that is how the analysis tells them apart.
func TestTheResultOfACallFollowsItsOperands(t *testing.T) {
	for _, name := range slices.Concat(slices.Collect(maps.Keys(observable)), slices.Collect(maps.Keys(clockBuiltins))) {
		builtin := ast.BuiltinMap[name]
		args := builtin.Decl.FuncArgs()
		var operands []string
		for i := range args.Args {
			operands = append(operands, fmt.Sprintf("input.a%d", i))
		}
		found := false
		for _, e := range compiled(t, fmt.Sprintf("x := %s(%s)", name, strings.Join(operands, ", "))).Modules["m.rego"].Rules[0].Body {
			if e.Operator().String() != name {
				continue
			}
			found = true
			if terms := e.Operands(); len(terms) != len(operands)+1 || !strings.HasPrefix(terms[len(operands)].String(), ast.LocalVarPrefix) {
				t.Errorf("%s: the result is not behind the operands: %s", name, e)
			}
		}
		if !found || args.Variadic != nil || builtin.Relation {
			t.Errorf("%s: the call is found: %v; it takes any number of operands: %v, is a relation: %v", name, found, args.Variadic != nil, builtin.Relation)
		}
	}
}

// position is where an expression stands.
type position struct {
	body *ast.Expr
	i    int
}

// TestExpressionsAreEvaluatedInOrder: OPA begins each body with its first expression, and goes on to the next,
// as the compiler has put them in order.
func TestExpressionsAreEvaluatedInOrder(t *testing.T) {
	compiler := compiled(t, `
		r contains 1 if { startswith(input.path, x); x = y.z; y = data.list[_]; input.a == 1; f(y) }
		f(y) if { z == "/"; count([1 | v > w; w = 1; v = y.n]) == 1; z = y.z }
		r contains 2 if { q == 1; { c < d; c = 1; d = 2 } and { not { u == q; u = input.path } }; { t == 2; t = 3 } or { q == 1 }; q = data.list[_].n }
		r contains 3 if { every v in data.list { w > 0; w = v.n; v.n < 9 } }
		allow if { x != 1; x = 1 } else if { count(r) == y; y = 3 }`)
	places := map[*ast.Expr]position{}
	ast.NewGenericVisitor(func(x any) bool {
		if body, ok := x.(ast.Body); ok {
			for i, e := range body {
				places[e] = position{body[0], i}
			}
		}
		return false
	}).Walk(compiler.Modules["m.rego"])
	tracer := topdown.NewBufferTracer()
	if !allows(t, compiler, `{"path": "/y", "a": 1}`, tracer) {
		t.Error("the rule does not hold")
	}
	last := map[uint64]position{}
	evaluated := map[*ast.Expr]bool{}
	for _, event := range *tracer {
		e, ok := event.Node.(*ast.Expr)
		if place, known := places[e]; ok && known && event.Op == topdown.EvalOp {
			evaluated[e] = true
			if before, begun := last[event.QueryID]; begun && place.body != before.body || place.i > before.i+1 || !begun && place.i > 0 {
				t.Errorf("expression %d, %s, is evaluated after %d", place.i, e, before.i)
			}
			last[event.QueryID] = place
		}
	}
	if len(evaluated) < len(places)-2 {
		t.Errorf("%d expressions of %d were evaluated", len(evaluated), len(places))
	}
}

// TestClosuresHaveWhatIsBoundOutside: a variable that has a value in a body has it in closures of the body.
func TestClosuresHaveWhatIsBoundOutside(t *testing.T) {
	for _, closure := range []string{
		"count([1 | x == k]) == 1", "{1 | x == k} == {1}", `{k: 1 | x == k} == {k: 1}`, "every q in [1] { x == k; q == 1 }", "not { x != k }",
		"{ x == k } or { false }", "{ false } or { x == k }", "{ x == k } and { x == k }", "count([1 | not { x != k }; every q in [1] { x == k; q == 1 }]) == 1",
		"[v | v := data.list[_].n; v == x] == [k]", "{i | data.list[i].n == x} == {k - 1}", "count([1 | x = k]) == 1", // OPA makes an index of some
	} {
		compiler := compiled(t, "allow if { count({k | some k in [1, 2, 3]; x := data.list[_].n; x == k; "+closure+"}) == 2 }")
		if !allows(t, compiler, "{}", nil) {
			t.Errorf("%s does not hold", closure)
		}
	}
}

// allows reports whether data.p.allow is defined. The tracer sees how it is evaluated; nil is none.
func allows(t *testing.T, compiler *ast.Compiler, input string, tracer *topdown.BufferTracer) bool {
	t.Helper()
	store := inmem.NewFromObject(map[string]any{"list": []any{map[string]any{"z": "/x", "n": 1}, map[string]any{"z": "/", "n": 2}}})
	found, err := topdown.NewQuery(ast.MustParseBody("data.p.allow")).WithCompiler(compiler).WithStore(store).
		WithTransaction(storage.NewTransactionOrDie(t.Context(), store)).WithInput(ast.MustParseTerm(input)).WithQueryTracer(tracer).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

// constants are some that are written in different ways.
var constants = []ast.Value{
	ast.Null{}, ast.Boolean(true), ast.Number("1"), ast.Number("1.0"), ast.Number("1e0"), ast.Number("-0"), ast.Number("1e400"), ast.Number("9007199254740993"),
	ast.Number("0.1"), ast.Number("18446744073709551616"), ast.NewArray(), ast.NewObject(), ast.NewSet(),
}

// TestConstantsAreReadAsTheyAreWritten: the constants of a call stand in the read set as text. What is no Rego
// is read whole.
func TestConstantsAreReadAsTheyAreWritten(t *testing.T) {
	for _, v := range constants {
		holdsWritten(t, v, false)
	}
	for r := range rune(0x3000) {
		holdsWritten(t, ast.String(string(r)), r < ' ' || r == 0x7f)
	}
	for _, text := range []string{"\xff", "é", "\u2028", "\U0001f600", "\U000e0001", `"`, `\`, "`", "\x00", "a\x00b", "{x}", "$x"} {
		holdsWritten(t, ast.String(text), true)
	}
}

// holdsWritten checks a constant, alone and in others. Some may be no Rego.
func holdsWritten(t *testing.T, v ast.Value, may bool) {
	t.Helper()
	for _, term := range []*ast.Term{
		ast.NewTerm(v), ast.ArrayTerm(ast.NewTerm(v), ast.NewTerm(v)), ast.SetTerm(ast.NewTerm(v)), ast.ObjectTerm([2]*ast.Term{ast.StringTerm("k"), ast.NewTerm(v)}),
	} {
		read, err := ast.ParseTerm(term.String())
		if err == nil && (!read.Equal(term) || read.String() != term.String()) || err != nil && !may {
			t.Errorf("%s is read as %v, the error is %v", term, read, err)
		}
	}
}

// FuzzConstants looks for a text that is not.
func FuzzConstants(f *testing.F) {
	f.Add("x")
	f.Fuzz(func(t *testing.T, text string) { holdsWritten(t, ast.String(text), true) })
}
