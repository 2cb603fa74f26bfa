package dependencies

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/instrument"
)

// A decision that reads the clock can be cached until the moment at which it
// would first change. That moment is known where the clock reaches nothing but
// comparisons: the evaluation is a function of what they say, so its value stays the
// same until the first of those that it evaluated says something else.
//
// The analysis finds the variables that are a linear function of the clock
// (time.now_ns() / 1000000000 + 5) and puts a comparison of our own in the place of
// each that compares one with a value that does not depend on the clock. If the
// clock reaches anything else, the rule depends on the clock and is never cached.

// findClockRules finds the rules that are nothing but a function of the clock. One
// may be made of another, so it looks until there are no more.
func (a *Analysis) findClockRules(rules []*ast.Rule) {
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

// clockRule returns the form of a rule's value, if all of the rule is there to make it:
// a further condition could make it undefined at times, which is no linear function.
func (a *Analysis) clockRule(rule *ast.Rule) (clockForm, bool) {
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
// comparisons alone gets ours in their place; any other depends on the clock. If built-ins may
// be mocked, ours stand in for none.
func (a *Analysis) clock(rule *ast.Rule) {
	u := a.clockForms(rule)
	var compared []*ast.Expr
	eachExpr(rule, func(e *ast.Expr) {
		if u.compares(e) {
			compared = append(compared, e)
		}
	})
	if a.mocked {
		a.units[rule].dependsOnClock = len(compared) > 0 || u.escapes(compared) || verifiesToken(rule)
		return
	}
	eachExpr(rule, a.Builtins.CacheToken)
	if u.escapes(compared) {
		a.units[rule].dependsOnClock = true
		return
	}
	for _, e := range compared {
		a.compareClock(e, u)
	}
}

// clocked is an instrumented comparison: the operand that is compared with the clock, as the
// expression's terms count it, and what of the clock it is compared with.
type clocked struct {
	operand int
	form    clockForm
}

// compareClock instruments a comparison of a function of the clock with a value. The
// comparison itself stays OPA's; before it, the moment is noted at which it would
// change.
//
//	time.now_ns() / 1000000000 < token.exp     # changes when the clock reaches exp seconds
func (a *Analysis) compareClock(e *ast.Expr, u *clockUnit) {
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
	a.clocked[e] = clocked{1 + value, form}
	a.Builtins.Replace(e, original, func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if v := instrument.Of(bctx); v != nil {
			v.ChangesWith(operands[value], form.factor, form.offset)
		}
		return compare(bctx, operands, iter)
	})
}

// escapes reports whether the clock is in the unit anywhere but where it defines a form
// and where one is compared. It counts instead of following values: if all places
// together are as many as the allowed ones, there is no other place.
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
	analysis *Analysis
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
func (a *Analysis) touchesClock(ref ast.Ref) bool {
	return len(a.clockRules) > 0 && slices.ContainsFunc(a.RulesAt(ref), func(r *ast.Rule) bool {
		_, ok := a.clockRules[r.Ref().String()]
		return ok
	})
}
