package compile_test

import (
	"testing"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/compile"
)

// TestReleasedTermsHaveThePlaceOfTheirExpression: a term has no place of its own, but that of
// the innermost expression that it stands in, and constants that OPA shares stay without one.
func TestReleasedTermsHaveThePlaceOfTheirExpression(t *testing.T) {
	modules, err := compile.Parse(t.Context(), map[string]string{"a.rego": `package a

allow if {
	input.method == "GET"
	some role in data.roles
	names := {lower(name) |
		some name in role.names
		name != "nobody"
	}
	every name in names {
		startswith(name, "u")
		true
	}
} else := false if {
	not input.x
}

table[key] := value if value := input.table[key]
`})
	if err != nil {
		t.Fatal(err)
	}
	compiler := compile.New(t.Context())
	if compiler.Compile(modules); compiler.Failed() {
		t.Fatal(compiler.Errors)
	}
	compile.Release(compiler)
	places := make(map[*ast.Location]bool)
	terms := 0
	for _, m := range compiler.Modules {
		ast.WalkExprs(m, func(e *ast.Expr) bool { places[e.Location] = true; return false })
		ast.WalkRules(m, func(r *ast.Rule) bool { places[r.Head.Location] = true; return false })
		for _, rule := range m.Rules {
			ast.WalkTerms(rule, func(term *ast.Term) bool {
				if terms++; term.Location != nil && !places[term.Location] {
					t.Errorf("%v has the place %v of no expression", term, term.Location)
				}
				return false
			})
		}
		ast.WalkExprs(m, func(e *ast.Expr) bool {
			if call, ok := e.Terms.([]*ast.Term); ok && call[0].Location != nil && e.Location != nil && call[0].Location.Row != e.Location.Row {
				t.Errorf("%v is in row %d, and its operator in %d", e, e.Location.Row, call[0].Location.Row)
			}
			return false
		})
	}
	if terms < 50 {
		t.Errorf("only %d terms were met", terms)
	}
	for _, shared := range []*ast.Term{ast.BooleanTerm(true), ast.StringTerm("input"), ast.DefaultRootDocument, ast.InputRootDocument, ast.Equality.Ref()[0], ast.InternedTerm(1)} {
		if shared.Location != nil {
			t.Errorf("%v has got the place %v", shared, shared.Location)
		}
	}
}
