package rego

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/types"
)

// margin is how much earlier than computed a moment is taken to be: more than any
// rounding on the way there.
const margin = float64(time.Millisecond)

// forever is a horizon that no moment bounds.
const forever = math.MaxInt64

// horizon collects the first moment at which an evaluation would give another value,
// in nanoseconds since 1970. It is the context of one evaluation and is used by its
// goroutine alone.
type horizon struct {
	context.Context
	now   int64
	until int64
}

type horizonKey struct{}

// Value makes the horizon itself known below it.
func (h *horizon) Value(key any) any {
	if key == (horizonKey{}) {
		return h
	}
	return h.Context.Value(key)
}

// changesAt notes that something changes at a moment. A moment that is past, by more
// than the margin, never comes again.
func (h *horizon) changesAt(moment float64) {
	switch {
	case math.IsNaN(moment) || math.Abs(moment-float64(h.now)) <= 2*margin:
		h.until = h.now
	case moment < float64(h.now):
	case moment < forever:
		h.until = min(h.until, int64(moment-margin))
	}
}

func horizonOf(bctx topdown.BuiltinContext) *horizon {
	if bctx.Context == nil {
		return nil
	}
	h, _ := bctx.Context.Value(horizonKey{}).(*horizon)
	return h
}

// substitutes are the built-ins of ours that stand in compiled modules for others:
// they give the same value and note on the horizon when it would change. A policy
// cannot call them by name, for they are put there after it was compiled.
type substitutes struct {
	// builtins :: name → built-in.
	builtins map[string]*topdown.Builtin
}

// substitutePrefix cannot be written in Rego.
const substitutePrefix = "understudy clock "

func (a *analysis) isOurs(name string) bool {
	_, ok := a.ours.builtins[name]
	return ok
}

// replace puts a built-in in the place of an expression's operator.
func (s *substitutes) replace(e *ast.Expr, original *ast.Builtin, f topdown.BuiltinFunc) {
	if s.builtins == nil {
		s.builtins = make(map[string]*topdown.Builtin)
	}
	name := fmt.Sprintf("%s%d", substitutePrefix, len(s.builtins))
	decl := &ast.Builtin{Name: name, Decl: types.NewFunction(original.Decl.FuncArgs().Args, original.Decl.Result())}
	s.builtins[name] = &topdown.Builtin{Decl: decl, Func: f}
	terms := e.Terms.([]*ast.Term)
	terms[0] = ast.NewTerm(ast.Ref{ast.VarTerm(name)}).SetLocation(terms[0].Location)
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

// note tells the horizon when the form passes a value. Of what is no number the
// order to a number is always the same.
func (f clockForm) note(h *horizon, value *ast.Term) {
	n, ok := value.Value.(ast.Number)
	if !ok {
		return
	}
	x, ok := n.Float64()
	if !ok {
		h.until = h.now
		return
	}
	h.changesAt((x - f.offset) / f.factor)
}

// noteToken tells the horizon when a token begins and ends to be valid.
func noteToken(bctx topdown.BuiltinContext, h *horizon, token *ast.Term) {
	decode := topdown.GetBuiltin(ast.JWTDecode.Name)
	err := decode(bctx, []*ast.Term{token}, func(decoded *ast.Term) error {
		parts, ok := decoded.Value.(*ast.Array)
		if !ok || parts.Len() < 2 {
			return nil
		}
		claims, ok := parts.Elem(1).Value.(ast.Object)
		if !ok {
			return nil
		}
		for _, name := range []string{"exp", "nbf"} {
			if claim := claims.Get(ast.StringTerm(name)); claim != nil {
				clockForm{factor: 1e-9}.note(h, claim)
			}
		}
		return nil
	})
	if err != nil {
		// The two read tokens in slightly different ways: what one cannot decode the other
		// may accept.
		h.until = h.now
	}
}
