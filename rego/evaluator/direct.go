package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// direct are built-ins of which a call is a test: a few instructions for most operands, where OPA's
// functions cost many times that. What they come to is what OPA's functions come to, within the same
// bounds.
var direct = map[string]*opaque.Test{
	ast.Equal.Name:         opaque.Equal,
	ast.NotEqual.Name:      opaque.NotEqual,
	ast.LessThan.Name:      opaque.LessThan,
	ast.LessThanEq.Name:    opaque.LessThanEq,
	ast.GreaterThan.Name:   opaque.GreaterThan,
	ast.GreaterThanEq.Name: opaque.GreaterThanEq,
	ast.StartsWith.Name:    opaque.StartsWith,
	ast.EndsWith.Name:      opaque.EndsWith,
	ast.Member.Name:        opaque.Member,
}

// callDirect compiles the call of a direct built-in with two operands, with OPA's function for
// what it leaves open. Terms are the operands.
func (s scope) callDirect(test *opaque.Test, site *callSite, terms []*ast.Term, output *ast.Term, next then) step {
	for _, t := range terms {
		s.c.vocabulary.AddTexts(test, s.constantsOf(t)...)
	}
	a, b := site.operands[0], site.operands[1]
	evaluate := func(f *frame) opaque.Truth {
		x := a(f)
		if x.IsNone() {
			return opaque.Undefined
		}
		if got := f.m.ask(site.at, test, x, b(f)); got != opaque.Open {
			return got
		}
		switch value := f.m.force(site.at, site.output(f)); {
		case value == nil:
			return opaque.Undefined
		case opaque.IsFalse(value):
			return opaque.No
		}
		return opaque.Yes
	}
	if output != nil {
		value := func(f *frame) opaque.Value {
			if got := evaluate(f); got != opaque.Undefined {
				return opaque.Computed(ast.InternedTerm(got == opaque.Yes))
			}
			return opaque.Value{}
		}
		return s.match(output, source{expr: value, from: computed}, next)
	}
	following := next(s)
	return func(f *frame) signal {
		switch evaluate(f) {
		case opaque.Yes:
			return following(f)
		case opaque.No:
			return more
		}
		return f.none()
	}
}
