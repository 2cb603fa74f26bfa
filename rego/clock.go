package rego

import (
	"math"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A decision that reads the clock can be remembered until the moment at which it
// would first change. That moment is known where the clock reaches nothing but
// comparisons: the evaluation is a function of what they say, so its value stays the
// same until the first of those that it evaluated says something else.
//
// The analysis finds the variables that are a linear function of the clock
// (time.now_ns() / 1000000000 + 5) and puts a comparison of our own in the place of
// each that compares one with a value that does not depend on the clock. If the
// clock reaches anything else, the rule is unsteady and never remembered.

// clockForm is a value as a function of the clock: factor × nanoseconds + offset.
type clockForm struct{ factor, offset float64 }

// sound reports whether moments can be computed from the form exactly enough: well
// within the margin of a horizon.
func (f clockForm) sound() bool {
	size := math.Abs(f.factor)
	return size >= 1e-15 && size <= 1e3 && math.Abs(f.offset) <= 1e19*size
}

// comparisons :: name of a built-in that compares two values by their order.
var comparisons = map[string]bool{
	ast.LessThan.Name: true, ast.LessThanEq.Name: true, ast.GreaterThan.Name: true,
	ast.GreaterThanEq.Name: true, ast.NotEqual.Name: true,
}

// clockUnit is what is known of the variables of one unit that depend on the clock.
type clockUnit struct {
	analysis *analysis
	rule     *ast.Rule
	forms    map[ast.Var]clockForm
	// defining are the expressions that give a variable its form.
	defining map[*ast.Expr]bool
}

// clockForms finds the variables of a unit that are a linear function of the clock.
func (a *analysis) clockForms(rule *ast.Rule) *clockUnit {
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

// define reports whether an expression gives a variable a form, and notes it.
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

// findClockRules finds the rules that are nothing but a function of the clock. One
// may be made of another, so it looks until there are no more.
func (a *analysis) findClockRules(rules []*ast.Rule) {
	for grown := true; grown; {
		grown = false
		for _, rule := range rules {
			name := rule.Ref().String()
			if _, known := a.clockRules[name]; known || !a.alone(rule) {
				continue
			}
			if form, ok := a.clockRule(rule); ok {
				a.clockRules[name], grown = form, true
			}
		}
	}
}

func (a *analysis) clockRule(rule *ast.Rule) (clockForm, bool) {
	value, ok := rule.Head.Value.Value.(ast.Var)
	if !ok {
		return clockForm{}, false
	}
	u := a.clockForms(rule)
	form, ok := u.forms[value]
	if !ok || slices.ContainsFunc(rule.Body, func(e *ast.Expr) bool { return !u.defining[e] }) {
		return clockForm{}, false
	}
	return form, true
}

// clock looks at what a unit does with the clock. A unit in which it reaches
// comparisons alone gets ours in their place; any other is unsteady. If built-ins may
// be mocked, ours stand in for none.
func (a *analysis) clock(rule *ast.Rule, mocked bool) {
	u := a.clockForms(rule)
	var compared []*ast.Expr
	eachExpr(rule, func(e *ast.Expr) {
		if u.compares(e) {
			compared = append(compared, e)
		}
	})
	if mocked {
		a.units[rule].unsteady = len(compared) > 0 || u.escapes(compared) || verifiesToken(rule)
		return
	}
	eachExpr(rule, a.ours.askToken)
	if u.escapes(compared) {
		a.units[rule].unsteady = true
		return
	}
	for _, e := range compared {
		a.ours.compareClock(e, u)
	}
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

func (u *clockUnit) formOfVar(t *ast.Term) (clockForm, bool) {
	v, ok := t.Value.(ast.Var)
	if !ok {
		return clockForm{}, false
	}
	form, ok := u.forms[v]
	return form, ok
}

// escapes reports whether the clock is in the unit anywhere but where it defines a
// form and where one is compared.
func (u *clockUnit) escapes(compared []*ast.Expr) bool {
	allowed := occurrences{analysis: u.analysis, forms: u.forms}
	for e := range u.defining {
		allowed.count(e)
	}
	for _, e := range compared {
		allowed.count(e)
	}
	all := occurrences{analysis: u.analysis, forms: u.forms}
	for r := u.rule; r != nil; r = r.Else {
		all.count(r.Head.Reference)
		all.count(r.Head)
		all.count(r.Body)
	}
	_, isClock := u.analysis.clockRules[u.rule.Ref().String()]
	if isClock {
		// Its value is the clock's; whoever reads it is looked at by the same measure.
		all.n--
	}
	return all.n != allowed.n || all.unclear
}

// occurrences counts the places in which the clock is.
type occurrences struct {
	analysis *analysis
	forms    map[ast.Var]clockForm
	n        int
	// unclear says that a reference may lead to a clock rule and to more.
	unclear bool
}

func (o *occurrences) count(x any) { ast.NewGenericVisitor(o.visit).Walk(x) }

func (o *occurrences) visit(x any) bool {
	switch x := x.(type) {
	case ast.Var:
		if _, ok := o.forms[x]; ok {
			o.n++
		}
	case ast.Ref:
		if x.String() == ast.NowNanos.Name {
			o.n++
			return true
		}
		o.reference(x)
	}
	return false
}

// reference counts a reference to a clock rule. One that leads to a clock rule among
// others makes the clock a value like any other.
func (o *occurrences) reference(ref ast.Ref) {
	if len(o.analysis.clockRules) == 0 || !ref[0].Equal(ast.DefaultRootDocument) {
		return
	}
	if _, ok := o.analysis.clockRules[ref.String()]; ok {
		o.n++
		return
	}
	if o.analysis.touchesClock(ref) {
		o.unclear = true
	}
}

// touchesClock reports whether a reference may lead to a clock rule.
func (a *analysis) touchesClock(ref ast.Ref) bool {
	return len(a.clockRules) > 0 && slices.ContainsFunc(a.rulesAt(ref), func(r *ast.Rule) bool {
		_, ok := a.clockRules[r.Ref().String()]
		return ok
	})
}
