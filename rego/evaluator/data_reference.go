package evaluator

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// dataNode is a node of the tree of rules with the base document there.
type dataNode struct {
	// rules is nil where no rules are, nor below.
	rules *ast.TreeNode
	// base is nil where the base document has nothing.
	base *ast.Term
	// path is the reference to it.
	path ast.Ref
}

// child returns the node at a constant key.
func (n dataNode) child(s scope, key *ast.Term) dataNode {
	below := dataNode{rules: n.rules.Child(key.Value), path: append(slices.Clip(n.path), key)}
	if n.base != nil {
		below.base = s.readNow(n.base, key)
	}
	return below
}

// dataReference compiles a reference to what rules define, or to the base document. OPA goes down its tree of
// rules until the path leaves it.
func (s scope) dataReference(ref ast.Ref, want source, next thenValue) step {
	return s.dataAt(dataNode{s.c.compiler.RuleTree.Child(ref[0].Value), ast.NewTerm(s.c.data), ref[:1]}, ref[1:], want, next)
}

// dataAt compiles the rest of a reference that has come to a node.
func (s scope) dataAt(n dataNode, rest ast.Ref, want source, next thenValue) step {
	switch {
	case n.rules == nil:
		return s.baseReference(n.base, n.path, rest, want, next)
	case len(n.rules.Values) > 0:
		return s.ruleReference(n.rules, append(slices.Clip(n.path), rest...), len(n.path)-1, want, next)
	case len(rest) == 0:
		return next(s, source{expr: s.extent(n.rules, n.path, n.base), from: computed})
	case isConstant(rest[0]) && !isComposite(rest[0].Value):
		return s.dataAt(n.child(s, rest[0]), rest[1:], want, next)
	}
	return s.chosen(n, rest, want, next)
}

// choice is a node of which a variable says what is meant: data.apps[input.app].allow, or route[method] of
// rules that are named route["GET"].
type choice struct {
	at *site
	// keys are those of the nodes below it, and below what follows at each of them.
	keys  []opaque.Value
	below []step
	// key is the value of the variable, and other what follows at a key that is none of keys. Both are nil if
	// the variable has no value, and gets that of each key: in slot.
	key   expr
	other step
	slot  int
	// following is what follows the reference.
	following step
}

// chosen compiles the rest of a reference whose first operand is a variable.
func (s scope) chosen(n dataNode, rest ast.Ref, want source, next thenValue) step {
	operand := rest[0]
	v, isVar := operand.Value.(ast.Var)
	if !isVar {
		s.unsupported("a package that is chosen by a composite value")
	}
	open := s.pattern(operand)
	if open && n.base != nil {
		s.unsupported("a package that is chosen by a variable without a value, next to data")
	}
	c := &choice{at: s.site(Asked, s.originOf(operand)), slot: s.slot(v)}
	keys := s.keysBelow(n.rules)
	within := s
	if open {
		within = s.binding(v, variable{from: constant("_"), constants: keys, enumerated: true})
		within.several = true
	} else {
		s.c.vocabulary.AddTexts(opaque.Equal, keys...)
		s.c.vocabulary.AddTexts(opaque.Equal, s.constantsOf(operand)...)
		c.key = s.value(operand)
	}
	value, after := s.temporary(), scope{}
	var from union
	joined := func(s scope, e source) step {
		from.add(e.from)
		after = s
		result := e.expr
		return func(f *frame) signal {
			found := result(f)
			if found.IsNone() {
				return f.none()
			}
			f.vars[value] = found
			return c.following(f)
		}
	}
	for _, k := range keys {
		c.keys = append(c.keys, opaque.Constant(k))
		c.below = append(c.below, within.dataAt(n.child(s, k), rest[1:], want, joined))
	}
	if !open && n.base != nil {
		c.other = s.baseReference(n.base, n.path, rest, want, joined)
	}
	c.following = next(within.joining(after), source{expr: s.slotValue(value), from: from.origin()})
	return c.run
}

// keysBelow returns the keys of the nodes below a node, in OPA's order.
func (s scope) keysBelow(node *ast.TreeNode) (keys []*ast.Term) {
	for _, k := range node.Sorted {
		child := node.Children[k]
		if _, isText := k.(ast.String); !isText || child.Hide || child.External != nil || len(child.Values) > 0 && len(child.Values[0].Head.Args) > 0 {
			s.unsupported("a package that is chosen by a variable, with functions or names that are no texts in it")
		}
		keys = append(keys, ast.NewTerm(k))
	}
	return keys
}

// joining returns the scope behind several ways to one place, of which another one has bound variables: nothing
// is known of those.
func (s scope) joining(other scope) scope {
	for v := range other.bound {
		if !s.has(v) {
			s = s.binding(v, variable{from: computed})
		}
	}
	s.several = s.several || other.several
	return s
}

// run is the step of the reference.
func (c *choice) run(f *frame) signal {
	if c.key == nil {
		return f.m.each(len(c.keys), func(i int) signal {
			f.vars[c.slot] = c.keys[i]
			return c.below[i](f)
		})
	}
	k := c.key(f)
	if k.IsNone() {
		return f.none()
	}
	for i, known := range c.keys {
		if f.m.ask(c.at, opaque.Equal, k, known) == opaque.Yes {
			return c.below[i](f)
		}
		if f.m.err != nil {
			return fail
		}
	}
	if c.other != nil {
		return c.other(f)
	}
	return f.none()
}
