package evaluator

import (
	"github.com/open-policy-agent/opa/v1/ast"

	"understudy/rego/opaque"
)

// getOfInput compiles object.get of the whole input with constant keys: what stands at that path counts, as if a
// reference had named it, or else the fallback. It reports false for any other call.
func (s scope) getOfInput(operands []*ast.Term) (source, bool) {
	keys := pathOf(operands[1])
	if len(keys) == 0 || s.globalOf(operands[0]) != ast.InputRootDocument.String() {
		return source{}, false
	}
	path, n := s.c.vocabulary.Input(keys)
	if n < len(keys) {
		return source{}, false
	}
	from := inputAt(keys)
	fallback, at := s.part(operands[2]), s.site(Asked, from)
	value := func(f *frame) opaque.Value {
		otherwise := fallback(f)
		if otherwise.IsNone() {
			return otherwise
		}
		if found := f.m.input(at, path); f.m.present(at, found) {
			return found
		}
		return otherwise
	}
	either := union{name: "object.get"}
	either.add(from)
	either.add(s.originOf(operands[2]))
	return source{expr: value, from: either.origin()}, true
}

// pathOf returns the keys of object.get: the elements of an array, or the one that it is. It returns nil if they
// are not constant.
func pathOf(t *ast.Term) []*ast.Term {
	if !isConstant(t) {
		return nil
	}
	if array, ok := t.Value.(*ast.Array); ok {
		return elementsOf(array)
	}
	return []*ast.Term{t}
}
