package evaluator

import (
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"

	"understudy/rego/opaque"
)

// nested are the rules of a node that make an object of objects, or of sets: those with several keys in their
// names, such as `grants[user][path] := …` and `grants[user] contains path`, and those below a rule of another
// name, such as `headers["x-a"]` next to `headers[name]`. Their value is always worked out as a whole.
type nested struct {
	*definition
	bodies []*branch
	once   once
}

// isNested reports whether the rules of a node, whose names have a length in common, are nested.
func isNested(node *ast.TreeNode, name int) bool {
	if len(node.Children) > 0 {
		return true
	}
	for _, rule := range node.Values {
		keys := len(rule.Ref()) - name
		if keys > 1 || keys == 1 && rule.Head.RuleKind() == ast.MultiValue {
			return true
		}
	}
	return false
}

func (c *Compiler) newNested(def *definition, node *ast.TreeNode, name int) *nested {
	d := &nested{definition: def}
	c.defined[node] = d
	d.compiled(func() {
		node.DepthFirst(func(n *ast.TreeNode) bool {
			for _, rule := range n.Values {
				d.rule(c, rule, name)
			}
			return false
		})
	})
	return d
}

// rule compiles one rule.
func (d *nested) rule(c *Compiler, rule *ast.Rule, name int) {
	s, keys := newScope(c, d.definition, rule.Location), rule.Ref()[name:]
	if rule.Default || rule.Else != nil || len(rule.Head.Args) > 0 || len(keys) == 0 {
		s.unsupported("a rule of this kind below another rule")
	}
	isSet, leaf := rule.Head.RuleKind() == ast.MultiValue, rule.Head.Value
	if isSet {
		leaf = rule.Head.Key
	}
	d.bodies = append(d.bodies, &branch{layout: s.layout, run: s.expressions(rule.Body, func(s scope) step {
		return d.adding(s, keys, leaf, isSet)
	})})
}

// adding returns the end of a body: it adds a value, or an element of a set, at some keys.
func (d *nested) adding(s scope, keys []*ast.Term, leaf *ast.Term, isSet bool) step {
	value, valueFrom := s.head(leaf)
	parts, from := []expr{}, []origin{}
	for _, k := range keys {
		part, origin := s.head(k)
		parts, from = append(parts, part), append(from, origin)
	}
	at := s.site(Whole, append(from, valueFrom)...)
	return func(f *frame) signal {
		path := make([]*ast.Term, len(parts))
		for i, part := range parts {
			if path[i] = f.m.force(at, part(f)); path[i] == nil {
				return fail
			}
		}
		v := f.m.force(at, value(f))
		if v == nil {
			return fail
		}
		if !f.partial.tree.add(path, v, isSet) {
			return f.m.giveUp(ErrUndecided)
		}
		return more
	}
}

// expr returns the whole value.
func (d *nested) expr() expr {
	return func(f *frame) opaque.Value {
		return d.once.value(f.m, d.id, func() (opaque.Value, bool) { return d.whole(f.m) })
	}
}

// whole evaluates all bodies. The second result is false if the evaluation has ended.
func (d *nested) whole(m *machine) (opaque.Value, bool) {
	into := &partialValue{tree: &nestedValue{}}
	for _, b := range d.bodies {
		if !b.add(m, into) {
			return opaque.Value{}, false
		}
	}
	return opaque.Computed(into.tree.term()), true
}

// getNested looks up a key in the value of nested rules. OPA evaluates their bodies with the key known before. If a
// body looks the key up in the base document, where the number 1 and the text "1" are one name, OPA finds what
// stands here at the other one; and it may find nothing at a number in an unusual form (1e0), which [scope.lookup]
// leaves to OPA.
var getNested = &opaque.Function{Name: "get", Arity: 2, Part: true, Call: func(_ topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
	if other := otherName(operands[1]); other != nil && opaque.Get(operands[0], other) != nil {
		return ErrUndecided
	}
	if found := opaque.Get(operands[0], operands[1]); found != nil {
		return collect(found)
	}
	return nil
}}

// otherName returns the key of another type that is the same name in the base document, nil if there is none.
func otherName(key *ast.Term) *ast.Term {
	switch v := key.Value.(type) {
	case ast.Number:
		return ast.StringTerm(string(v))
	case ast.String:
		if n, err := strconv.Atoi(string(v)); err == nil {
			return ast.InternedTerm(n)
		}
	}
	return nil
}

// nestedValue is what the bodies of nested rules add to: an object, a set, or a value.
type nestedValue struct {
	// value is set for a value, and set for a set; else it is an object of what is below it.
	value *ast.Term
	set   ast.Set
	// keys are those of the object, and below has what stands there, by the hash of the key.
	keys  []*ast.Term
	below map[int][]nestedEntry
}

// nestedEntry is one key with what stands there.
type nestedEntry struct {
	key *ast.Term
	*nestedValue
}

// add adds a value at some keys, or an element to the set there. It reports false if something else stands
// there, or on the way: what that comes to is for OPA to say.
func (n *nestedValue) add(keys []*ast.Term, v *ast.Term, isSet bool) bool {
	if len(keys) > 0 {
		return n.value == nil && n.set == nil && n.at(keys[0]).add(keys[1:], v, isSet)
	}
	switch {
	case len(n.keys) > 0, isSet && n.value != nil, !isSet && n.set != nil:
		return false
	case isSet && n.set == nil:
		n.set = ast.NewSet(v)
	case isSet:
		n.set.Add(v)
	case n.value == nil:
		n.value = v
	default:
		return n.value.Equal(v)
	}
	return true
}

// at returns what stands at a key of an object.
func (n *nestedValue) at(key *ast.Term) *nestedValue {
	hash := key.Value.Hash()
	for _, e := range n.below[hash] {
		if e.key.Equal(key) {
			return e.nestedValue
		}
	}
	if n.below == nil {
		n.below = make(map[int][]nestedEntry)
	}
	made := nestedEntry{key, &nestedValue{}}
	n.keys, n.below[hash] = append(n.keys, key), append(n.below[hash], made)
	return made.nestedValue
}

// term returns all of it as a term.
func (n *nestedValue) term() *ast.Term {
	switch {
	case n.value != nil:
		return n.value
	case n.set != nil:
		return ast.NewTerm(n.set)
	}
	out := ast.NewObjectWithCapacity(len(n.keys))
	for _, k := range n.keys {
		out.Insert(k, n.at(k).term())
	}
	return ast.NewTerm(out)
}
