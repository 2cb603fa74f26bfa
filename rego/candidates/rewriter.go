// Package candidates has loops over the data of a policy try the entries alone that can
// fulfil one of their conditions.
//
// Many policies try the entries of a collection in their data one by one:
//
//	some rule in data.rules
//	rule.method == http.method
//	startswith(http.path, rule.prefix)
//
// The collection never changes, so it has a candidate index for the condition that tells
// its entries apart best: the entries by the strings in the field that it compares (their
// postings). Before such a loop stands an expression of ours, which gives its variable only
// to the candidates: the entries that can fulfil that condition. Nothing else of the rule
// is touched, so a candidate too many costs time and nothing more; and an entry that is
// left out would have failed at a condition that stands in the rule.
package candidates

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/types"

	"understudy/rego/dependencies"
)

// rewriter finds loops and puts the look-up of their candidates before them. The
// example of the package becomes, in effect:
//
//	c = data.rules
//	path = http.path
//	understudy_built_in(c, path, i)   # i is the key of a candidate
//	rule = data.rules[i]
//	rule.method == http.method
//	startswith(http.path, rule.prefix)
type rewriter struct {
	compiler *ast.Compiler
	analysis *dependencies.Analysis
	indexer  indexer
	// variables counts those that were made.
	variables int
}

// Rewrite has the loops in all modules of a compiler try candidates alone, unless a
// built-in may be replaced by another: a condition might mean something else, or fail with
// an error. It stops soon after ctx is done; what is rewritten by then is right.
func Rewrite(ctx context.Context, compiler *ast.Compiler, known *dependencies.Analysis) {
	if known.Mocked() {
		return
	}
	w := &rewriter{compiler: compiler, analysis: known, indexer: indexer{indexUpTo, make(map[source]*postings)}}
	for _, file := range slices.Sorted(maps.Keys(compiler.Modules)) {
		for _, rule := range compiler.Modules[file].Rules {
			w.rule(rule)
			if ctx.Err() != nil {
				return
			}
		}
	}
}

// rule rewrites the loops of a rule and its else branches. Those within comprehensions
// stay as they are: OPA evaluates some of them without what is bound outside.
func (w *rewriter) rule(rule *ast.Rule) {
	for r := rule; r != nil; r = r.Else {
		known, seen := ast.NewVarSet("input", "data"), ast.NewVarVisitor()
		known.Update(r.Head.Args.Vars())
		seen.Walk(r.Head.Args)
		seen.Walk(r.Head.Reference)
		if r.Head.Key != nil { // who asks for one key of many binds it before
			seen.Walk(r.Head.Key)
		}
		var out []*ast.Expr
		for i, e := range r.Body {
			if l := w.loopAt(rule, r.Body[i:], known, seen.Vars()); l != nil && len(l.conditions) > 0 {
				for _, before := range w.lookup(l) {
					out = append(out, before.SetLocation(e.Location))
				}
			}
			known.Update(w.boundBy(e, known))
			seen.Walk(e)
			out = append(out, e)
		}
		if len(out) > len(r.Body) {
			r.Body = ast.NewBody(out...)
		}
	}
}

// lookup returns the expressions that bind the variable of a loop to the entries that
// can fulfil a condition of it; none if there is no index that helps.
func (w *rewriter) lookup(l *loop) []*ast.Expr {
	variable, reference := l.element[len(l.element)-1], l.element[:len(l.element)-1]
	collections, ok := w.analysis.Values(reference, &w.indexer.budget)
	if !ok {
		return nil
	}
	index := w.indexer.best(collections, l.conditions)
	if index == nil {
		return nil
	}
	collection, key := w.variable(), w.variable()
	lookup := w.analysis.Builtins.Add(types.NewFunction([]types.Type{types.A, types.A}, types.A), index.candidates)
	return []*ast.Expr{
		ast.Equality.Expr(collection, ast.NewTerm(reference)),
		ast.Equality.Expr(key, index.key),
		lookup.Expr(collection, key, variable),
	}
}

// boundBy returns the variables that have a value, without variables in it, once an
// expression has passed, if others have one before it. All in a call have: its operands are
// bound before it, and its value after it. A pattern in an equality may leave some open.
func (w *rewriter) boundBy(e *ast.Expr, known ast.VarSet) ast.VarSet {
	if e.IsCall() && !e.IsEquality() && !e.Negated {
		return e.Vars(ast.VarVisitorParams{SkipClosures: true, SkipRefHead: true})
	}
	return ast.OutputVarsFromExpr(w.compiler, e, known)
}

// variable returns a new one.
func (w *rewriter) variable() *ast.Term {
	w.variables++
	return ast.VarTerm(fmt.Sprintf("%s%d", VariablePrefix, w.variables))
}

// VariablePrefix begins the names of the variables that are put into rules: it cannot be
// written in Rego.
const VariablePrefix = "understudy variable "
