package change

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// variableNames gives the variables of a rule other names, each a name of its own, in all places: what it makes of a
// rule decides as the rule does. So two rules with the same expressions under any two namings decide alike.
type variableNames func(ast.Var) string

// text is an expression, or a head, under a naming. Equal texts mean the same.
func (s *scope) text(x any, by variableNames) string {
	switch x := x.(type) {
	case *ast.Expr:
		return s.expressionText(x.Copy(), by)
	case *ast.Head:
		return s.renamed(x.Copy(), by)
	default:
		panic(fmt.Sprintf("change: the text of a %T", x))
	}
}

// expressionText is that of a copy of an expression. `a == b` is `b == a`, and `a < b` is `b > a`.
func (s *scope) expressionText(e *ast.Expr, by variableNames) string {
	terms, ok := e.Terms.([]*ast.Term)
	if !ok || len(terms) != 3 || len(e.With) > 0 {
		return s.renamed(e, by)
	}
	a, b := s.termText(terms[1], by), s.termText(terms[2], by)
	operator := e.Operator().String()
	switch operator {
	case ast.Equal.Name, ast.NotEqual.Name, ast.Equality.Name:
		if b < a {
			a, b = b, a
		}
	case ast.GreaterThan.Name, ast.GreaterThanEq.Name:
		operator = map[string]string{ast.GreaterThan.Name: ast.LessThan.Name, ast.GreaterThanEq.Name: ast.LessThanEq.Name}[operator]
		a, b = b, a
	case ast.LessThan.Name, ast.LessThanEq.Name:
	default:
		return s.renamed(e, by)
	}
	text := operator + "(" + a + ", " + b + ")"
	if e.Negated {
		text = "not " + text
	}
	return text
}

// termText is that of a copy of a term.
func (s *scope) termText(t *ast.Term, by variableNames) string {
	return s.renamed(ast.NewExpr(t.Copy()), by)
}

// renamed returns the text of what may be modified.
func (s *scope) renamed(x fmt.Stringer, by variableNames) string {
	out, err := ast.Transform(&renamer{s, by}, x)
	if err != nil {
		return x.String() // it is like no other but itself
	}
	return fmt.Sprint(out)
}

// renamer gives variables their names, and references what their imports stand for.
type renamer struct {
	scope *scope
	by    variableNames
}

// Transform implements ast.Transformer.
func (r *renamer) Transform(x any) (any, error) {
	switch x := x.(type) {
	case *ast.SomeDecl: // of which OPA transforms nothing by itself
		for i, t := range x.Symbols {
			value, err := ast.Transform(r, t.Value)
			if err != nil {
				return nil, err
			}
			x.Symbols[i] = ast.NewTerm(value.(ast.Value))
		}
	case *ast.Expr:
		// A negation with rego.v2 means something else than one without. Without braces they would have one text.
		if not, ok := x.Terms.(*ast.Not); ok {
			not.ExplicitBody = true
		}
	case ast.Ref:
		return r.scope.resolved(x), nil
	case ast.Var:
		switch {
		case r.scope.isLocal(x):
			return ast.Var(r.by(x)), nil
		case r.scope.aliases[x] != nil && !r.scope.rules[x]:
			return r.scope.aliases[x], nil
		}
	}
	return x, nil
}

// locals are the variables of a rule, by first occurrence.
func (s *scope) locals(r *ast.Rule) (out []ast.Var) {
	seen := make(map[ast.Var]bool)
	ast.WalkVars(r, func(v ast.Var) bool {
		if s.isLocal(v) && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
		return false
	})
	return out
}

// numbered names variables by first occurrence.
func numbered(locals []ast.Var) variableNames {
	names := make(map[ast.Var]string, len(locals))
	for i, v := range locals {
		names[v] = fmt.Sprintf("‹%d›", i)
	}
	return named(names)
}

// common names the variables of two bodies so that they have many expressions in common: variables of one
// name are the same, and so are those that stand in the same places.
func common(x, y *body, in, other *scope) (of, ofOther variableNames) {
	here, there := make(map[ast.Var]bool), make(map[ast.Var]bool)
	for _, v := range in.locals(x.rule) {
		here[v] = true
	}
	for _, v := range other.locals(y.rule) {
		there[v] = true
	}
	names, otherNames := make(map[ast.Var]string), make(map[ast.Var]string)
	both := func(v ast.Var) bool { return here[v] && there[v] }
	left := slices.DeleteFunc(slices.Sorted(maps.Keys(here)), both)
	right := slices.DeleteFunc(slices.Sorted(maps.Keys(there)), both)
	for _, v := range left {
		mine := in.places(x, v, both)
		i := slices.IndexFunc(right, func(w ast.Var) bool { return other.places(y, w, both) == mine })
		if i >= 0 {
			names[v], otherNames[right[i]] = "‹="+string(v)+"›", "‹="+string(v)+"›"
			right = slices.Delete(right, i, i+1)
		} else {
			names[v] = "‹-" + string(v) + "›"
		}
	}
	for _, w := range right {
		otherNames[w] = "‹+" + string(w) + "›"
	}
	return named(names), named(otherNames)
}

func named(names map[ast.Var]string) variableNames {
	return func(v ast.Var) string {
		if name, ok := names[v]; ok {
			return name
		}
		return "‹" + string(v) + "›"
	}
}

// places is where a variable stands: the expressions that have it, with other variables that only one of
// two bodies has not told apart.
func (s *scope) places(of *body, v ast.Var, both func(ast.Var) bool) string {
	var out []string
	by := func(w ast.Var) string {
		switch {
		case w == v:
			return "‹•›"
		case both(w):
			return "‹" + string(w) + "›"
		default:
			return "‹?›"
		}
	}
	for _, e := range of.expressions {
		if text := s.text(e.ast, by); strings.Contains(text, "‹•›") {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}
