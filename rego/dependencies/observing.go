package dependencies

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// aliasing reports whether an expression only gives names to a path of the input, and to
// elements of what is there. It notes what else such a match reads: that there is something,
// and of an array its length and the elements that have to be equal to something.
func (w *walker) aliasing(e *ast.Expr) bool {
	if !e.IsEquality() || e.Negated {
		return false
	}
	for i := range 2 {
		pattern := e.Operand(i)
		if path, ok := w.inputPath(e.Operand(1 - i)); ok && w.isPattern(pattern, e, path) {
			w.found.Reads.addExists(path)
			w.matched(pattern, e, path)
			if _, taken := pattern.Value.(*ast.Array); taken {
				w.causes.reads(Compared, path)
			}
			return true
		}
	}
	return false
}

// isPattern reports whether a term is an array, or a variable that the expression makes an
// alias of the path.
func (w *walker) isPattern(t *ast.Term, e *ast.Expr, path []string) bool {
	switch v := t.Value.(type) {
	case *ast.Array:
		return true
	case ast.Var:
		alias, ok := w.unit.aliases[v]
		return ok && alias.expr == e && slices.Equal(alias.path, path)
	}
	return false
}

// matched notes what a match of a pattern with the value at a path reads.
func (w *walker) matched(t *ast.Term, e *ast.Expr, path []string) {
	array, ok := t.Value.(*ast.Array)
	if !ok {
		return
	}
	w.found.Reads.addWhole(below(path, lengthName))
	for i := range array.Len() {
		element, at := array.Elem(i), below(path, IndexName(i))
		text, isText := element.Value.(ast.String)
		v, isVar := element.Value.(ast.Var)
		switch {
		case isVar && v.IsWildcard():
		case isText:
			w.found.Reads.addWhole(below(at, textName(textEqual, string(text))))
		case w.isPattern(element, e, at):
			w.matched(element, e, at)
		default:
			w.whole(at)
			w.walk(element)
		}
	}
}

// observing reports whether an expression is an observation of a path, and notes it with all
// else that the expression reads.
func (w *walker) observing(e *ast.Expr, terms []*ast.Term) bool {
	name := w.analysis.Builtins.Original(nameOfCall(e))
	if c, ok := w.analysis.clocked[e]; ok {
		w.causes.calls(ClockBound, ast.NowNanos.Name)
		path, ok := w.inputPath(terms[c.operand])
		if ok {
			w.found.Reads.addWhole(below(path, clockName(c.form)))
			w.others(terms, c.operand)
		}
		return ok
	}
	return w.comparing(name, terms) || w.calling(name, e, terms)
}

// comparing reports whether an expression compares a path with texts that are known.
func (w *walker) comparing(name string, terms []*ast.Term) bool {
	kind, ok := comparisonKinds[name]
	if !ok || len(terms) < 3 {
		return false
	}
	for value := 1; value <= 2; value++ {
		path, ok := w.inputPath(terms[value])
		if !ok || value == 2 && !symmetric[name] {
			continue
		}
		texts, ok := w.analysis.texts(w.unit, terms[3-value], name == ast.Member.Name)
		if !ok {
			continue
		}
		for _, text := range texts {
			w.found.Reads.addWhole(below(path, textName(kind, text)))
		}
		w.causes.reads(Compared, path)
		// What is no text is compared too.
		w.found.Reads.addWhole(below(path, textPrefix))
		w.others(terms, value)
		return true
	}
	return false
}

// comparisonKinds :: built-in → how it compares a text with another.
var comparisonKinds = map[string]string{
	ast.Equality.Name: textEqual, ast.Equal.Name: textEqual, ast.NotEqual.Name: textEqual, ast.Member.Name: textEqual,
	ast.StartsWith.Name: textPrefixed, ast.EndsWith.Name: textSuffixed, ast.Contains.Name: textContains,
}

// symmetric are those of which either operand may be the value.
var symmetric = map[string]bool{ast.Equality.Name: true, ast.Equal.Name: true, ast.NotEqual.Name: true}

// calling reports whether an expression is another call that is an observation.
func (w *walker) calling(name string, e *ast.Expr, terms []*ast.Term) bool {
	path, output := w.analysis.call(w.unit, e, name)
	if path == nil {
		return false
	}
	for i, t := range terms[1:] {
		switch _, ok := w.inputPath(t); {
		case t == output && !e.Negated && w.isPattern(t, e, path):
			w.found.Reads.addExists(path)
			w.matched(t, e, path)
			return true
		case t == output || !ok:
			w.others(terms[i:i+2], 0)
		}
	}
	w.causes.reads(Compared, path)
	w.found.Reads.addWhole(path)
	return true
}

// others walks the operands of a call but for one.
func (w *walker) others(terms []*ast.Term, but int) {
	for i, t := range terms {
		if i > 0 && i != but {
			w.walk(t)
		}
	}
}
