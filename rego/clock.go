package rego

import (
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

// clockRule returns the form of a rule's value, if all of the rule is there to make it.
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
func (a *analysis) clock(rule *ast.Rule) {
	u := a.clockForms(rule)
	var compared []*ast.Expr
	eachExpr(rule, func(e *ast.Expr) {
		if u.compares(e) {
			compared = append(compared, e)
		}
	})
	if a.mocked {
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
