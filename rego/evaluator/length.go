package evaluator

import "github.com/open-policy-agent/opa/v1/ast"

// quickCalls are the built-ins whose time does not depend on the size of a request, or hardly.
var quickCalls = setOf(
	ast.Equality.Name, ast.Equal.Name, ast.NotEqual.Name, ast.LessThan.Name, ast.LessThanEq.Name, ast.GreaterThan.Name,
	ast.GreaterThanEq.Name, ast.StartsWith.Name, ast.EndsWith.Name, ast.Contains.Name, ast.Member.Name, ast.Lower.Name,
	ast.Upper.Name, ast.Substring.Name, ast.Split.Name, ast.Concat.Name, ast.Trim.Name, ast.TrimLeft.Name, ast.TrimRight.Name,
	ast.TrimPrefix.Name, ast.TrimSuffix.Name, ast.TrimSpace.Name, ast.Count.Name, ast.Plus.Name, ast.Minus.Name, ast.Multiply.Name,
	ast.Divide.Name, ast.Rem.Name, ast.ToNumber.Name, ast.NowNanos.Name, ast.Base64UrlDecode.Name, ast.Base64Decode.Name,
	ast.GlobMatch.Name,
)

// takesLong reports whether the evaluation of an expression may take long: it goes through a collection, or calls a
// built-in that may, or needs a rule with such an expression.
func (c *Compiler) takesLong(e *ast.Expr) bool {
	long := false
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension, *ast.Every:
			long = true
		case *ast.Expr:
			long = long || x.IsCall() && !c.isQuick(x.Operator())
		case ast.Call:
			ref, ok := x[0].Value.(ast.Ref)
			long = long || !ok || !c.isQuick(ref)
		case ast.Ref:
			long = long || !x.IsGround() || c.needsLong(x)
		}
		return long
	}).Walk(e)
	return long
}

// isQuick reports whether a call of a built-in takes little time. Functions of the policy are for needsLong.
func (c *Compiler) isQuick(operator ast.Ref) bool {
	return operator[0].Equal(ast.DefaultRootDocument) || quickCalls[operator.String()]
}

// needsLong reports whether one of the rules that a reference names may take long.
func (c *Compiler) needsLong(ref ast.Ref) bool {
	if !ref[0].Equal(ast.DefaultRootDocument) {
		return false
	}
	for _, rule := range c.compiler.GetRules(ref) {
		long, known := c.long[rule]
		if !known {
			for _, e := range rule.Body {
				long = long || c.takesLong(e)
			}
			c.long[rule] = long
		}
		if long || rule.Else != nil {
			return true
		}
	}
	return false
}
