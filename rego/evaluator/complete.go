package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// complete is a rule with one value.
type complete struct {
	*definition
	rules    []alternatives
	fallback expr
	// early says that the first body that holds is enough.
	early bool
	once  once
}

func (c *Compiler) newComplete(def *definition, node *ast.TreeNode) *complete {
	d := &complete{definition: def, early: earlyExit(node.Values)}
	c.documents[node] = d
	d.compiled(func() {
		c.onlyChild(node)
		d.rules, d.fallback = c.rules(def, node, nil, d.early)
	})
	return d
}

// expr returns the value of the rule.
func (d *complete) expr() expr {
	return func(f *frame) opaque.Value {
		return d.once.value(f.m, d.id, func() (opaque.Value, bool) {
			value, ok := d.valueOf(d.rules, f.m, nil, d.early)
			if value.IsNone() && d.fallback != nil {
				value = d.fallback(f)
			}
			return value, ok
		})
	}
}
