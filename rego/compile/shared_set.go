package compile

import (
	"fmt"

	"github.com/open-policy-agent/opa/v1/ast"
)

// codeSharedSet is the class of the problem that [SharedSets] finds.
const codeSharedSet = "rego_shared_set_error"

// SharedSets returns the rules that add an element to a set which is the value of another rule, such as
// `r["x"] contains "b"` next to `r[k] := {"a"}`. OPA adds the element to the set in the text of the policy, so that all
// evaluations from there on have it, at each k.
func SharedSets(rules *ast.TreeNode) (problems []Problem) {
	rules.DepthFirst(func(node *ast.TreeNode) bool {
		for _, rule := range node.Values {
			if len(node.Children) == 0 || rule.Head.RuleKind() != ast.SingleValue || rule.Ref().IsGround() || !mayBeSet(rule.Head.Value) {
				continue
			}
			node.DepthFirst(func(below *ast.TreeNode) bool {
				for _, adding := range below.Values {
					if below != node && adding.Head.RuleKind() == ast.MultiValue && mayBeOne(rule.Ref(), adding.Ref()) {
						problems = append(problems, sharedSet(adding, rule))
					}
				}
				return false
			})
		}
		return false
	})
	return problems
}

// mayBeSet reports whether a term, the value of a rule, may be a set.
func mayBeSet(t *ast.Term) bool {
	switch t.Value.(type) {
	case ast.Null, ast.Boolean, ast.Number, ast.String, *ast.Array, ast.Object:
		return false
	}
	return true
}

// mayBeOne reports whether two references may name the same value.
func mayBeOne(a, b ast.Ref) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].IsGround() && b[i].IsGround() && !a[i].Equal(b[i]) {
			return false
		}
	}
	return true
}

// sharedSet returns the problem of a rule that adds to the value of another one.
func sharedSet(adding, to *ast.Rule) Problem {
	p := Problem{Code: codeSharedSet}
	if at := adding.Location; at != nil {
		p.File, p.Row, p.Column = at.File, at.Row, at.Col
	}
	where := ""
	if at := to.Location; at != nil {
		where = fmt.Sprintf(" in row %d of %s", at.Row, at.File)
	}
	p.Message = fmt.Sprintf("This would add to a set that is the value of the rule %s%s. Write that rule with contains, too.", to.Head.Name, where)
	return p
}
