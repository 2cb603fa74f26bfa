package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// partial is a rule with many values: a set, or an object by keys.
type partial struct {
	*definition
	// isSet says that it is a set, and not an object.
	isSet bool
	// full are the bodies, which add to a partialValue.
	full []*branch
	// index selects the bodies that can hold. Without one, nil, each is evaluated.
	index *ruleIndex
	// once is the whole value.
	once once
	// keyed are the bodies with a key as their argument.
	keyed rules
	// key is where the keys come from by which it is asked.
	key union
}

// partialValue is what the bodies of a partial rule add to.
type partialValue struct {
	set    ast.Set
	object ast.Object
	tree   *nestedValue
}

func (c *Compiler) newPartial(def *definition, node *ast.TreeNode, name int) *partial {
	first := node.Values[0]
	d := &partial{definition: def, isSet: first.Head.RuleKind() == ast.MultiValue}
	c.defined[node], def.operands = d, []*union{&d.key}
	d.compiled(func() {
		opa := newOPAIndex(node)
		for _, rule := range node.Values {
			d.rule(c, opa, rule, name)
		}
		d.index = c.newRuleIndex(def, opa, node.Values, nil)
		d.keyed.index = d.index
		d.agrees(c, node)
	})
	return d
}

// rule compiles one rule. Name is the length of the name that all rules have in common.
func (d *partial) rule(c *Compiler, opa *opaIndex, rule *ast.Rule, name int) {
	s := newScope(c, d.definition, rule.Location)
	key := rule.Head.Key
	ref := rule.Ref()
	if rule.Default || rule.Else != nil || (rule.Head.RuleKind() == ast.MultiValue) != d.isSet || !d.isSet && len(ref) != name+1 {
		s.unsupported("a partial rule of this kind")
	}
	if !d.isSet {
		key = ref[name]
	}
	d.full = append(d.full, &branch{layout: s.layout, run: s.guarded(opa, rule, nil, s.expressions(rule.Body, func(s scope) step {
		return d.adding(s, key, rule.Head.Value)
	}))})
	keyed := newScope(c, d.definition, rule.Location)
	slot := keyed.temporary()
	run := keyed.arguments([]*ast.Term{key}, []int{slot}, []*union{&d.key}, func(s scope) step {
		return s.expressions(rule.Body, func(s scope) step {
			if d.isSet {
				return s.result(nil, false)
			}
			return s.result(rule.Head.Value, false)
		})
	})
	run = keyed.guarded(opa, rule, nil, run)
	d.keyed.all = append(d.keyed.all, alternatives{{layout: keyed.layout, args: []int{slot}, run: run}})
}

// adding returns the end of a body.
func (d *partial) adding(s scope, of, is *ast.Term) step {
	key, keyFrom := s.head(of)
	value, valueFrom := s.head(is)
	at := s.site(Whole, keyFrom, valueFrom)
	return func(f *frame) signal {
		k, v := f.m.force(at, key(f)), f.m.force(at, value(f))
		if k == nil || v == nil {
			return fail
		}
		if d.isSet {
			f.partial.set.Add(k)
			return more
		}
		switch old := f.partial.object.Get(k); {
		case old == nil:
			f.partial.object.Insert(k, v)
		case !old.Equal(v):
			return f.m.giveUp(ErrUndecided)
		}
		return more
	}
}

// expr returns the whole value.
func (d *partial) expr() expr {
	return func(f *frame) opaque.Value {
		return d.once.value(f.m, d.id, func() (opaque.Value, bool) { return d.whole(f.m) })
	}
}

// whole evaluates all bodies. The second result is false if the evaluation has ended.
func (d *partial) whole(m *machine) (opaque.Value, bool) {
	into := &partialValue{}
	if d.isSet {
		into.set = ast.NewSet()
	} else {
		into.object = ast.NewObject()
	}
	selected := m.selectRules(d.index, len(d.full), nil)
	for i, more := selected.next(); more; i, more = selected.next() {
		if !d.full[i].add(m, into) {
			return opaque.Value{}, false
		}
	}
	if m.err != nil {
		return opaque.Value{}, false
	}
	if d.isSet {
		return opaque.Computed(ast.NewTerm(into.set)), true
	}
	return opaque.Computed(ast.NewTerm(into.object)), true
}

// add evaluates a body, and reports whether the evaluation goes on.
func (b *branch) add(m *machine, into *partialValue) bool {
	if m.interrupted() {
		return false
	}
	f := b.layout.enter(m)
	f.partial = into
	got := b.run(f)
	b.layout.leave(f)
	return m.goesOn(got)
}

// entry compiles the value of one key, as OPA does it: the bodies are evaluated with the key
// known before, unless the whole value is known.
func (s scope) entry(d *partial, operand *ast.Term) source {
	key, whole := s.part(operand), d.expr()
	from, value := s.originOf(operand), d.outcome.origin()
	d.key.add(from)
	if d.isSet {
		value = from
	}
	at := s.noted(note{kind: Asked, of: []origin{from}}, note{kind: Numbers, of: []origin{from}})
	return source{from: value, expr: func(f *frame) opaque.Value {
		k := key(f)
		if k.IsNone() {
			return opaque.Value{}
		}
		known := &f.m.documents[d.id]
		if known.known {
			return f.m.derive(at, opaque.GetKey, whole(f), k)
		}
		f.m.asks.Use() // whether the whole value is known already depends on the evaluation
		args := []opaque.Value{k}
		if !f.m.usual(at, k) {
			return opaque.Value{}
		}
		if value, ok := known.by.known(f.m, args); ok {
			return value
		}
		uses := f.m.asks.Uses()
		value, ok := d.valueOf(d.keyed, f.m, args)
		if !ok || f.m.err != nil {
			return opaque.Value{}
		}
		if !value.IsNone() && d.isSet {
			value = k
		}
		known.by.store(f.m, args, value, uses)
		return value
	}}
}
