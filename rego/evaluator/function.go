package evaluator

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// function is a rule with arguments.
type function struct {
	*definition
	rules rules
	// ordered says that a rule has else branches or a default, which count if others do not hold.
	ordered bool
	arity   int
	// args are where its arguments come from.
	args []*union
}

func (c *Compiler) newFunction(def *definition, node *ast.TreeNode) *function {
	d := &function{definition: def, ordered: slices.ContainsFunc(node.Values, ordered), arity: len(node.Values[0].Head.Args)}
	c.documents[node] = d
	for _, a := range node.Values[0].Head.Args {
		d.args = append(d.args, &union{name: c.written(a)})
	}
	d.compiled(func() {
		c.onlyChild(node)
		d.rules = c.rules(def, node, d.args)
	})
	return d
}

// ordered reports whether a rule is a default, or has an else.
func ordered(r *ast.Rule) bool { return r.Default || r.Else != nil }

// written returns a term as the author of the policy has written it.
func (c *Compiler) written(t *ast.Term) string {
	if v, ok := t.Value.(ast.Var); ok {
		if original, ok := c.compiler.RewrittenVars[v]; ok {
			return string(original)
		}
	}
	return textOf(t)
}

// call returns the value for some arguments, which is worked out once in an evaluation. It keeps
// the arguments.
func (d *function) call(f *frame, at *site, args []opaque.Value) opaque.Value {
	value, _ := f.m.documents[d.id].by.evaluated(f.m, at, args, func() (opaque.Value, bool) { return d.valueOf(d.rules, f.m, args) })
	return value
}

// callFunction compiles the call of a function of the policy. Terms are its arguments and, if
// its value is used, what that has to be.
func (s scope) callFunction(ref ast.Ref, terms []*ast.Term, next then) step {
	d := s.functionAt(ref)
	s.need(d)
	args, from := s.parts(terms[:d.arity]), s.originsOf(terms[:d.arity])
	for i, o := range from {
		d.args[i].add(o)
	}
	at := s.eachSite(Asked, from)
	e := func(f *frame) opaque.Value {
		values := make([]opaque.Value, len(args))
		for i, a := range args {
			if values[i] = a(f); values[i].IsNone() {
				return opaque.Value{}
			}
		}
		return d.call(f, at, values)
	}
	if len(terms) == d.arity {
		return s.holding(source{expr: e, from: d.outcome.origin()}, next)
	}
	output := terms[d.arity]
	if v, isVar := output.Value.(ast.Var); d.ordered && (!isVar || s.has(v)) {
		// OPA goes on to the else or the default then if the value before it is not the expected one, and
		// takes what it finds there for the value of all later calls.
		s.unsupported("a function with an else or a default that is called with an expected value")
	}
	return s.match(output, source{expr: e, from: d.outcome.origin()}, next)
}

// functionAt returns the function of a name.
func (s scope) functionAt(ref ast.Ref) *function {
	node := s.c.compiler.RuleTree
	for _, t := range ref {
		if node = node.Child(t.Value); node == nil {
			s.unsupported("a function that is not there")
		}
	}
	if len(node.Values) == 0 {
		s.unsupported("a function that is not there")
	}
	d, ok := s.c.document(node, ref).(*function)
	if !ok {
		s.unsupported("a call of what is no function")
	}
	return d
}

// parts compiles the terms that a call is made with.
func (s scope) parts(terms []*ast.Term) (out []expr) {
	for _, t := range terms {
		out = append(out, s.part(t))
	}
	return out
}
