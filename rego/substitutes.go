package rego

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

// substitutes are the built-ins of ours that stand in compiled modules for others:
// they give the same value and note on the horizon when it would change. A policy
// cannot call them by name, for they are put there after it was compiled.
type substitutes struct {
	// builtins :: name → built-in.
	builtins map[string]*topdown.Builtin
}

// substitutePrefix cannot be written in Rego.
const substitutePrefix = "understudy built-in "

func (a *analysis) isOurs(name string) bool {
	_, ok := a.ours.builtins[name]
	return ok
}

// replace puts a built-in in the place of an expression's operator.
func (s *substitutes) replace(e *ast.Expr, original *ast.Builtin, f topdown.BuiltinFunc) {
	ours := s.add(types.NewFunction(original.Decl.FuncArgs().Args, original.Decl.Result()), f)
	terms := e.Terms.([]*ast.Term)
	terms[0] = ast.NewTerm(ours.Ref()).SetLocation(terms[0].Location)
}

// add makes a built-in with a name of its own.
func (s *substitutes) add(decl *types.Function, f topdown.BuiltinFunc) *ast.Builtin {
	if s.builtins == nil {
		s.builtins = make(map[string]*topdown.Builtin)
	}
	ours := &ast.Builtin{Name: fmt.Sprintf("%s%d", substitutePrefix, len(s.builtins)), Decl: decl}
	s.builtins[ours.Name] = &topdown.Builtin{Decl: ours, Func: f}
	return ours
}

// compareClock substitutes a comparison of a function of the clock with a value.
func (s *substitutes) compareClock(e *ast.Expr, u *clockUnit) {
	terms := e.Terms.([]*ast.Term)
	original := ast.BuiltinMap[terms[0].Value.String()]
	compare := topdown.GetBuiltin(original.Name)
	form, onLeft := u.formOfVar(terms[1])
	value := 0
	if onLeft {
		value = 1
	} else {
		form, _ = u.formOfVar(terms[2])
	}
	s.replace(e, original, func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if h := horizonOf(bctx); h != nil {
			form.note(h, operands[value])
		}
		return compare(bctx, operands, iter)
	})
}
