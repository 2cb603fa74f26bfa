package rego

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
)

// Many policies try the entries of a collection in their data one by one:
//
//	some rule in data.rules
//	rule.method == http.method
//	startswith(http.path, rule.prefix)
//
// The collection never changes, so it can be indexed by the fields that conditions
// compare. A loop gets a generator of ours before it, which gives its variable only to
// the entries that can fulfil those conditions. Nothing else of the rule is touched, so
// an entry too many costs time and nothing more; and an entry that is left out would
// have failed at a condition that stands in the rule.

// loop is an iteration over a collection of the data, in the body of a rule.
type loop struct {
	// element is the reference to an entry: the collection, and the variable.
	element    ast.Ref
	conditions []condition
}

func (l *loop) collection() ast.Ref { return l.element[:len(l.element)-1] }

func (l *loop) variable() *ast.Term { return l.element[len(l.element)-1] }

// narrower finds loops and puts generators before them.
type narrower struct {
	analysis *analysis
	// data is the document that evaluations read.
	data ast.Value
	// collections :: reference → what it can lead to.
	collections map[string]*collections
	// budget is how many entries may still be looked at.
	budget int
	// variables counts those that were made.
	variables int
}

// narrow narrows the loops of all rules, unless one of the built-ins that conditions
// are made of may be another.
func (p *Program) narrow(ctx context.Context, known *analysis) error {
	if known.mocked {
		return nil
	}
	data, err := p.store.Read(ctx, p.txn, storage.RootPath)
	if err != nil {
		return fmt.Errorf("reading the data: %w", err)
	}
	n := &narrower{
		analysis: known, data: data.(ast.Value), collections: make(map[string]*collections), budget: indexUpTo,
	}
	for _, file := range slices.Sorted(maps.Keys(p.compiler.Modules)) {
		for _, rule := range p.compiler.Modules[file].Rules {
			n.rule(rule)
		}
		if ctx.Err() != nil {
			return ended(ctx)
		}
	}
	return nil
}

// rule narrows the loops of a rule and its else branches. Those within comprehensions
// stay as they are: OPA evaluates some of them without what is bound outside.
func (n *narrower) rule(rule *ast.Rule) {
	for r := rule; r != nil; r = r.Else {
		known := make(bound)
		for _, arg := range r.Head.Args {
			known.all(arg)
		}
		r.Body = n.body(r.Body, known)
	}
}

func (n *narrower) body(body ast.Body, known bound) ast.Body {
	var out []*ast.Expr
	for i, e := range body {
		if l := n.loopAt(body[i:], known); l != nil {
			for _, before := range n.generator(l) {
				out = append(out, before.SetLocation(e.Location))
			}
		}
		known.after(e)
		out = append(out, e)
	}
	if len(out) == len(body) {
		return body
	}
	return ast.NewBody(out...)
}

// loopAt returns the loop that begins with the first of the expressions, nil if none
// does.
func (n *narrower) loopAt(rest ast.Body, known bound) *loop {
	element := loopOver(rest[0], known)
	if element == nil {
		return nil
	}
	l := &loop{element: element}
	s := scan{loop: l, known: known, fields: make(map[ast.Var]ast.Ref), places: make(map[ast.Var]*ast.Term)}
	for _, e := range rest {
		if !n.simple(e) {
			break
		}
		s.expr(e)
	}
	return l
}

// loopOver returns the reference to an entry if the expression is the first to use
// it: data.a.b[i], where i is not bound. What is before i may be.
func loopOver(e *ast.Expr, known bound) ast.Ref {
	if !e.IsEquality() || e.Negated || len(e.With) > 0 {
		return nil
	}
	for i := range 2 {
		ref, ok := e.Operand(i).Value.(ast.Ref)
		if !ok || !ref[0].Equal(ast.DefaultRootDocument) {
			continue
		}
		n := slices.IndexFunc(ref[1:], func(t *ast.Term) bool { return !isScalar(t) && !known.has(t) }) + 1
		// Not all of the data is meant by data[i].
		if n > 1 && isVariable(ref[n]) {
			return ref[:n+1]
		}
	}
	return nil
}

// simple reports whether an expression can do nothing but pass or fail. Of others the
// entries that are left out might have caused an error.
func (n *narrower) simple(e *ast.Expr) bool {
	if _, ok := e.Terms.(*ast.Every); ok || len(e.With) > 0 {
		return false
	}
	simple := true
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			simple = false
		case ast.Ref:
			simple = simple && (!x[0].Equal(ast.DefaultRootDocument) || len(n.analysis.rulesAt(x)) == 0)
		}
		return !simple
	}).Walk(e)
	return simple
}

// generator returns the expressions that bind the variable of a loop to the entries
// that can fulfil its conditions; none if there is no index that helps.
func (n *narrower) generator(l *loop) []*ast.Expr {
	index := n.collectionsAt(l.collection()).index(l.conditions, &n.budget)
	if index == nil {
		return nil
	}
	collection := n.variable()
	out := []*ast.Expr{ast.Equality.Expr(collection, ast.NewTerm(l.collection()))}
	operands := []*ast.Term{collection}
	for _, c := range index.conditions {
		key := c.key
		if _, ok := key.Value.(ast.Ref); ok {
			key = n.variable()
			out = append(out, ast.Equality.Expr(key, c.key))
		}
		operands = append(operands, key)
	}
	return append(out, n.analysis.ours.generator(index, append(operands, l.variable())))
}

// variable returns one that cannot be written in Rego.
func (n *narrower) variable() *ast.Term {
	n.variables++
	return ast.VarTerm(fmt.Sprintf("%s%d", variablePrefix, n.variables))
}

const variablePrefix = "understudy variable "

// collectionsAt returns the collections that a reference can lead to. Each of its
// variables can be anything.
func (n *narrower) collectionsAt(ref ast.Ref) *collections {
	pattern := ref.Copy()
	for i, step := range pattern[1:] {
		if !isScalar(step) {
			pattern[i+1] = ast.Wildcard
		}
	}
	name := pattern.String()
	if _, ok := n.collections[name]; !ok {
		n.collections[name] = newCollections(n.documents(pattern), &n.budget)
	}
	return n.collections[name]
}

// documents returns what of the data is at a reference, in which a wildcard is
// anything; nothing if that is more than the budget allows.
func (n *narrower) documents(pattern ast.Ref) []ast.Value {
	at := []ast.Value{n.data}
	for _, step := range pattern[1:] {
		var next []ast.Value
		for _, v := range at {
			if n.budget--; n.budget < 0 {
				return nil
			}
			if step.Equal(ast.Wildcard) {
				n.budget -= size(v)
				_ = eachEntry(v, func(_, child *ast.Term) error {
					next = append(next, child.Value)
					return nil
				})
			} else if child, err := v.Find(ast.Ref{step}); err == nil {
				next = append(next, child)
			}
		}
		at = next
	}
	return at
}
