package candidates

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/bounds"
	"understudy/rego/dependencies"
)

// loop is an iteration over a collection of the data, in the body of a rule. For `some
// rule in data.rules` the compiler wrote data.rules[i], which is the element.
type loop struct {
	analysis *dependencies.Analysis
	rule     *ast.Rule
	// known are the variables that have a value before the loop.
	known ast.VarSet
	// element is the reference to an entry: the collection, and the variable.
	element    ast.Ref
	conditions []condition
}

// condition is what an entry has to fulfil.
type condition struct {
	kind kind
	// field leads from the entry to what is compared.
	field ast.Ref
	// key is what it is compared with: a string, or a variable or reference that has its
	// value before the loop.
	key *ast.Term
}

// kind is how a field of an entry is compared with a key.
type kind int

const (
	equal  kind = iota // the field is the key
	prefix             // the key begins with the field
	member             // the key is an element of the field
)

// loopAt returns the loop that begins with the first of some expressions of a rule, nil if
// none does: data.rules[i], where i was not seen before. One that may be bound may be
// another name of an entry than its key: "3" is 3 in a reference to the data.
func (w *rewriter) loopAt(rule *ast.Rule, rest ast.Body, known, seen ast.VarSet) *loop {
	if !rest[0].IsEquality() || rest[0].Negated {
		return nil
	}
	for _, operand := range rest[0].Operands() {
		ref, ok := operand.Value.(ast.Ref)
		if !ok || !ref[0].Equal(ast.DefaultRootDocument) {
			continue
		}
		for i, t := range ref[1:] {
			if v, ok := t.Value.(ast.Var); ok && !seen.Contains(v) {
				l := &loop{w.analysis, rule, known, ref[:i+2], nil}
				l.find(rest)
				return l
			}
		}
	}
	return nil
}

// farthest is how many expressions after its beginning belong to a loop: it bounds the
// work on long bodies, in which every expression could begin a loop.
const farthest = 32

// find gathers the conditions among expressions, up to the first that could fail with an
// error: an entry that is left out must not be the one that causes it. A negated
// expression says what an entry is not, by which none can be looked up.
func (l *loop) find(rest ast.Body) {
	for _, e := range rest[:min(len(rest), farthest)] {
		if !l.simple(e) {
			return
		}
		terms, ok := e.Terms.([]*ast.Term)
		if !ok || e.Negated || len(terms) != 3 {
			continue
		}
		switch terms[0].String() {
		case ast.Equality.Name:
			l.condition(equal, terms[1], terms[2])
			l.condition(equal, terms[2], terms[1])
		case ast.StartsWith.Name:
			l.condition(prefix, terms[2], terms[1])
		case ast.Member.Name:
			l.condition(member, terms[2], terms[1])
		}
	}
}

// simple reports whether an expression can do nothing but pass or fail: it reaches no rule,
// has no expressions within it, and calls nothing that may be too much work for some
// operands (`in` is, for half a million elements, which no index has).
func (l *loop) simple(e *ast.Expr) bool {
	simple := len(e.With) == 0
	switch terms := e.Terms.(type) {
	case *ast.Term:
	case []*ast.Term:
		name := l.analysis.Builtins.Original(terms[0].String())
		simple = simple && (bounds.Free(name) || name == ast.Member.Name)
	default:
		simple = false
	}
	ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.ArrayComprehension, *ast.SetComprehension, *ast.ObjectComprehension:
			simple = false
		case ast.Ref:
			simple = simple && len(l.analysis.RulesAt(x)) == 0
		}
		return !simple
	}).Walk(e)
	return simple
}

// condition adds one, if one side is a field of the entry and the other is a key.
func (l *loop) condition(kind kind, compared, with *ast.Term) {
	ref, key := l.resolve(compared), l.key(with)
	if !ref.HasPrefix(l.element) || key == nil {
		return
	}
	if field := ref[len(l.element):]; !slices.ContainsFunc(field, isPosition) {
		l.conditions = append(l.conditions, condition{kind, field, key})
	}
}

// key returns what a term is before the loop begins, nil if that is not known. A key must
// not depend on the entry: the look-up happens before there is one.
func (l *loop) key(t *ast.Term) *ast.Term {
	ref := l.resolve(t)
	_, isString := ref[0].Value.(ast.String)
	head, _ := ref[0].Value.(ast.Var)
	switch {
	case !isString && (!l.known.Contains(head) || !ref.IsGround()):
		return nil
	case len(ref) == 1:
		return ref[0]
	}
	return ast.NewTerm(ref)
}

// resolve writes out the variables by which a policy goes to a term within the loop: with
// m := rule.match, m.method is data.rules[i].match.method. It ends, since the first
// expression of a variable names only such as were there before.
func (l *loop) resolve(t *ast.Term) ast.Ref {
	ref, ok := t.Value.(ast.Ref)
	if !ok {
		ref = ast.Ref{t}
	}
	for {
		v, _ := ref[0].Value.(ast.Var)
		definition := l.analysis.Definition(l.rule, v)
		if definition == nil || l.known.Contains(v) {
			return ref
		}
		ref = definition.Concat(ref[1:])
	}
}

// isPosition reports whether a term may be the position in an array. In a reference to
// the data, 0 and "0" are the same, and are a name in an object as well.
func isPosition(t *ast.Term) bool {
	s, ok := t.Value.(ast.String)
	return !ok || s != "" && strings.Trim(string(s), "+-0123456789") == ""
}
