package compile

import (
	"fmt"
	"math"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/bounds"
)

// The stages of OPA's compiler cannot be interrupted, and some take far more time than
// their text is long: a comprehension within a comprehension is checked about three
// times as often as the one around it, a body is put in order in the cube of its
// length, and who calls whom is followed for each rule anew. Twenty nested
// comprehensions, in 250 bytes, would keep a processor busy for hours, in the control
// plane and then in each sidecar. So a policy that would is refused before.

const (
	// maxRules is the most rules that a policy may have, counting each else.
	maxRules = 10_000
	// maxNesting is how deep terms may stand within one another.
	maxNesting = 500
	// maxEffort bounds the estimated effort of compiling a policy, in units that take
	// about a microsecond. One rule comes near it with 1,000 expressions in one body or
	// with 14 comprehensions within one another.
	maxEffort = 5_000_000

	// codeEffort is the Problem.Code of a policy that takes too long to compile.
	codeEffort = "effort_error"
)

// effort estimates what compiling takes, from one walk over the parsed modules: before
// any stage of the compiler, and in time linear in their length.
type effort struct {
	total float64
	// worst is the rule that takes most.
	worst     *ast.Rule
	worstCost float64
	rules     int
	// deepest is the rule in which terms are nested too deep, and longest that with a
	// number that is too long, if any.
	deepest, longest *ast.Rule
}

// TooMuch returns the problem of modules that take too long to compile, or nil. The
// worst rule is named, as that is what its author can change.
func TooMuch(modules map[string]*ast.Module) *Problem {
	e := &effort{}
	for _, module := range modules {
		for _, rule := range module.Rules {
			e.rule(rule)
		}
	}
	if e.deepest != nil { // what is nested deep is not walked further
		return effortProblem(e.deepest, fmt.Sprintf(
			"terms stand more than %d deep within one another. Give inner ones a name, or move them into the data.", maxNesting))
	}
	if large := firstTooLarge(modules); large != nil {
		return large
	}
	switch {
	case e.longest != nil:
		return effortProblem(e.longest, fmt.Sprintf("there is a number of more than %d digits. Nothing can be done with it in time.", bounds.MaxDigits))
	case e.rules > maxRules:
		return &Problem{Code: codeEffort, Message: fmt.Sprintf(
			"There are %d rules, counting each else; the limit is %d. Move what they have in common into the data, and iterate over it.",
			e.rules, maxRules)}
	case e.total > maxEffort:
		return effortProblem(e.worst, "it would take too long to compile. Move nested comprehensions, "+
			"and parts of a long body, into rules of their own.")
	}
	return nil
}

func effortProblem(rule *ast.Rule, what string) *Problem {
	p := &Problem{Code: codeEffort, Message: fmt.Sprintf("In the rule %s, %s", rule.Head.Ref(), what)}
	if rule.Location != nil {
		p.File, p.Row, p.Column = rule.Location.File, rule.Location.Row, rule.Location.Col
	}
	return p
}

// rule adds a rule with its else branches.
func (e *effort) rule(rule *ast.Rule) {
	w := &bodies{}
	w.visitor = ast.NewBeforeAfterVisitor(w.enter, w.leave)
	for r := rule; r != nil; r = r.Else {
		e.rules++
		w.expressions = append(w.expressions, 0)
		w.visitor.Walk(r.Head)
		w.visitor.Walk(r.Body)
		w.end()
	}
	e.total += w.cost
	if e.worst == nil || w.cost > e.worstCost {
		e.worst, e.worstCost = rule, w.cost
	}
	if w.tooDeep && e.deepest == nil {
		e.deepest = rule
	}
	if w.tooLong && e.longest == nil {
		e.longest = rule
	}
}

// bodies walks the bodies of a rule, one within another.
//
//	allow if {                     # 2 expressions
//	    x := [y | y := f(input)]   # within it, 2 expressions (f is one): they cost three times as much
//	}
type bodies struct {
	visitor *ast.BeforeAfterVisitor
	// expressions are those of the bodies around the present place, outermost first. A
	// call is one as well: it becomes one.
	expressions []float64
	// nesting is how many terms are around the present place.
	nesting int
	tooDeep bool
	// tooLong says that there is a number that is too long.
	tooLong bool
	cost    float64
}

// enter returns true for what need not be looked at.
func (w *bodies) enter(x any) bool {
	switch {
	case isBody(x):
		w.expressions = append(w.expressions, 0)
	case isExpression(x):
		w.expressions[len(w.expressions)-1]++
	}
	if t, ok := x.(*ast.Term); ok {
		w.nesting++
		w.tooDeep = w.tooDeep || w.nesting > maxNesting
		number, _ := t.Value.(ast.Number)
		w.tooLong = w.tooLong || len(number) > bounds.MaxDigits
	}
	if t, ok := x.(*ast.TemplateString); ok && !w.tooDeep {
		// The visitor of OPA leaves its parts out.
		for _, part := range t.Parts {
			w.visitor.Walk(part)
		}
	}
	return w.tooDeep
}

func (w *bodies) leave(x any) {
	if isBody(x) {
		w.end()
	}
	if _, ok := x.(*ast.Term); ok {
		w.nesting--
	}
}

// end adds the cost of the innermost body. Three to the power of its depth, since each
// comprehension is checked about three times as often as the one around it; the cube of
// its length, since the compiler puts expressions in order by trying. The constants
// were measured.
func (w *bodies) end() {
	inner := len(w.expressions) - 1
	n := w.expressions[inner]
	w.expressions = w.expressions[:inner]
	w.cost += math.Pow(3, float64(inner)) * (n + n*n*n/32) / 8
}

// isBody reports whether a term has a body, or is made one.
func isBody(x any) bool {
	switch x.(type) {
	case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.Every, *ast.TemplateString,
		*ast.Not, *ast.LogicalAnd, *ast.LogicalOr:
		return true
	}
	return false
}

func isExpression(x any) bool {
	switch x.(type) {
	case *ast.Expr, ast.Call:
		return true
	}
	return false
}
