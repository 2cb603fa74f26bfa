package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// complete is a rule with one value.
type complete struct {
	*definition
	rules rules
	once  once
}

func (c *Compiler) newComplete(def *definition, node *ast.TreeNode) *complete {
	d := &complete{definition: def}
	c.defined[node] = d
	d.compiled(func() {
		c.onlyChild(node)
		d.rules = c.rules(def, node, nil)
	})
	return d
}

// expr returns the value of the rule.
func (d *complete) expr() expr {
	return func(f *frame) opaque.Value {
		return d.once.value(f.m, d.id, func() (opaque.Value, bool) { return d.valueOf(d.rules, f.m, nil) })
	}
}
