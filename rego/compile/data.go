package compile

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// NewStore returns an immutable store: nothing here ever writes to it. The data is
// converted to OPA's values once, on writing it (OptReturnASTValuesOnRead), so that
// evaluations read it without a conversion; it is not copied through JSON first.
//
// Equal parts of the data are one value in memory: OPA takes 350 bytes for an object of three
// keys and 24 for each term in it, and data is tables, whose rows have the same keys and
// mostly values that others have. Evaluations never change what they read.
func NewStore(data map[string]any) storage.Store {
	s := newSharing()
	shared := make(map[string]any, len(data))
	for name, value := range data {
		if t, ok := s.term(value); ok {
			value = t.Value
		}
		shared[name] = value
	}
	return inmem.NewFromObjectWithOpts(shared, inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
}

// sharing makes terms of which no two are equal.
type sharing struct {
	scalars map[any]*ast.Term
	// composites :: the numbers of what is in an array or object, behind its kind → the term.
	composites map[string]*ast.Term
	// numbers :: term → its number.
	numbers map[*ast.Term]uint64
}

func newSharing() *sharing {
	return &sharing{scalars: make(map[any]*ast.Term), composites: make(map[string]*ast.Term), numbers: make(map[*ast.Term]uint64)}
}

// term returns the one term of a value. ok is false for a value that is none of JSON, or a
// number that OPA cannot read: that is left to the store.
func (s *sharing) term(value any) (_ *ast.Term, ok bool) {
	switch v := value.(type) {
	case map[string]any:
		return s.object(v)
	case []any:
		return s.array(v)
	case nil, bool, string, json.Number, float64:
		return s.scalar(v)
	default:
		return nil, false
	}
}

func (s *sharing) scalar(value any) (*ast.Term, bool) {
	t, known := s.scalars[value]
	if known {
		return t, true
	}
	v, err := ast.InterfaceToValue(value)
	if err != nil {
		return nil, false
	}
	t = s.numbered(ast.NewTerm(v))
	s.scalars[value] = t
	return t, true
}

func (s *sharing) array(values []any) (*ast.Term, bool) {
	elements, key := make([]*ast.Term, len(values)), []byte{'['}
	for i, value := range values {
		t, ok := s.term(value)
		if !ok {
			return nil, false
		}
		elements[i], key = t, binary.AppendUvarint(key, s.numbers[t])
	}
	return s.composite(key, func() ast.Value { return ast.NewArray(elements...) }), true
}

func (s *sharing) object(values map[string]any) (*ast.Term, bool) {
	pairs, key := make([][2]*ast.Term, 0, len(values)), []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		k, _ := s.scalar(name)
		v, ok := s.term(values[name])
		if !ok {
			return nil, false
		}
		pairs = append(pairs, [2]*ast.Term{k, v})
		key = binary.AppendUvarint(binary.AppendUvarint(key, s.numbers[k]), s.numbers[v])
	}
	return s.composite(key, func() ast.Value { return ast.NewObject(pairs...) }), true
}

// composite returns the term of an array or an object, which is made if it is the first one.
func (s *sharing) composite(key []byte, make func() ast.Value) *ast.Term {
	t, known := s.composites[string(key)]
	if !known {
		t = s.numbered(ast.NewTerm(make()))
		s.composites[string(key)] = t
	}
	return t
}

func (s *sharing) numbered(t *ast.Term) *ast.Term {
	s.numbers[t] = uint64(len(s.numbers))
	return t
}
