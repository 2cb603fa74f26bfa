package rego

import (
	"cmp"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/evaluator"
)

// reach is what the rules that an evaluation of a path can come to have in their text. No decision rests
// on it: it says which requests have to be readable, what may be left out of a message, and which
// policies can be evaluated twice.
type reach struct {
	compiler *ast.Compiler
	seen     map[*ast.Rule]bool
	// names are the variables that have the input as their value.
	names map[ast.Var]bool
	// at is the place of the term that is visited.
	at *ast.Location
	// inputs are the paths of the input that the rules name, each once, by file and line.
	inputs []Reference
	// clock and random say that a built-in is called whose result depends on the time, or on chance.
	clock, random bool
}

// Reference is a place of a module that reads the input.
type Reference struct {
	// Path are the names below `input`, up to the first that only an evaluation knows. It is
	// empty for the whole input.
	Path []string
	// File is the module, and Row the line in it, from 1.
	File string
	Row  int
}

// reachOf returns what a reference to rules can come to.
func reachOf(compiler *ast.Compiler, ref ast.Ref) *reach {
	r := &reach{compiler: compiler, seen: make(map[*ast.Rule]bool), names: make(map[ast.Var]bool)}
	r.ref(ref)
	r.compiler, r.seen, r.names, r.at = nil, nil, nil, nil
	// A list of rules names the same few paths, over and over: the first place of each is enough.
	slices.SortFunc(r.inputs, func(a, b Reference) int { return cmp.Or(slices.Compare(a.Path, b.Path), a.compare(b)) })
	r.inputs = slices.CompactFunc(r.inputs, func(a, b Reference) bool { return slices.Equal(a.Path, b.Path) })
	slices.SortStableFunc(r.inputs, Reference.compare)
	return r
}

// compare orders references by file and line.
func (r Reference) compare(other Reference) int {
	return cmp.Or(cmp.Compare(r.File, other.File), cmp.Compare(r.Row, other.Row))
}

// mayRead reports whether the rules may read something at, above or below a path of the input.
func (r *reach) mayRead(path []string) bool {
	return slices.ContainsFunc(r.inputs, func(named Reference) bool {
		n := min(len(named.Path), len(path))
		return slices.Equal(named.Path[:n], path[:n])
	})
}

// visit takes what stands in a part of a module.
func (r *reach) visit(part any) {
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Term:
			if x.Location != nil {
				r.at = x.Location
			}
		case *ast.Expr:
			return r.expr(x)
		case ast.Ref:
			r.ref(x)
			for _, operand := range x[1:] {
				r.visit(operand)
			}
			return true
		case ast.Var:
			r.ref(ast.Ref{ast.NewTerm(x)})
		}
		return false
	}).Walk(part)
}

// expr takes an expression of which not all parts are read as they stand: one that gives the input another name, and a call of
// object.get that reads one path of the input. It reports false for any other one.
func (r *reach) expr(e *ast.Expr) bool {
	if _, ok := r.named(e); ok {
		return true
	}
	if !e.IsCall() || e.Operator().String() != ast.ObjectGet.Name || !r.isInput(e.Operand(0)) {
		return false
	}
	path := ast.Ref{e.Operand(1)}
	if keys, ok := e.Operand(1).Value.(*ast.Array); ok {
		path = nil
		keys.Foreach(func(key *ast.Term) { path = append(path, key) })
	}
	if e.Location != nil {
		r.at = e.Location
	}
	r.ref(append(ast.Ref{ast.InputRootDocument}, path...))
	for _, operand := range e.Operands()[1:] {
		r.visit(operand)
	}
	for _, with := range e.With {
		r.visit(with)
	}
	return true
}

// named returns the variable to which an expression gives the input as its value. It is one that the compiler of OPA has
// made, of which there is one of that name in a policy.
func (r *reach) named(e *ast.Expr) (ast.Var, bool) {
	if !e.IsEquality() || len(e.With) > 0 || e.Negated {
		return "", false
	}
	for i, other := range []int{1, 0} {
		if v, ok := e.Operand(i).Value.(ast.Var); ok && v.IsGenerated() && e.Operand(other).Value.Compare(ast.Ref{ast.InputRootDocument}) == 0 {
			return v, true
		}
	}
	return "", false
}

// isInput reports whether a term is the whole input, or a name of it.
func (r *reach) isInput(t *ast.Term) bool {
	v, isVar := t.Value.(ast.Var)
	return isVar && r.names[v] || t.Value.Compare(ast.Ref{ast.InputRootDocument}) == 0
}

// ref takes a reference: to the input, to rules, or to a built-in.
func (r *reach) ref(ref ast.Ref) {
	if v, ok := ref[0].Value.(ast.Var); ok && r.names[v] {
		ref = append(ast.Ref{ast.InputRootDocument}, ref[1:]...)
	}
	switch {
	case ref[0].Equal(ast.InputRootDocument):
		named := Reference{Path: names(ref[1:])}
		if r.at != nil {
			named.File, named.Row = r.at.File, r.at.Row
		}
		r.inputs = append(r.inputs, named)
	case ref[0].Equal(ast.DefaultRootDocument):
		for _, rule := range r.compiler.GetRulesDynamicWithOpts(ref, ast.RulesOptions{IncludeHiddenModules: true}) {
			if !r.seen[rule] {
				r.seen[rule] = true
				ast.WalkExprs(rule, func(e *ast.Expr) bool {
					if v, ok := r.named(e); ok {
						r.names[v] = true
					}
					return false
				})
				r.visit(rule)
			}
		}
	default:
		if name := ref.String(); ast.BuiltinMap[name] != nil {
			r.clock = r.clock || evaluator.OfTheClock(name)
			r.random = r.random || evaluator.OfChance(name)
		}
	}
}

// names returns the names at the beginning of a reference.
func names(ref ast.Ref) (out []string) {
	for _, term := range ref {
		name, ok := term.Value.(ast.String)
		if !ok {
			break
		}
		out = append(out, string(name))
	}
	return out
}
