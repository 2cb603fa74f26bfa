package dependencies

import (
	"math"

	"github.com/open-policy-agent/opa/v1/ast"
)

// clockForm is a value as a function of the clock: factor × nanoseconds + offset.
// Seconds are {1e-9, 0}; "five minutes ago" in seconds is {1e-9, -300}.
type clockForm struct{ factor, offset float64 }

// sound reports whether moments can be computed from the form exactly enough: well
// within the margin of a validity. A double has 53 bits, and today's nanoseconds need
// 61: they are exact to some hundred, far less than the margin of a millisecond.
func (f clockForm) sound() bool {
	size := math.Abs(f.factor)
	return size >= 1e-15 && size <= 1e3 && math.Abs(f.offset) <= 1e19*size
}

// clockUnit is what is known of the variables of one unit that depend on the clock.
type clockUnit struct {
	analysis *Analysis
	rule     *ast.Rule
	forms    map[ast.Var]clockForm
	// defining are the expressions that give a variable its form.
	defining map[*ast.Expr]bool
}

// clockForms finds the variables of a unit that are a linear function of the clock.
func (a *Analysis) clockForms(rule *ast.Rule) *clockUnit {
	u := &clockUnit{a, rule, make(map[ast.Var]clockForm), make(map[*ast.Expr]bool)}
	for grown := true; grown; {
		grown = false
		eachExpr(rule, func(e *ast.Expr) {
			if !u.defining[e] && u.define(e) {
				u.defining[e], grown = true, true
			}
		})
	}
	return u
}

// define reports whether an expression gives a variable a form, and notes it. A form is
// given once: a second definition would be a comparison of the two.
func (u *clockUnit) define(e *ast.Expr) bool {
	if e.Negated || len(e.With) > 0 {
		return false
	}
	v, form, ok := u.formOf(e)
	if !ok || !isLocal(v) || !form.sound() {
		return false
	}
	if _, known := u.forms[v]; known {
		return false
	}
	u.forms[v] = form
	return true
}

// formOf recognises the expressions that define: a call of the clock, an operation
// with a constant, and another name for either or for a rule.
func (u *clockUnit) formOf(e *ast.Expr) (ast.Var, clockForm, bool) {
	switch {
	case isCall(e, ast.NowNanos.Name, 1):
		v, ok := e.Operand(0).Value.(ast.Var)
		return v, clockForm{factor: 1}, ok
	case e.IsEquality():
		return u.renamed(e.Operand(0), e.Operand(1))
	}
	for name, apply := range linear {
		if !isCall(e, name, 3) {
			continue
		}
		v, ok := e.Operand(2).Value.(ast.Var)
		if !ok {
			return "", clockForm{}, false
		}
		form, ok := u.applied(apply, e.Operand(0), e.Operand(1))
		return v, form, ok
	}
	return "", clockForm{}, false
}

// renamed recognises `x = y` where one side has a form and the other is a variable
// without.
func (u *clockUnit) renamed(a, b *ast.Term) (ast.Var, clockForm, bool) {
	for range 2 {
		if v, ok := a.Value.(ast.Var); ok {
			if _, known := u.forms[v]; !known {
				if form, ok := u.form(b); ok {
					return v, form, true
				}
			}
		}
		a, b = b, a
	}
	return "", clockForm{}, false
}

// form returns the form of a variable or of a clock rule.
func (u *clockUnit) form(t *ast.Term) (clockForm, bool) {
	switch v := t.Value.(type) {
	case ast.Var:
		form, ok := u.forms[v]
		return form, ok
	case ast.Ref:
		if len(u.analysis.clockRules) == 0 {
			return clockForm{}, false
		}
		form, ok := u.analysis.clockRules[v.String()]
		return form, ok
	}
	return clockForm{}, false
}

// linear :: built-in → what it makes of a form and a constant, or of a constant and
// a form.
var linear = map[string]func(f clockForm, c float64, formFirst bool) (clockForm, bool){
	ast.Plus.Name: func(f clockForm, c float64, _ bool) (clockForm, bool) {
		return clockForm{f.factor, f.offset + c}, true
	},
	ast.Minus.Name: func(f clockForm, c float64, formFirst bool) (clockForm, bool) {
		if formFirst {
			return clockForm{f.factor, f.offset - c}, true
		}
		return clockForm{-f.factor, c - f.offset}, true
	},
	ast.Multiply.Name: func(f clockForm, c float64, _ bool) (clockForm, bool) {
		return clockForm{f.factor * c, f.offset * c}, true
	},
	ast.Divide.Name: func(f clockForm, c float64, formFirst bool) (clockForm, bool) {
		return clockForm{f.factor / c, f.offset / c}, formFirst && c != 0
	},
}

// applied applies a linear operation to two operands: a form and a constant, in either
// order.
func (u *clockUnit) applied(
	apply func(clockForm, float64, bool) (clockForm, bool), a, b *ast.Term,
) (clockForm, bool) {
	if form, ok := u.form(a); ok {
		if c, ok := constant(b); ok {
			return apply(form, c, true)
		}
	}
	if form, ok := u.form(b); ok {
		if c, ok := constant(a); ok {
			return apply(form, c, false)
		}
	}
	return clockForm{}, false
}

// constant returns the number that a term is.
func constant(t *ast.Term) (float64, bool) {
	n, ok := t.Value.(ast.Number)
	if !ok {
		return 0, false
	}
	return n.Float64()
}

// isCall reports whether an expression calls a built-in with n operands, of which
// the last may be where the value goes.
func isCall(e *ast.Expr, name string, n int) bool {
	terms, ok := e.Terms.([]*ast.Term)
	if !ok || len(terms) != n+1 {
		return false
	}
	ref, ok := terms[0].Value.(ast.Ref)
	return ok && ref.String() == name
}

// comparisons :: name of a built-in that compares two values by their order. Equality
// is not among them: the compiler uses it for unification too, and a rule that waits
// for one exact nanosecond has no use.
var comparisons = map[string]bool{
	ast.LessThan.Name: true, ast.LessThanEq.Name: true, ast.GreaterThan.Name: true,
	ast.GreaterThanEq.Name: true, ast.NotEqual.Name: true,
}

// compares reports whether an expression compares a variable that has a form with
// something that has none.
func (u *clockUnit) compares(e *ast.Expr) bool {
	terms, ok := e.Terms.([]*ast.Term)
	if !ok || len(terms) < 3 || len(terms) > 4 || len(e.With) > 0 {
		return false
	}
	operator, ok := terms[0].Value.(ast.Ref)
	if !ok || !comparisons[operator.String()] {
		return false
	}
	_, left := u.formOfVar(terms[1])
	_, right := u.formOfVar(terms[2])
	return left != right
}

// formOfVar returns the form of a variable. A reference to a clock rule has none here:
// the compiler gives it a variable first, and where it does not, the clock escapes.
func (u *clockUnit) formOfVar(t *ast.Term) (clockForm, bool) {
	v, ok := t.Value.(ast.Var)
	if !ok {
		return clockForm{}, false
	}
	form, ok := u.forms[v]
	return form, ok
}
