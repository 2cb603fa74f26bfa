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
		object := f.m.force(below(f))
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
	for _, k := range node.Sorted {
		child := node.Children[k]
		if child.Hide || len(child.Values) > 0 && len(child.Values[0].Head.Args) > 0 {
			continue
		}
		key := ast.NewTerm(child.Key)
		keys = append(keys, key)
		values = append(values, s.childValue(child, append(slices.Clip(ref), key)))
	}
	return func(f *frame) opaque.Value {
		out := ast.NewObjectWithCapacity(len(keys))
		for i, e := range values {
			v := f.m.force(e(f))
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
func (s scope) childValue(child *ast.TreeNode, ref ast.Ref) (out expr) {
	if len(child.Values) == 0 {
		return s.below(child, ref)
	}
	s.ruleReference(child, ref, len(ref)-1, nil, func(_ scope, e source) step {
		out = e.expr
		return nil
	})
	return out
}
