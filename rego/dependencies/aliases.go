package dependencies

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// unit is a rule with its else branches. Variables are known by name within it.
//
// An evaluation goes through the expressions of a body in their order, and through a closure
// with what is bound outside. So a variable whose first expression is `x = term` has the term's
// value, and no other, in the body of that expression and in closures there. If it stands
// anywhere else, nothing is known of it: it may be set again there ([scopes]).
type unit struct {
	*Analysis
	*scopes
	// definitions :: declared variable → the term that its first expression sets it to.
	definitions map[ast.Var]*ast.Term
	// aliases are the variables that stand for a path: of the input, of what is made of it by
	// calls (observations.go), or of the clock (clock.go). Whatever else may set one is read
	// whole: so values of another origin add nothing that is not known.
	aliases map[ast.Var]alias
	// seen are the variables of the expressions before, while these are looked at.
	seen map[ast.Var]bool
}

// alias is a variable that its first expression sets to a path. A path that is not nil may be
// empty: the input as a whole.
type alias struct {
	path []string
	expr *ast.Expr
}

// unit returns what is known of a rule. It is noted before it is complete, so that this ends
// even where rules refer to each other.
func (a *Analysis) unit(rule *ast.Rule) *unit {
	if u, known := a.units[rule]; known {
		return u
	}
	u := &unit{a, scopesOf(rule), make(map[ast.Var]*ast.Term), make(map[ast.Var]alias), make(map[ast.Var]bool)}
	a.units[rule] = u
	visitor := ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			u.define(x)
		case ast.Var:
			u.seen[x] = true
		}
		return false
	})
	for r := rule; r != nil; r = r.Else {
		// Arguments, and the keys of a head, may have values before.
		for _, arg := range r.Head.Args {
			visitor.Walk(arg)
		}
		visitor.Walk(r.Head.Reference)
		if r.Head.Key != nil {
			visitor.Walk(r.Head.Key)
		}
		visitor.Walk(r.Body)
	}
	return u
}

// define notes each new variable that an expression sets to a path or another term:
// `local = input.a.b`, `[local, _] = local2`, a call of a built-in that is an observation.
func (u *unit) define(e *ast.Expr) {
	if e.Negated || len(e.With) > 0 {
		return
	}
	if !e.IsEquality() {
		if path, output := u.call(e); output != nil {
			u.match(output, path, e)
		}
		return
	}
	for i := range 2 {
		t, value := e.Operand(i), e.Operand(1-i)
		if path, _ := u.path(value); path != nil {
			u.match(t, path, e)
		}
		if v, ok := t.Value.(ast.Var); ok && strings.HasPrefix(string(v), ast.LocalVarPrefix) && u.isNew(t) && !u.isNew(value) && u.serves(e, v) {
			u.definitions[v] = value
		}
	}
}

// isNew reports whether a term is a variable that was not met before. No variable is defined by
// such a one, so none is by itself.
func (u *unit) isNew(t *ast.Term) bool {
	v, ok := t.Value.(ast.Var)
	return ok && !u.seen[v]
}

// match notes the new variables of a pattern that an expression matches with what is at a path.
func (u *unit) match(pattern *ast.Term, path []string, e *ast.Expr) {
	switch p := pattern.Value.(type) {
	case ast.Var:
		if _, known := u.aliases[p]; !known && !u.seen[p] && u.serves(e, p) {
			u.aliases[p] = alias{path, e}
		}
	case *ast.Array:
		for i := range p.Len() {
			u.match(p.Elem(i), below(path, IndexName(i)), e)
		}
	}
}

// builtin returns the name of the built-in that an expression calls, or of the one in whose place
// it stands; empty if it calls none.
func (a *Analysis) builtin(e *ast.Expr) string {
	if terms, ok := e.Terms.([]*ast.Term); ok && len(terms) > 1 {
		if operator, ok := terms[0].Value.(ast.Ref); ok {
			return a.Builtins.Original(operator.String())
		}
	}
	return ""
}

// call returns the path of the result of a call that is an observation, or makes a function of
// the clock, and where the result goes, which is nil if that is nowhere. The path is nil if the
// call is neither: its operands have to be constants but for one.
func (u *unit) call(e *ast.Expr) (path []string, output *ast.Term) {
	name := u.builtin(e)
	builtin, terms := ast.BuiltinMap[name], e.Operands()
	if _, ok := observable[name]; !ok && !clockBuiltins[name] || builtin == nil {
		return nil, nil
	}
	operands := slices.Clone(terms[:min(len(terms), len(builtin.Decl.FuncArgs().Args))])
	var value []string
	for i, o := range operands {
		if path, _ := u.path(o); path != nil && value == nil {
			value, operands[i] = path, nil
		} else if operands[i] = u.constant(o); operands[i] == nil {
			return nil, nil
		}
	}
	if len(terms) > len(operands) {
		output = terms[len(operands)]
	}
	switch {
	case clockBuiltins[name]:
		return clockCall(name, value, operands), output
	case value == nil || isClock(value):
		return nil, nil
	}
	return below(value, callName(name, operands)), output
}

// path returns the path that a term stands for, and the rule by which it does. The path is nil,
// not empty, if there is none.
func (u *unit) path(t *ast.Term) (path []string, by *ast.Rule) {
	path, rest, by := u.resolve(t)
	if len(rest) > 0 {
		return nil, nil
	}
	return path, by
}

// resolve returns the path that a variable or reference leads to, as far as its names are constant,
// the terms after that, and the rule by which it does. The conditions of that rule say whether
// there is a value: who asks for the path has to follow it as well.
func (u *unit) resolve(t *ast.Term) (path []string, rest []*ast.Term, by *ast.Rule) {
	ref, ok := t.Value.(ast.Ref)
	switch {
	case !ok:
		v, _ := t.Value.(ast.Var)
		return u.aliases[v].path, nil, nil
	case ref[0].Equal(ast.InputRootDocument):
		path, rest = []string{}, ref[1:]
	case ref[0].Equal(ast.DefaultRootDocument):
		path, rest, by = u.named(ref)
	default:
		path, _ = u.path(ref[0])
		rest = ref[1:]
	}
	if path == nil {
		return nil, nil, nil
	}
	path, rest = extend(path, rest)
	return path, rest, by
}

// named returns the path that a rule at the beginning of a reference stands for, the terms after
// it, and the rule.
func (u *unit) named(ref ast.Ref) (path []string, rest []*ast.Term, by *ast.Rule) {
	for n := 2; n <= len(ref); n++ {
		if rule := u.ruleOf(ref[:n]); rule != nil {
			v, _ := rule.Head.Value.Value.(ast.Var)
			return u.unit(rule).aliases[v].path, ref[n:], rule
		}
	}
	return nil, nil, nil
}

// extend returns a path with the constant names of fields and elements that follow it, and the
// terms after these.
func extend(path []string, by []*ast.Term) (longer []string, rest []*ast.Term) {
	longer = slices.Clip(path)
	for i, t := range by {
		name, ok := nameOf(t)
		if !ok {
			return longer, by[i:]
		}
		longer = append(longer, name)
	}
	return longer, nil
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
