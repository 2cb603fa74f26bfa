package dependencies

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// unit is a rule with its else branches. Variables are known by name within it. The compiler
// makes the names of declared ones unique; two others may share a name, such as in two
// comprehensions.
type unit struct {
	// first :: variable → the expression in which it occurs first; nil for an argument. An
	// evaluation goes through the expressions in their order, so a variable whose first
	// expression is `x = term` has the term's value, and no other, wherever it is used.
	first map[ast.Var]*ast.Expr
	// definitions :: declared variable → the term that its first expression sets it to.
	definitions map[ast.Var]*ast.Term
	// aliases are the variables that stand for a path of the input, or for what is made
	// of it by calls (observations.go). Whatever else may set one, or another variable of
	// its name, is read whole: so values of another origin add nothing that is not known.
	aliases map[ast.Var]alias
	// dependsOnClock says that the clock reaches something that it must not.
	dependsOnClock bool
}

// alias is a variable that its first expression sets to a path.
type alias struct {
	path []string
	expr *ast.Expr
}

// alias returns the path that a variable stands for. A path that is not nil may be
// empty: the input as a whole.
func (u *unit) alias(v ast.Var) ([]string, bool) {
	a, ok := u.aliases[v]
	return a.path, ok
}

// inputRule is a rule whose value, where it has one, is what is at a path.
type inputRule struct {
	path []string
	rule *ast.Rule
}

// mostRounds bounds the chains of rules that stand for paths, each by the next.
const mostRounds = 4

// findUnits finds out what the variables of all rules stand for, and which rules stand for
// paths: one may be made of another, so it looks again while there are more.
func (a *Analysis) findUnits(rules []*ast.Rule) {
	for range mostRounds {
		known := len(a.inputRules)
		for _, rule := range rules {
			a.units[rule] = a.newUnit(rule)
			a.findInputRule(rule)
		}
		if len(a.inputRules) == known {
			return
		}
	}
}

// findInputRule notes a rule whose value is that of a variable which stands for a path. Its
// conditions say whether it has a value: who asks for the path follows the rule as well.
func (a *Analysis) findInputRule(rule *ast.Rule) {
	if !a.alone(rule) {
		return
	}
	value, ok := rule.Head.Value.Value.(ast.Var)
	if !ok {
		return
	}
	if path, ok := a.units[rule].alias(value); ok {
		a.inputRules[rule.Ref().String()] = inputRule{path, rule}
	}
}

// inputRule returns the rule that stands for a path at the beginning of a reference, and
// how many terms of the reference are its own.
func (a *Analysis) inputRule(ref ast.Ref) (found inputRule, n int) {
	if len(a.inputRules) == 0 {
		return found, 0
	}
	for n := 2; n <= len(ref); n++ {
		if found, ok := a.inputRules[ref[:n].String()]; ok && ref[:n].IsGround() {
			return found, n
		}
	}
	return found, 0
}

func (a *Analysis) newUnit(rule *ast.Rule) *unit {
	u := &unit{first: firstExprs(rule), definitions: make(map[ast.Var]*ast.Term), aliases: make(map[ast.Var]alias)}
	for grown := true; grown; {
		grown = false
		eachExpr(rule, func(e *ast.Expr) {
			a.defined(u, e, func(v ast.Var, path []string) {
				if _, known := u.aliases[v]; !known && u.first[v] == e {
					u.aliases[v], grown = alias{path, e}, true
				}
			})
		})
	}
	return u
}

// firstExprs returns for each variable the expression in which it occurs first. Arguments,
// and the keys of a head, may have values before.
func firstExprs(rule *ast.Rule) map[ast.Var]*ast.Expr {
	out := make(map[ast.Var]*ast.Expr)
	var current *ast.Expr
	visitor := ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			current = x
		case ast.Var:
			if _, seen := out[x]; !seen {
				out[x] = current
			}
		}
		return false
	})
	for r := rule; r != nil; r = r.Else {
		current = nil
		for _, arg := range r.Head.Args {
			visitor.Walk(arg)
		}
		visitor.Walk(r.Head.Reference)
		if r.Head.Key != nil {
			visitor.Walk(r.Head.Key)
		}
		visitor.Walk(r.Body)
	}
	return out
}

// defined calls found for each variable that an expression sets to a path, and notes those
// that it sets to anything else: `local = input.a.b`, `[local, _] = local2`, a call of a
// built-in that is an observation.
func (a *Analysis) defined(u *unit, e *ast.Expr, found func(ast.Var, []string)) {
	if e.Negated || len(e.With) > 0 {
		return
	}
	if !e.IsEquality() {
		if path, output := a.call(u, e, nameOfCall(e)); output != nil {
			matched(output, path, found)
		}
		return
	}
	for i := range 2 {
		t, value := e.Operand(i), e.Operand(1-i)
		if path, _, ok := a.path(u, value); ok {
			matched(t, path, found)
		}
		if v, ok := t.Value.(ast.Var); ok && isLocal(v) && u.first[v] == e {
			u.definitions[v] = value
		}
	}
}

// matched calls found for each variable of a pattern that is matched with what is at a path.
func matched(pattern *ast.Term, path []string, found func(ast.Var, []string)) {
	switch p := pattern.Value.(type) {
	case ast.Var:
		found(p, path)
	case *ast.Array:
		for i := range p.Len() {
			matched(p.Elem(i), below(path, IndexName(i)), found)
		}
	}
}

// nameOfCall returns the name of what an expression calls; empty if it is no call.
func nameOfCall(e *ast.Expr) string {
	if terms, ok := e.Terms.([]*ast.Term); ok && len(terms) > 1 {
		if operator, ok := terms[0].Value.(ast.Ref); ok {
			return operator.String()
		}
	}
	return ""
}

// call returns the path of the result of a call that is an observation, and where the
// result goes, which is nil if that is nowhere. The path is nil if the call is none: its operands
// have to be constants but for one.
func (a *Analysis) call(u *unit, e *ast.Expr, name string) (path []string, output *ast.Term) {
	if _, ok := observable[name]; !ok {
		return nil, nil
	}
	terms := e.Terms.([]*ast.Term)
	operands := slices.Clone(terms[1:min(len(terms), 1+len(ast.BuiltinMap[name].Decl.FuncArgs().Args))])
	var value []string
	for i, o := range operands {
		if path, _, ok := a.path(u, o); ok && value == nil {
			value, operands[i] = path, nil
		} else if operands[i] = a.constant(u, o); operands[i] == nil {
			return nil, nil
		}
	}
	if value == nil {
		return nil, nil
	}
	if len(terms) > 1+len(operands) {
		output = terms[1+len(operands)]
	}
	return below(value, callName(name, operands)), output
}

// path returns the path that a term stands for, and the rule by which it does.
func (a *Analysis) path(u *unit, t *ast.Term) (path []string, by *ast.Rule, ok bool) {
	switch v := t.Value.(type) {
	case ast.Ref:
		path, rest, by := a.resolve(u, v)
		return path, by, path != nil && len(rest) == 0
	case ast.Var:
		path, ok = u.alias(v)
	}
	return path, nil, ok
}

// resolve returns the path that a reference leads to, as far as its names are constant, and
// the terms after that. The path is nil, not empty, if it does not lead into the input.
func (a *Analysis) resolve(u *unit, ref ast.Ref) (path []string, rest ast.Ref, by *ast.Rule) {
	base, rest, by := a.base(u, ref)
	if base == nil {
		return nil, nil, nil
	}
	path = append(make([]string, 0, len(base)+len(rest)), base...)
	for i, t := range rest {
		name, ok := nameOf(t)
		if !ok {
			return path, rest[i:], by
		}
		path = append(path, name)
	}
	return path, nil, by
}

// nameOf returns the name of a constant field or element.
func nameOf(t *ast.Term) (string, bool) {
	switch v := t.Value.(type) {
	case ast.String:
		return string(v), plainName(string(v))
	case ast.Number:
		i, ok := v.Int()
		return IndexName(i), ok && i >= 0
	}
	return "", false
}

// base resolves the head of a reference: input, a variable or a rule that stands for
// a path of it.
func (a *Analysis) base(u *unit, ref ast.Ref) (path []string, rest ast.Ref, by *ast.Rule) {
	switch {
	case ref[0].Equal(ast.InputRootDocument):
		return []string{}, ref[1:], nil
	case ref[0].Equal(ast.DefaultRootDocument):
		found, n := a.inputRule(ref)
		return found.path, ref[n:], found.rule
	}
	if v, ok := ref[0].Value.(ast.Var); ok {
		if path, ok := u.alias(v); ok {
			return path, ref[1:], nil
		}
	}
	return nil, nil, nil
}

// isLocal reports whether a variable was named by the compiler, uniquely.
func isLocal(v ast.Var) bool { return strings.HasPrefix(string(v), ast.LocalVarPrefix) }
