package change

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// mapConstants returns an expression with what f makes of its constants, in their order: of all but those
// in references, in keys and in sets with variables. The expression itself stays as it is.
func mapConstants(e *ast.Expr, f func(*ast.Term) *ast.Term) *ast.Expr {
	out := *e
	switch terms := e.Terms.(type) {
	case []*ast.Term:
		mapped := slices.Clone(terms)
		for i := 1; i < len(mapped); i++ {
			mapped[i] = mapTerm(mapped[i], f)
		}
		out.Terms = mapped
	case *ast.SomeDecl:
		d := *terms
		d.Symbols = mapTerms(terms.Symbols, f)
		out.Terms = &d
	case *ast.Every:
		every := *terms
		every.Domain, every.Body = mapTerm(terms.Domain, f), mapBody(terms.Body, f)
		out.Terms = &every
	case *ast.Term:
		if _, scalar := terms.Value.(ast.Boolean); !scalar {
			out.Terms = mapTerm(terms, f)
		}
	}
	out.With = nil
	for _, w := range e.With {
		one := *w
		one.Value = mapTerm(w.Value, f)
		out.With = append(out.With, &one)
	}
	return &out
}

func mapBody(of ast.Body, f func(*ast.Term) *ast.Term) ast.Body {
	out := make(ast.Body, len(of))
	for i, e := range of {
		out[i] = mapConstants(e, f)
	}
	return out
}

func mapTerms(of []*ast.Term, f func(*ast.Term) *ast.Term) []*ast.Term {
	out := make([]*ast.Term, len(of))
	for i, t := range of {
		out[i] = mapTerm(t, f)
	}
	return out
}

func mapTerm(t *ast.Term, f func(*ast.Term) *ast.Term) *ast.Term {
	if isConstant(t.Value) {
		return f(t)
	}
	var value ast.Value
	switch v := t.Value.(type) {
	case ast.Call:
		value = ast.Call(append([]*ast.Term{v[0]}, mapTerms(v[1:], f)...))
	case *ast.Array:
		var elements []*ast.Term
		v.Foreach(func(t *ast.Term) { elements = append(elements, mapTerm(t, f)) })
		value = ast.NewArray(elements...)
	case ast.Object:
		var pairs [][2]*ast.Term
		v.Foreach(func(k, v *ast.Term) { pairs = append(pairs, [2]*ast.Term{k, mapTerm(v, f)}) })
		value = ast.NewObject(pairs...)
	case *ast.ArrayComprehension:
		value = &ast.ArrayComprehension{Term: mapTerm(v.Term, f), Body: mapBody(v.Body, f)}
	case *ast.SetComprehension:
		value = &ast.SetComprehension{Term: mapTerm(v.Term, f), Body: mapBody(v.Body, f)}
	case *ast.ObjectComprehension:
		value = &ast.ObjectComprehension{Key: v.Key, Value: mapTerm(v.Value, f), Body: mapBody(v.Body, f)}
	default:
		return t
	}
	return &ast.Term{Value: value, Location: t.Location}
}

// isConstant reports whether a value has no variable, reference, call or comprehension.
func isConstant(v ast.Value) bool {
	constant := func(t *ast.Term) bool { return isConstant(t.Value) }
	switch v := v.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String:
		return true
	case *ast.Array:
		return !v.Until(func(t *ast.Term) bool { return !constant(t) })
	case ast.Set:
		return !v.Until(func(t *ast.Term) bool { return !constant(t) })
	case ast.Object:
		return !v.Until(func(k, v *ast.Term) bool { return !constant(k) || !constant(v) })
	}
	return false
}

// constants are those of an expression.
func constants(e *ast.Expr) (out []*ast.Term) {
	mapConstants(e, collect(&out))
	return out
}

// constantsIn are those of a term.
func constantsIn(t *ast.Term) (out []*ast.Term) {
	mapTerm(t, collect(&out))
	return out
}

func collect(into *[]*ast.Term) func(*ast.Term) *ast.Term {
	return func(t *ast.Term) *ast.Term {
		*into = append(*into, t)
		return t
	}
}

// shape is an expression without its constants.
func shape(e *ast.Expr) *ast.Expr { return mapConstants(e, placeholder) }

func placeholder(*ast.Term) *ast.Term { return ast.StringTerm("‹constant›") }
