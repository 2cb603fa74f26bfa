package compile

import (
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxParts bounds how many parts a value has that a rule puts together of its own variables.
// Thirty lines such as `x1 := [x0, x0]` make one of 2^30: the evaluator writes it out in a
// single step that no deadline ends. From rule to rule, and from call to call, values are
// written out each time, so there a deadline is in time.
const maxParts = 1 << 20

// growth finds out how large the values of a rule's variables are that it is made of itself.
type growth struct {
	// made :: variable → the terms that it is put together of.
	made map[ast.Var][]*ast.Term
	// same :: variable → another one of the same value, nearer to the one that stands for all.
	same map[ast.Var]ast.Var
	// parts :: variable → how many it has; 1 while that is being found out.
	parts map[ast.Var]float64
}

// firstTooLarge returns the problem of a rule that puts together too large a value, or nil. An
// else branch is a part of its rule.
func firstTooLarge(modules map[string]*ast.Module) *Problem {
	for _, module := range modules {
		for _, rule := range module.Rules {
			if p := tooLarge(rule); p != nil {
				return p
			}
		}
	}
	return nil
}

// tooLarge returns the problem of a rule that puts together too large a value, or nil.
func tooLarge(rule *ast.Rule) *Problem {
	g := &growth{made: make(map[ast.Var][]*ast.Term), same: make(map[ast.Var]ast.Var), parts: make(map[ast.Var]float64)}
	ast.WalkExprs(rule, func(e *ast.Expr) bool {
		if e.IsAssignment() || e.IsEquality() {
			g.pair(e.Operand(0), e.Operand(1))
		}
		return false
	})
	g.join()
	for _, v := range slices.Sorted(maps.Keys(g.made)) {
		if g.of(v) > maxParts {
			return effortProblem(rule, fmt.Sprintf("the value of %s has more than %d parts: values are put into one another again and again.", v, maxParts))
		}
	}
	return nil
}

// pair notes that two terms are the same value.
func (g *growth) pair(a, b *ast.Term) {
	x, isVar := a.Value.(ast.Var)
	y, other := b.Value.(ast.Var)
	switch {
	case isVar && other:
		if x, y = g.one(x), g.one(y); x != y {
			g.same[x] = y
		}
	case isVar:
		g.made[x] = append(g.made[x], b)
	case other:
		g.made[y] = append(g.made[y], a)
	}
	eachPart(a, b, g.pair)
}

// eachPart calls a function for the parts of two terms that are written in the same place: the elements of arrays of
// one length, and the values of objects at one key.
func eachPart(a, b *ast.Term, pair func(a, b *ast.Term)) {
	switch x := a.Value.(type) {
	case *ast.Array:
		if y, ok := b.Value.(*ast.Array); ok && x.Len() == y.Len() {
			for i := range x.Len() {
				pair(x.Elem(i), y.Elem(i))
			}
		}
	case ast.Object:
		if y, ok := b.Value.(ast.Object); ok {
			x.Foreach(func(key, value *ast.Term) {
				if other := y.Get(key); other != nil {
					pair(value, other)
				}
			})
		}
	}
}

// one returns the variable that stands for all of the same value.
func (g *growth) one(v ast.Var) ast.Var {
	for {
		next, ok := g.same[v]
		if !ok {
			return v
		}
		v = next
	}
}

// join has the terms of all variables of one value under the one that stands for them.
func (g *growth) join() {
	for v := range g.same {
		if to := g.one(v); len(g.made[v]) > 0 {
			g.made[to] = append(g.made[to], g.made[v]...)
		}
	}
}

// of returns how many parts a variable has.
func (g *growth) of(v ast.Var) float64 {
	v = g.one(v)
	if known, ok := g.parts[v]; ok {
		return known
	}
	g.parts[v] = 1
	most := 1.0
	for _, t := range g.made[v] {
		most = max(most, g.weight(t))
	}
	g.parts[v] = most
	return most
}

// weight returns how many parts a term has. What is looked up or computed counts as one.
func (g *growth) weight(t *ast.Term) float64 {
	sum := 1.0
	add := func(t *ast.Term) { sum += g.weight(t) }
	switch v := t.Value.(type) {
	case ast.Var:
		return g.of(v)
	case *ast.Array:
		v.Foreach(add)
	case ast.Set:
		v.Foreach(add)
	case ast.Object:
		v.Foreach(func(key, value *ast.Term) { add(key); add(value) })
	}
	return sum
}
