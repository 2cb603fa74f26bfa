package dependencies

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// An expression that only gives names to paths, or finds out something about what is there, reads
// no more than that. What of an expression none of the functions below understands is walked, and
// a path that is met there is read whole.

// observing reports whether an expression does nothing but observe a path, and notes all that
// it reads.
func (w *walker) observing(e *ast.Expr) bool {
	return w.matching(e) || w.clockBound(e) || w.comparing(e) || w.calling(e)
}

// matching is for the equality of a path with a pattern.
func (w *walker) matching(e *ast.Expr) bool {
	for i := 0; i < 2 && e.IsEquality(); i++ {
		if path := w.path(e.Operand(1 - i)); path != nil && w.match(e.Operand(i), path, e) {
			w.exists(path)
			return true
		}
	}
	return false
}

// match notes what a match of a pattern with the value at a path reads: nothing of what the
// expression only gives a name to; of an array its length, and the elements that have to be equal
// to something. It reports false if it does not understand the pattern.
func (w *walker) match(pattern *ast.Term, path []string, e *ast.Expr) bool {
	switch p := pattern.Value.(type) {
	case ast.Var:
		if alias := w.unit.aliases[p]; alias.expr == e && slices.Equal(alias.path, path) {
			return true
		}
	case *ast.Array:
		w.reads(below(path, lengthName))
		for i := range p.Len() {
			if at := below(path, IndexName(i)); !w.match(p.Elem(i), at, e) {
				w.reads(at)
				w.walk(p.Elem(i))
			}
		}
		return true
	}
	return w.compare(textEqual, path, pattern, false)
}

// compare notes the comparison of a path with a term, or with its elements, if it is known which
// texts these are. What is no text is compared too.
func (w *walker) compare(kind string, path []string, with *ast.Term, elements bool) bool {
	texts, ok := w.unit.texts(with, elements)
	if !ok {
		return false
	}
	if len(texts) == 0 {
		w.reads(path)
	}
	for _, text := range texts {
		w.reads(below(path, kind+text))
	}
	w.walk(with)
	return true
}

// clockBound is for a comparison of a value with the clock, if it is instrumented.
func (w *walker) clockBound(e *ast.Expr) bool {
	value, form, ok := w.unit.clockBound(e)
	if !ok || !w.analysis.Builtins.Has(e.Operator().String()) {
		return false
	}
	w.causes.calls(ClockBound, ast.NowNanos.Name)
	for i, t := range e.Operands() {
		switch path := w.path(t); {
		case i == value && path != nil:
			w.found.Reads.addWhole(below(path, form.name()))
		case i == value || i > 1:
			w.walk(t)
		}
	}
	return true
}

// comparing is for other comparisons of a path with texts that are known.
func (w *walker) comparing(e *ast.Expr) bool {
	name := w.unit.builtin(e)
	kind, ok := comparisonKinds[name]
	for i := range 2 {
		if !ok || i == 1 && name != ast.NotEqual.Name {
			return false
		}
		if path := w.path(e.Operand(i)); path != nil && w.compare(kind, path, e.Operand(1-i), name == ast.Member.Name) {
			w.operands(e.Operands()[2:])
			return true
		}
	}
	return false
}

// comparisonKinds :: built-in → how it compares a text with another.
var comparisonKinds = map[string]string{
	ast.NotEqual.Name: textEqual, ast.Member.Name: textEqual, ast.StartsWith.Name: textPrefixed, ast.EndsWith.Name: textSuffixed,
}

// calling is for another call that is an observation, or makes a function of the clock.
func (w *walker) calling(e *ast.Expr) bool {
	path, output := w.unit.call(e)
	if path == nil {
		return false
	}
	for _, t := range e.Operands() {
		if t != output && w.path(t) == nil {
			w.walk(t)
		}
	}
	switch {
	case output == nil:
		w.reads(path)
	case w.match(output, path, e):
		w.exists(path)
	default:
		w.reads(path)
		w.walk(output)
	}
	return true
}
