package evaluator

import (
	"sync/atomic"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// function is a rule with arguments.
type function struct {
	*definition
	rules rules
	arity int
	// args are its arguments.
	args []*argument
	// constant says that a call depended on the program alone, so that other evaluations may not make it again.
	constant atomic.Bool
}

// argument is one argument of a function.
type argument struct {
	// from is where its values come from.
	from union
	// global is what all calls pass that were compiled so far, if that is one reference which has one value in
	// an evaluation, and varies says that it is not.
	global string
	varies bool
}

// pass notes what another call passes: a reference with one value in an evaluation, or something else, if that
// is empty.
func (a *argument) pass(global string, from origin) {
	a.varies = a.varies || global == "" || a.global != "" && a.global != global
	a.global = global
	a.from.add(from)
}

func (c *Compiler) newFunction(def *definition, node *ast.TreeNode) *function {
	d := &function{definition: def, arity: len(node.Values[0].Head.Args)}
	c.defined[node] = d
	var from []*union
	for _, a := range node.Values[0].Head.Args {
		arg := &argument{from: union{name: c.written(a)}}
		d.args, from = append(d.args, arg), append(from, &arg.from)
	}
	def.operands = from
	d.compiled(func() {
		c.onlyChild(node)
		d.rules = c.rules(def, node, from)
	})
	return d
}

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
	by, uses := &f.m.documents[d.id].by, f.m.asks.Uses()
	if !d.apart(f.m, at, by, args) {
		return opaque.Value{}
	}
	if value, ok := by.known(f.m, args); ok {
		return value
	}
	value, ok := d.valueOf(d.rules, f.m, args)
	if !ok || f.m.err != nil {
		return opaque.Value{}
	}
	by.store(f.m, args, value, uses)
	if f.m.asks.Uses() == uses && !d.constant.Load() {
		d.constant.Store(true)
	}
	return value
}

// mostApart is with how many calls one is compared whose arguments have numbers in an unusual form.
const mostApart = 64

// apart reports whether OPA, too, tells the arguments apart from those of each call before: equal ones are written
// alike. If they may not be, it ends the evaluation. Calls that depend on the program alone are made once for all
// evaluations, so what they were made with is not known.
func (d *function) apart(m *machine, at *site, by *results, args []opaque.Value) bool {
	by.unusual = !d.usual(m, at, args) || by.unusual
	if !by.unusual || m.err != nil {
		return m.err == nil
	}
	m.asks.Use() // so that no constant has such a call in it
	content, ok := d.varying(m, at, args)
	if ok && (d.constant.Load() || len(by.entries) > mostApart) {
		m.giveUp(ErrUndecided)
	}
	for i := 0; i < len(by.entries) && m.err == nil; i++ {
		if other, ok := d.varying(m, at, by.entries[i].terms); ok && !writtenAlike(content, other) {
			m.giveUp(ErrUndecided)
		}
	}
	return m.err == nil
}

// usual reports whether the numbers in the arguments that vary are in their usual form.
func (d *function) usual(m *machine, at *site, args []opaque.Value) bool {
	for i, a := range d.args {
		if a.varies && !m.test(at, opaque.Usual, args[i]) {
			return false
		}
	}
	return true
}

// varying returns the contents of the arguments that are not the same in all calls.
func (d *function) varying(m *machine, at *site, args []opaque.Value) ([]*ast.Term, bool) {
	var values []opaque.Value
	for i, a := range d.args {
		if a.varies {
			values = append(values, args[i])
		}
	}
	return m.forceAll(at, values)
}

// writtenAlike reports whether two lists of terms are the same, or not equal.
func writtenAlike(a, b []*ast.Term) bool {
	same := true
	for i := range a {
		if !opaque.EqualTerms(a[i], b[i]) {
			return true
		}
		same = same && opaque.Identical(a[i], b[i])
	}
	return same
}

// callFunction compiles the call of a function of the policy. Terms are its arguments and, if
// its value is used, what that has to be.
func (s scope) callFunction(ref ast.Ref, terms []*ast.Term, next then) step {
	defined := s.definedAt(ref)
	if d, ok := defined.(*complete); ok { // get_claims() := …
		s.need(d)
		return s.called(source{expr: d.expr(), from: d.outcome.origin()}, d.rules.ordered, terms, next)
	}
	d, ok := defined.(*function)
	if !ok {
		s.unsupported("a call of what is no function")
	}
	s.need(d)
	args, from := s.parts(terms[:d.arity]), s.originsOf(terms[:d.arity])
	at := s.eachSite(Asked, from)
	for i, o := range from {
		d.args[i].pass(s.globalOf(terms[i]), o)
		at.notes = append(at.notes, note{kind: Numbers, argument: d.args[i], of: []origin{o}, text: s.text()})
	}
	e := func(f *frame) opaque.Value {
		values := make([]opaque.Value, len(args))
		for i, a := range args {
			if values[i] = a(f); values[i].IsNone() {
				return opaque.Value{}
			}
		}
		return d.call(f, at, values)
	}
	return s.called(source{expr: e, from: d.outcome.origin()}, d.rules.ordered, terms[d.arity:], next)
}

// called compiles what follows the call of a function. Output is what its value has to be; without it the call
// holds if the value does. Ordered is that of its rules.
func (s scope) called(value source, ordered bool, output []*ast.Term, next then) step {
	if len(output) == 0 {
		return s.holding(value, next)
	}
	if v, isVar := output[0].Value.(ast.Var); ordered && (!isVar || s.has(v)) {
		// OPA goes on to the else or the default then if the value before it is not the expected one, and
		// takes what it finds there for the value of all later calls.
		s.unsupported("a function with an else or a default that is called with an expected value")
	}
	return s.match(output[0], value, next)
}

// definedAt returns what the rules of a name define.
func (s scope) definedAt(ref ast.Ref) document {
	node := s.c.compiler.RuleTree
	for _, t := range ref {
		if node = node.Child(t.Value); node == nil {
			s.unsupported("a function that is not there")
		}
	}
	if len(node.Values) == 0 {
		s.unsupported("a function that is not there")
	}
	return s.c.document(node, ref)
}

// parts compiles the terms that a call is made with.
func (s scope) parts(terms []*ast.Term) (out []expr) {
	for _, t := range terms {
		out = append(out, s.part(t))
	}
	return out
}
