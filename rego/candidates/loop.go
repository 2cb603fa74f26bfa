// Package candidates has loops over the data of a policy try the entries alone that can
// fulfil their conditions.
//
// Many policies try the entries of a collection in their data one by one:
//
//	some rule in data.rules
//	rule.method == http.method
//	startswith(http.path, rule.prefix)
//
// The collection never changes, so it has a candidate index: for each field that a
// condition compares, the entries by the strings in it (their postings). Before such a
// loop stands an expression of ours, which gives its variable only to the candidates: the
// entries that can fulfil those conditions. Nothing else of the rule is touched, so a
// candidate too many costs time and nothing more; and an entry that is left out would have
// failed at a condition that stands in the rule.
package candidates

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/dependencies"
)

// loop is an iteration over a collection of the data, in the body of a rule. For `some
// rule in data.rules` the compiler wrote data.rules[i], which is the element.
type loop struct {
	// element is the reference to an entry: the collection, and the variable.
	element    ast.Ref
	conditions []condition
}

func (l *loop) collection() ast.Ref { return l.element[:len(l.element)-1] }

func (l *loop) variable() *ast.Term { return l.element[len(l.element)-1] }

// rewriter finds loops and puts the look-up of their candidates before them. The
// example of the package becomes, in effect:
//
//	c = data.rules
//	understudy_built_in(c, http.method, http.path, i)   # i is the key of a candidate
//	rule = data.rules[i]
//	rule.method == http.method
//	startswith(http.path, rule.prefix)
type rewriter struct {
	analysis *dependencies.Analysis
	indexer  *indexer
	// touches :: reference → whether there are rules that it may touch.
	touches map[string]bool
	// simple :: expression → whether it is.
	simple map[*ast.Expr]bool
	// variables counts those that were made.
	variables int
}

// Rewrite has the loops in all modules of a compiler try candidates alone, unless a
// built-in may be replaced by another: a condition might mean something else, or fail with
// an error. It stops soon after ctx is done; what is rewritten by then is right.
func Rewrite(ctx context.Context, compiler *ast.Compiler, data ast.Value, known *dependencies.Analysis) {
	if known.Mocked() {
		return
	}
	w := &rewriter{
		analysis: known, indexer: newIndexer(data),
		touches: make(map[string]bool), simple: make(map[*ast.Expr]bool),
	}
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
		known := make(bindings)
		for _, arg := range r.Head.Args {
			known.all(arg)
		}
		// Who asks for one key of many binds it before.
		known.seen(r.Head.Reference)
		if r.Head.Key != nil {
			known.seen(r.Head.Key)
		}
		r.Body = w.body(r.Body, known)
	}
}

// body returns a body with the look-ups in it; the same one if there are none. Each is
// put directly before the loop's first expression, where everything that its keys need
// is bound.
func (w *rewriter) body(body ast.Body, known bindings) ast.Body {
	var out []*ast.Expr
	for i, e := range body {
		if l := w.loopAt(body[i:], known); l != nil {
			for _, before := range w.lookup(l) {
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
func (w *rewriter) loopAt(rest ast.Body, known bindings) *loop {
	element := loopOver(rest[0], known)
	// The look-up reads the whole collection: no rule may be in it.
	if element == nil || w.touchesRules(element[:len(element)-1]) {
		return nil
	}
	l := &loop{element: element}
	s := scan{loop: l, known: known, fields: make(map[ast.Var]ast.Ref), places: make(map[ast.Var]*ast.Term)}
	for _, e := range rest[:min(len(rest), farthest)] {
		if !w.isSimple(e) {
			break
		}
		s.expr(e)
	}
	return l
}

// loopOver returns the reference to an entry if the expression is the first to use
// it: data.a.b[i], where i is not bound. What is before i may be.
func loopOver(e *ast.Expr, known bindings) ast.Ref {
	if !e.IsEquality() || e.Negated || len(e.With) > 0 {
		return nil
	}
	for i := range 2 {
		ref, ok := e.Operand(i).Value.(ast.Ref)
		if !ok || !ref[0].Equal(ast.DefaultRootDocument) {
			continue
		}
		n := slices.IndexFunc(ref[1:], func(t *ast.Term) bool { return !ast.IsScalar(t.Value) && !known.has(t) }) + 1
		// Not all of the data is meant by data[i]. A variable that may be bound may be
		// another name of an entry than its key: "3" is 3 in a reference to the data.
		if n > 1 && known.isNew(ref[n]) {
			return ref[:n+1]
		}
	}
	return nil
}

// farthest is how many expressions after its beginning belong to a loop: it bounds the
// work on long bodies, in which every expression could begin a loop.
const farthest = 32

// isSimple reports whether an expression can do nothing but pass or fail. Of others the
// entries that are left out might have caused an error.
func (w *rewriter) isSimple(e *ast.Expr) bool {
	simple, known := w.simple[e]
	if known {
		return simple
	}
	_, every := e.Terms.(*ast.Every)
	simple = !every && len(e.With) == 0
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			simple = false
		case ast.Ref:
			simple = simple && !w.touchesRules(x)
		}
		return !simple
	}).Walk(e)
	w.simple[e] = simple
	return simple
}

// touchesRules reports whether a reference leads to a rule, or to a document that has
// one in it.
func (w *rewriter) touchesRules(ref ast.Ref) bool {
	if !ref[0].Equal(ast.DefaultRootDocument) {
		return false
	}
	pattern, name := patternOf(ref)
	touches, known := w.touches[name]
	if !known {
		touches = len(w.analysis.RulesAt(pattern)) > 0
		w.touches[name] = touches
	}
	return touches
}

// lookup returns the expressions that bind the variable of a loop to the entries
// that can fulfil its conditions; none if there is no index that helps.
func (w *rewriter) lookup(l *loop) []*ast.Expr {
	index := w.indexer.indexOf(l)
	if index == nil {
		return nil
	}
	collection := w.variable()
	out := []*ast.Expr{ast.Equality.Expr(collection, ast.NewTerm(l.collection()))}
	operands := []*ast.Term{collection}
	for _, c := range index.conditions {
		key := c.key
		if _, ok := key.Value.(ast.Ref); ok {
			key = w.variable()
			out = append(out, ast.Equality.Expr(key, c.key))
		}
		operands = append(operands, key)
	}
	return append(out, index.expression(&w.analysis.Builtins, append(operands, l.variable())))
}

// variable returns one that cannot be written in Rego.
func (w *rewriter) variable() *ast.Term {
	w.variables++
	return ast.VarTerm(fmt.Sprintf("%s%d", VariablePrefix, w.variables))
}

// VariablePrefix begins the names of the variables that are put into rules. It cannot be
// written in Rego.
const VariablePrefix = "understudy variable "
