package evaluator

import (
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// document returns what the rules of a node define. Their ref is the name that they have
// in common.
func (c *Compiler) document(node *ast.TreeNode, ref ast.Ref) document {
	if d, ok := c.defined[node]; ok {
		return d
	}
	def := definition{id: c.documents}
	c.documents++
	first := node.Values[0]
	def.outcome.name = strings.Trim(ref[len(ref)-1].Value.String(), `"`)
	var d document
	switch {
	case len(first.Head.Args) > 0:
		d = c.newFunction(&def, node)
	case first.Head.RuleKind() == ast.SingleValue && groundRefs(node.Values):
		d = c.newComplete(&def, node)
	case isNested(node, len(ref)):
		d = c.newNested(&def, node, len(ref))
	default:
		d = c.newPartial(&def, node, len(ref))
	}
	return d
}

func groundRefs(rules []*ast.Rule) bool {
	for _, rule := range rules {
		for r := rule; r != nil; r = r.Else {
			if !r.Default && !r.Head.Reference.IsGround() {
				return false
			}
		}
	}
	return true
}

// rules are those of one name.
type rules struct {
	all []alternatives
	// index selects the rules that can hold. Without one, nil, each is evaluated.
	index *ruleIndex
	// fallback is the default rule; nil if there is none.
	fallback *branch
	// once says that the first body that holds is enough.
	once bool
	// ordered says that a rule has else branches or a default, which count if others do not hold.
	ordered bool
}

// alternatives are the bodies of one rule: its own, and those of its else branches, of which each
// counts if none before it holds.
type alternatives []*branch

// branch is one body, with a way to its value.
type branch struct {
	layout *layout
	// args are the slots of arguments.
	args []int
	run  step
}

// earlyExit reports whether all bodies of some rules have the same value, which is known now.
// Then the first that holds is enough, in OPA as here.
func earlyExit(rules []*ast.Rule) bool {
	var value ast.Value
	for _, rule := range rules {
		for r := rule; r != nil; r = r.Else {
			if r.Default {
				continue
			}
			if r.Head.DocKind() != ast.CompleteDoc || r.Head.Value == nil || !isConstant(r.Head.Value) {
				return false
			}
			if value != nil && !ast.ValueEqual(value, r.Head.Value.Value) {
				return false
			}
			value = r.Head.Value.Value
		}
	}
	return true
}

// onlyChild refuses a node that has rules below it as well: OPA puts their values together.
func (c *Compiler) onlyChild(node *ast.TreeNode) {
	if len(node.Children) > 0 {
		unsupported(node.Values[0].Location, Interpreted, "rules below a rule")
	}
}

// rules compiles the rules of a node. Args are where their arguments come from.
func (c *Compiler) rules(def *definition, node *ast.TreeNode, args []*union) (out rules) {
	out.once = earlyExit(node.Values)
	opa, indexed := newOPAIndex(node), []*ast.Rule{}
	for _, rule := range node.Values {
		out.ordered = out.ordered || rule.Default || rule.Else != nil
		if rule.Default {
			out.fallback = newScope(c, def, rule.Location).fallback(rule)
		} else {
			out.all = append(out.all, c.alternatives(def, opa, rule, args, out.once))
			indexed = append(indexed, rule)
		}
	}
	out.index = c.newRuleIndex(def, opa, indexed, args)
	def.agrees(c, node)
	return out
}

// agrees makes the site where two values of the rules of a node are compared.
func (d *definition) agrees(c *Compiler, node *ast.TreeNode) {
	s := newScope(c, d, node.Values[0].Location)
	if d.agree = s.site(Whole); len(node.Values) > 1 {
		d.agree = s.site(Whole, d.outcome.origin())
	}
}

// fallback compiles a default rule. Its value may be a comprehension, which OPA leaves in the head.
func (s scope) fallback(rule *ast.Rule) *branch {
	return &branch{layout: s.layout, run: s.expressions(rule.Body, func(s scope) step {
		return s.valued(s.value(rule.Head.Value), s.originOf(rule.Head.Value), true)
	})}
}

// alternatives compiles a rule with its else branches. Args are where its arguments come from.
func (c *Compiler) alternatives(def *definition, opa *opaIndex, rule *ast.Rule, args []*union, once bool) (out alternatives) {
	for r := rule; r != nil; r = r.Else {
		s := newScope(c, def, r.Location)
		b := &branch{layout: s.layout}
		for range r.Head.Args {
			b.args = append(b.args, s.temporary())
		}
		b.run = s.arguments(r.Head.Args, b.args, args, func(s scope) step {
			return s.expressions(r.Body, func(s scope) step { return s.result(r.Head.Value, once) })
		})
		b.run = s.guarded(opa, r, args, b.run)
		out = append(out, b)
	}
	return out
}

// arguments compiles the patterns of a function's parameters.
func (s scope) arguments(patterns []*ast.Term, slots []int, from []*union, next then) step {
	if len(patterns) == 0 {
		return next(s)
	}
	argument := source{expr: s.slotValue(slots[0]), present: true, from: from[0].origin()}
	return s.match(s.inner(patterns[0]), argument, func(s scope) step {
		return s.arguments(patterns[1:], slots[1:], from[1:], next)
	})
}

// same reports whether a second value of a rule is the first one again. The numbers 1 and 1.0
// are equal, but which of them OPA goes on with depends on who asks: that is left to OPA.
func (m *machine) same(at *site, x, y opaque.Value) bool {
	if x.Same(y) {
		return true
	}
	a, b := m.force(at, x), m.force(at, y)
	switch {
	case a == nil || b == nil:
		return false
	case a == b:
		return true
	case !a.Equal(b):
		return false
	}
	switch a.Value.(type) {
	case ast.String, ast.Boolean, ast.Null:
		return true
	}
	return a.String() == b.String()
}

// result compiles the end of a body: a second value has to be equal to the first.
func (s scope) result(t *ast.Term, once bool) step {
	e, from := s.head(t)
	return s.valued(e, from, once)
}

// valued returns the end of a body that has a value.
func (s scope) valued(e expr, from origin, once bool) step {
	s.outcome.add(from)
	at := s.site(Whole)
	if s.several {
		at = s.site(Whole, from)
	}
	return func(f *frame) signal {
		v := e(f)
		switch {
		case v.IsNone():
			return fail
		case f.result.IsNone():
			f.result = v
		case !f.m.same(at, f.result, v):
			return f.m.giveUp(ErrUndecided)
		}
		if once {
			return stop
		}
		return more
	}
}

// head compiles a value in the head of a rule or a comprehension: all of its variables have values, so
// it has none only if the evaluation has ended.
func (s scope) head(t *ast.Term) (expr, origin) {
	if t == nil {
		t = ast.InternedTerm(true)
	}
	return s.part(t), s.originOf(t)
}

// evaluate evaluates a body with arguments. The second result is false if the evaluation has ended.
func (b *branch) evaluate(m *machine, args []opaque.Value) (opaque.Value, bool) {
	if m.interrupted() {
		return opaque.Value{}, false
	}
	f := b.layout.enter(m)
	for i, slot := range b.args {
		f.vars[slot] = args[i]
	}
	got, result := b.run(f), f.result
	b.layout.leave(f)
	return result, m.goesOn(got)
}

// valueOf returns the value of some rules, of which all that have one must agree. The second
// result is false if the evaluation has ended.
func (d *definition) valueOf(of rules, m *machine, args []opaque.Value) (value opaque.Value, ok bool) {
	selected := m.selectRules(of.index, len(of.all), args)
	for i, more := selected.next(); more; i, more = selected.next() {
		for _, b := range of.all[i] {
			v, ok := b.evaluate(m, args)
			if !ok {
				return opaque.Value{}, false
			}
			if v.IsNone() {
				continue
			}
			switch {
			case value.IsNone():
				value = v
			case !m.same(d.agree, value, v):
				m.giveUp(ErrUndecided)
				return opaque.Value{}, false
			}
			break
		}
		if of.once && !value.IsNone() {
			break
		}
	}
	if m.err != nil {
		return opaque.Value{}, false
	}
	if value.IsNone() && of.fallback != nil {
		return of.fallback.evaluate(m, nil)
	}
	return value, true
}
