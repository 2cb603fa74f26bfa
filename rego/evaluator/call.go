package evaluator

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/opaque"
	"understudy/rego/tokens"
)

// call compiles the call of a function or a built-in.
func (s scope) call(terms []*ast.Term, next then) step {
	ref, ok := terms[0].Value.(ast.Ref)
	if !ok {
		s.unsupported("a call of this kind")
	}
	if ref[0].Equal(ast.DefaultRootDocument) {
		return s.callFunction(ref, terms[1:], next)
	}
	return s.callBuiltin(ref.String(), terms[1:], next)
}

// builtin returns a built-in by its name.
func (s scope) builtin(name string) (*ast.Builtin, topdown.BuiltinFunc) {
	decl, function := ast.BuiltinMap[name], topdown.GetBuiltin(name)
	if decl == nil || function == nil {
		s.unsupported("the built-in " + name)
	}
	if OfChance(name) {
		unsupported(s.at, Impure, name)
	}
	if decl.Decl.Result() == nil {
		s.unsupported("the built-in " + name + ", which has no result,")
	}
	switch {
	case tokens.IsToken(name):
		function = tokens.Builtin(name)
	case name == ast.GlobMatch.Name:
		function = globMatch(function)
	}
	return decl, function
}

// callBuiltin compiles the call of a built-in: it holds for each of its outputs.
func (s scope) callBuiltin(name string, terms []*ast.Term, next then) step {
	decl, function := s.builtin(name)
	arity := decl.Decl.Arity()
	operands, output := terms, (*ast.Term)(nil)
	if len(terms) > arity {
		operands, output = terms[:arity], terms[arity]
	}
	if name == ast.Member.Name {
		if elements, ok := elementsIn(operands[1]); ok {
			return s.member(operands[0], elements, output, next)
		}
	}
	switch {
	case name == ast.WalkBuiltin.Name:
		return s.callWalk(operands[0], output, next)
	case decl.Relation:
		s.unsupported("the built-in " + name + ", which has several results,")
	}
	if name == ast.ObjectGet.Name {
		if e, ok := s.getOfInput(operands); ok {
			return s.outputOf(e, output, next)
		}
	}
	from := s.originsOf(operands)
	site := &callSite{function: function, operands: s.parts(operands), from: computed}
	if test, ok := direct[name]; ok {
		kind := Asked
		if test == opaque.Member && slices.ContainsFunc(s.constantsOf(operands[1]), isNoList) {
			kind = Whole // of which the test does not say whether something is in it
		}
		site.at = s.site(kind, from...)
		return s.callDirect(test, site, operands, output, next)
	}
	if isPure(name) {
		site.pure = s.c.pure(name, function, arity)
		site.at, site.from = s.derive(site.pure, from...)
	} else {
		site.at = s.site(Whole, from...)
	}
	return s.outputOf(source{expr: site.output, from: site.from}, output, next)
}

// outputOf compiles what the output of a call has to be; without it the call holds if its value does.
func (s scope) outputOf(e source, output *ast.Term, next then) step {
	if output == nil {
		return s.holding(e, next)
	}
	return s.match(output, e, next)
}

// isNoArray reports whether a constant, if there is one, is no array.
func isNoArray(t *ast.Term) bool {
	if t == nil {
		return false
	}
	_, is := t.Value.(*ast.Array)
	return !is
}

// isNoList reports whether a constant, if there is one, is neither an array nor a set.
func isNoList(t *ast.Term) bool {
	if t == nil {
		return false
	}
	_, isSet := t.Value.(ast.Set)
	return !isSet && isNoArray(t)
}

// callSite is one call of a built-in in the text of a policy.
type callSite struct {
	function topdown.BuiltinFunc
	operands []expr
	// at is where operands are forced or asked about, and from where the output comes from.
	at   *site
	from origin
	// pure is set if the output may stay opaque.
	pure *opaque.Function
}

// output returns the output of the call, if it has one.
func (c *callSite) output(f *frame) opaque.Value {
	if c.pure != nil {
		var values [opaque.MostOperands]opaque.Value
		for i, o := range c.operands {
			if values[i] = o(f); values[i].IsNone() {
				return opaque.Value{}
			}
		}
		return f.m.derive(c.at, c.pure, values[:len(c.operands)]...)
	}
	values, ok := c.run(f)
	if !ok {
		return opaque.Value{}
	}
	if len(f.m.outputs) > 1 { // a relation that is not declared as one
		f.m.giveUp(ErrUndecided)
		return opaque.Value{}
	}
	return f.m.asks.Made(f.m.outputs[0], values)
}

// run calls the built-in, and returns its operands. It reports false if there is no output. An error of the
// built-in is no output, as Rego has it; one that halts the evaluation is OPA's to report.
func (c *callSite) run(f *frame) (values []opaque.Value, ok bool) {
	m := f.m
	operands := make([]*ast.Term, len(c.operands))
	values = make([]opaque.Value, len(c.operands))
	for i, o := range c.operands {
		values[i] = o(f)
		if operands[i] = m.force(c.at, values[i]); operands[i] == nil {
			return nil, false
		}
	}
	m.outputs = m.outputs[:0]
	err := c.function(m.asks.Builtins, operands, m.collect)
	if m.ended(haltOf(err)) {
		return nil, false
	}
	return values, len(m.outputs) > 0
}
