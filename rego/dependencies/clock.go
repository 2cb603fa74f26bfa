package dependencies

import (
	"math"
	"strconv"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/instrument"
)

// A decision that reads the clock can be cached until the moment at which it
// would first change. That moment is known where the clock reaches nothing but
// comparisons: the evaluation is a function of what they say, so its value stays the
// same until the first of those that it evaluated says something else.
//
// The linear functions of the clock (time.now_ns() / 1000000000 + 5) are paths beside
// those of the input, of one name each, so variables and rules stand for them in the same way. A
// comparison of our own stands in the place of each that compares one with
// something else. What uses such a path for anything but that depends on the clock.

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

// name is the form as a name in the tree: alone it is the path of its values, and below
// another path a comparison of that value with them.
func (f clockForm) name() string {
	return clockPrefix + strconv.FormatFloat(f.factor, 'g', -1, 64) + " " + strconv.FormatFloat(f.offset, 'g', -1, 64)
}

// parseClockForm returns the form of a name.
func parseClockForm(name string) (f clockForm, ok bool) {
	factor, offset, _ := strings.Cut(strings.TrimPrefix(name, clockPrefix), " ")
	var err, err2 error
	f.factor, err = strconv.ParseFloat(factor, 64)
	f.offset, err2 = strconv.ParseFloat(offset, 64)
	return f, err == nil && err2 == nil
}

// isClock reports whether a path leads to the clock.
func isClock(path []string) bool { return len(path) > 0 && strings.HasPrefix(path[0], clockPrefix) }

// clockFormOf returns the form of the values at a path.
func clockFormOf(path []string) (clockForm, bool) {
	if len(path) != 1 || !isClock(path) {
		return clockForm{}, false
	}
	return parseClockForm(path[0])
}

// clockBuiltins are those that make a function of the clock: of nothing, or of another one and
// a constant.
var clockBuiltins = setOf(ast.NowNanos.Name, ast.Plus.Name, ast.Minus.Name, ast.Multiply.Name, ast.Divide.Name)

// clockCall returns the path of the result of such a call, nil if it is no linear function of the
// clock. The operand that is at the path is nil.
func clockCall(name string, path []string, operands []*ast.Term) []string {
	f, ok := clockFormOf(path)
	switch {
	case name == ast.NowNanos.Name:
		f = clockForm{factor: 1}
	case !ok || len(operands) < 2:
		return nil
	case operands[0] == nil:
		f = f.apply(name, number(operands[1]), true)
	default:
		f = f.apply(name, number(operands[0]), false)
	}
	if !f.sound() {
		return nil
	}
	return []string{f.name()}
}

// number returns the number that a term is, NaN if it is none.
func number(t *ast.Term) float64 {
	if n, ok := t.Value.(ast.Number); ok {
		if f, ok := n.Float64(); ok {
			return f
		}
	}
	return math.NaN()
}

// apply returns what an operation makes of a form and a constant; first says that the form is the
// first operand. What is no linear function is not sound.
func (f clockForm) apply(name string, c float64, first bool) clockForm {
	switch {
	case name == ast.Plus.Name:
		return clockForm{f.factor, f.offset + c}
	case name == ast.Minus.Name && first:
		return clockForm{f.factor, f.offset - c}
	case name == ast.Minus.Name:
		return clockForm{-f.factor, c - f.offset}
	case name == ast.Multiply.Name:
		return clockForm{f.factor * c, f.offset * c}
	case name == ast.Divide.Name && first:
		return clockForm{f.factor / c, f.offset / c}
	}
	return clockForm{}
}

// comparisons :: name of a built-in that compares two values by their order. Equality
// is not among them: the compiler uses it for unification too, and a rule that waits
// for one exact nanosecond has no use.
var comparisons = setOf(
	ast.LessThan.Name, ast.LessThanEq.Name, ast.GreaterThan.Name, ast.GreaterThanEq.Name, ast.NotEqual.Name,
)

// clockBound returns which operand an expression compares with a function of the clock, counted
// from 0, and the function. It reports false if it does nothing of the kind.
func (u *unit) clockBound(e *ast.Expr) (value int, form clockForm, ok bool) {
	if !comparisons[u.builtin(e)] || len(e.With) > 0 {
		return 0, form, false
	}
	for value := range 2 {
		path, _ := u.path(e.Operand(value))
		clock, _ := u.path(e.Operand(1 - value))
		if form, ok := clockFormOf(clock); ok && !isClock(path) {
			return value, form, true
		}
	}
	return 0, form, false
}

// compareClock instruments a comparison of a function of the clock with a value, and leaves other
// expressions alone. The comparison itself stays OPA's; before it, the moment is noted at which it
// would change.
//
//	time.now_ns() / 1000000000 < token.exp     # changes when the clock reaches exp seconds
func (a *Analysis) compareClock(u *unit, e *ast.Expr) {
	value, form, ok := u.clockBound(e)
	if !ok {
		return
	}
	original := ast.BuiltinMap[u.builtin(e)]
	compare := topdown.GetBuiltin(original.Name)
	a.Builtins.Replace(e, original, func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
		if v := instrument.Of(bctx); v != nil {
			v.ChangesWith(operands[value], form.factor, form.offset)
		}
		return compare(bctx, operands, iter)
	})
}
