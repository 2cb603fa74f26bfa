package opaque

import (
	"encoding/binary"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// The most elements of an array, and entries of an object, that are gone through without learning all of them.
const (
	mostElements = 16
	mostFields   = 64
)

// getAt is the function that returns the value at a position among the keys of an object. Callers choose the keys
// of what they send, so these are not in the vocabulary.
var getAt = &Function{Name: "get_at", Arity: 2, Part: true, Call: func(_ topdown.BuiltinContext, operands []*ast.Term, collect func(*ast.Term) error) error {
	object, ok := operands[0].Value.(ast.Object)
	position, isNumber := operands[1].Value.(ast.Number)
	if !ok || !isNumber {
		return nil
	}
	n, _ := position.Int()
	keys := object.KeysIterator()
	for k, more := keys.Next(); more; k, more = keys.Next() {
		if n == 0 {
			return collect(object.Get(k))
		}
		n--
	}
	return nil
}}

// Keys returns the keys of an opaque array or object in OPA's order: for an array the positions. [Evaluation.Entry]
// returns what stands there. It reports false if the value has to be forced to go through it: it is something else,
// or long, or known.
func (e *Evaluation) Keys(v Value) (keys []Value, ok bool, err error) {
	e.use(v)
	v = e.Known(v)
	switch {
	case v.isComposite():
		return v.keys(), true, nil
	case !v.opaque():
		return nil, false, nil
	case e.recorder.on:
		if ok, err = e.askKeys(v); !ok || err != nil {
			return nil, false, err
		}
	}
	content, err := e.look(v)
	if content == nil || err != nil {
		return nil, false, err
	}
	keys, ok = keysOf(content)
	return keys, ok, nil
}

// askKeys asks for the keys of a value. It reports false if there is no room.
func (e *Evaluation) askKeys(v Value) (bool, error) {
	if v.isRoot() || e.recorder.full() {
		return false, nil
	}
	q := e.vocabulary.question(questionKey{kind: askKeys, a: v})
	if q == nil {
		return false, nil
	}
	_, err := e.ask(q)
	return err == nil, err
}

// Entry returns what stands at one of the keys that [Evaluation.Keys] has returned, of which it is the i-th.
func (e *Evaluation) Entry(v Value, i int, key Value) (Value, error) {
	v = e.Known(v)
	if v.isComposite() {
		part, _ := v.part(key)
		return part, nil
	}
	if key.IsConstant() {
		return e.Derive(GetKey, v, key)
	}
	return e.Derive(getAt, v, Constant(ast.InternedTerm(i)))
}

// keysOf returns the keys of a short array or object.
func keysOf(content *ast.Term) (keys []Value, ok bool) {
	switch c := content.Value.(type) {
	case *ast.Array:
		if c.Len() > mostElements {
			return nil, false
		}
		for i := range c.Len() {
			keys = append(keys, Constant(ast.InternedTerm(i)))
		}
		return keys, true
	case ast.Object:
		if c.Len() > mostFields {
			return nil, false
		}
		for _, k := range c.Keys() {
			keys = append(keys, Computed(k))
		}
		return keys, true
	}
	return nil, false
}

// keysAnswer is what stands for the keys of a content, as far as they are asked for.
func (e *Evaluation) keysAnswer(content *ast.Term) Answer {
	if content == nil {
		return Answer{0, answerKeys}
	}
	keys, ok := keysOf(content)
	switch _, isArray := content.Value.(*ast.Array); {
	case !ok:
		return Answer{0, answerKeys}
	case isArray, len(keys) == 0:
		return Answer{1 + uint64(len(keys)), answerKeys}
	}
	return e.hashed(func(b []byte) []byte {
		b = binary.AppendUvarint(b, uint64(len(keys)))
		for _, k := range keys {
			b = appendTerm(b, k.term)
		}
		return b
	})
}
