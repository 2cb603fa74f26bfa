package evaluator

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// extent compiles the value of a node of the rule tree that has no rules of its own, such as a
// package: an object of the values below it, together with the base document there.
func (s scope) extent(node *ast.TreeNode, ref ast.Ref, base *ast.Term) expr {
	below := s.below(node, ref)
	return func(f *frame) opaque.Value {
		object := f.m.force(nowhere, below(f))
		if object == nil || base == nil {
			return opaque.Computed(object)
		}
		baseObject, ok := base.Value.(ast.Object)
		if ok {
			var merged ast.Object
			if merged, ok = baseObject.Merge(object.Value.(ast.Object)); ok {
				return opaque.Computed(ast.NewTerm(merged))
			}
		}
		f.m.giveUp(ErrUndecided)
		return opaque.Value{}
	}
}

// below compiles the object of the values below a node.
func (s scope) below(node *ast.TreeNode, ref ast.Ref) expr {
	var keys []*ast.Term
	var values []expr
	var from []origin
	for _, k := range node.Sorted {
		child := node.Children[k]
		if child.Hide || len(child.Values) > 0 && len(child.Values[0].Head.Args) > 0 {
			continue
		}
		key := ast.NewTerm(child.Key)
		keys = append(keys, key)
		value := s.childValue(child, append(slices.Clip(ref), key))
		values, from = append(values, value.expr), append(from, value.from)
	}
	at := s.site(Whole, from...)
	return func(f *frame) opaque.Value {
		out := ast.NewObjectWithCapacity(len(keys))
		for i, e := range values {
			v := f.m.force(at, e(f))
			if f.m.err != nil {
				return opaque.Value{}
			}
			if v != nil {
				out.Insert(keys[i], v)
			}
		}
		return opaque.Computed(ast.NewTerm(out))
	}
}

// childValue compiles the value of one node below another.
func (s scope) childValue(child *ast.TreeNode, ref ast.Ref) (out source) {
	if len(child.Values) == 0 {
		return source{expr: s.below(child, ref), from: computed}
	}
	s.ruleReference(child, ref, len(ref)-1, source{}, func(_ scope, e source) step {
		out = e
		return nil
	})
	return out
}
