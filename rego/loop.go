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
	indexer  *indexer
	// touches :: reference → whether there are rules that it may touch.
	touches map[string]bool
	// simple :: expression → whether it is.
	simple map[*ast.Expr]bool
	// variables counts those that were made.
	variables int
}

// narrow narrows the loops of all rules, unless a built-in may be replaced by another:
// a condition might mean something else, or fail with an error.
func (p *Program) narrow(ctx context.Context, known *analysis) error {
	if known.mocked || known.replaced {
		return nil
	}
	data, err := p.store.Read(ctx, p.txn, storage.RootPath)
	if err != nil {
		return fmt.Errorf("reading the data: %w", err)
	}
	n := &narrower{
		analysis: known, indexer: newIndexer(data.(ast.Value)),
		touches: make(map[string]bool), simple: make(map[*ast.Expr]bool),
	}
	for _, file := range slices.Sorted(maps.Keys(p.compiler.Modules)) {
		for _, rule := range p.compiler.Modules[file].Rules {
			n.rule(rule)
			if ctx.Err() != nil {
				return ended(ctx)
			}
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
		// Who asks for one key of many binds it before.
		known.seen(r.Head.Reference)
		if r.Head.Key != nil {
			known.seen(r.Head.Key)
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
	// The generator reads the whole collection: no rule may be in it.
	if element == nil || n.touchesRules(element[:len(element)-1]) {
		return nil
	}
	l := &loop{element: element}
	s := scan{loop: l, known: known, fields: make(map[ast.Var]ast.Ref), places: make(map[ast.Var]*ast.Term)}
	for _, e := range rest[:min(len(rest), farthest)] {
		if !n.isSimple(e) {
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
		n := slices.IndexFunc(ref[1:], func(t *ast.Term) bool { return !ast.IsScalar(t.Value) && !known.has(t) }) + 1
		// Not all of the data is meant by data[i]. A variable that may be bound may be
		// another name of an entry than its key: "3" is 3 in a reference to the data.
		if n > 1 && known.isNew(ref[n]) {
			return ref[:n+1]
		}
	}
	return nil
}

// farthest is how many expressions after its beginning belong to a loop.
const farthest = 32

// isSimple reports whether an expression can do nothing but pass or fail. Of others the
// entries that are left out might have caused an error.
func (n *narrower) isSimple(e *ast.Expr) bool {
	simple, known := n.simple[e]
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
			simple = simple && !n.touchesRules(x)
		}
		return !simple
	}).Walk(e)
	n.simple[e] = simple
	return simple
}

// touchesRules reports whether a reference leads to a rule, or to a document that has
// one in it.
func (n *narrower) touchesRules(ref ast.Ref) bool {
	if !ref[0].Equal(ast.DefaultRootDocument) {
		return false
	}
	pattern, name := patternOf(ref)
	touches, known := n.touches[name]
	if !known {
		touches = len(n.analysis.rulesAt(pattern)) > 0
		n.touches[name] = touches
	}
	return touches
}

// generator returns the expressions that bind the variable of a loop to the entries
// that can fulfil its conditions; none if there is no index that helps.
func (n *narrower) generator(l *loop) []*ast.Expr {
	index := n.indexer.index(l)
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
