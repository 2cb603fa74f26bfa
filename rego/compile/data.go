package compile

import (
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"google.golang.org/protobuf/types/known/structpb"
)

// NewStore returns an immutable store: nothing here ever writes to it. The data, in the types
// of encoding/json or *structpb.Value, is converted to OPA's values once, on writing it (OptReturnASTValuesOnRead), so that
// evaluations read it without a conversion; it is not copied through JSON first.
//
// Equal parts of the data are one value in memory: OPA takes 350 bytes for an object of three
// keys and 24 for each term in it, and data is tables, whose rows have the same keys and
// mostly values that others have. Evaluations never change what they read.
func NewStore(data map[string]any) storage.Store {
	s := newSharing()
	shared := make(map[string]any, len(data))
	for name, value := range data {
		if t, ok := s.of(value); ok {
			value = t.term.Value
		}
		shared[name] = value
	}
	return inmem.NewFromObjectWithOpts(shared, inmem.OptRoundTripOnWrite(false), inmem.OptReturnASTValuesOnRead(true))
}

// termPool makes terms of which no two are equal.
type termPool struct {
	scalars map[any]shared
	// composites :: the numbers of what is in an array or object, behind its kind → the term.
	composites map[string]shared
}

// shared is a term with its number, which no other has.
type shared struct {
	term   *ast.Term
	number uint64
}

func newSharing() *termPool {
	return &termPool{scalars: make(map[any]shared), composites: make(map[string]shared)}
}

// of returns the one term of a value. ok is false for a value that is none of JSON, or a
// number that OPA cannot read: that is left to the store.
func (s *termPool) of(value any) (_ shared, ok bool) {
	switch v := value.(type) {
	case *structpb.Value:
		return s.message(v)
	case map[string]any:
		return object(s, v)
	case []any:
		return array(s, v)
	case nil, bool, string, json.Number, float64:
		return s.scalar(v)
	default:
		return shared{}, false
	}
}

// message is of, for a value as the API has it, with no maps in between.
func (s *termPool) message(value *structpb.Value) (shared, bool) {
	switch v := value.GetKind().(type) {
	case *structpb.Value_StructValue:
		return object(s, v.StructValue.GetFields())
	case *structpb.Value_ListValue:
		return array(s, v.ListValue.GetValues())
	case *structpb.Value_NumberValue:
		return s.scalar(Number(v.NumberValue))
	}
	return s.scalar(value.AsInterface())
}

func (s *termPool) scalar(value any) (shared, bool) {
	t, known := s.scalars[value]
	if known {
		return t, true
	}
	v, err := ast.InterfaceToValue(value)
	if err != nil {
		return shared{}, false
	}
	t = s.add(v)
	s.scalars[value] = t
	return t, true
}

func array[V any](s *termPool, values []V) (shared, bool) {
	elements, key := make([]*ast.Term, len(values)), []byte{'['}
	for i, value := range values {
		t, ok := s.of(value)
		if !ok {
			return shared{}, false
		}
		elements[i], key = t.term, binary.AppendUvarint(key, t.number)
	}
	return s.composite(key, func() ast.Value { return ast.NewArray(elements...) }), true
}

func object[V any](s *termPool, values map[string]V) (shared, bool) {
	names := slices.AppendSeq(make([]string, 0, len(values)), maps.Keys(values))
	slices.Sort(names)
	pairs, key := make([][2]*ast.Term, len(names)), []byte{'{'}
	for i, name := range names {
		k, _ := s.scalar(name)
		v, ok := s.of(values[name])
		if !ok {
			return shared{}, false
		}
		pairs[i] = [2]*ast.Term{k.term, v.term}
		key = binary.AppendUvarint(binary.AppendUvarint(key, k.number), v.number)
	}
	return s.composite(key, func() ast.Value { return ast.NewObject(pairs...) }), true
}

// composite returns the term of an array or an object, which is made if it is the first one.
func (s *termPool) composite(key []byte, make func() ast.Value) shared {
	t, known := s.composites[string(key)]
	if !known {
		t = s.add(make())
		s.composites[string(key)] = t
	}
	return t
}

// add numbers a value that is not there yet.
func (s *termPool) add(v ast.Value) shared {
	return shared{ast.NewTerm(v), uint64(len(s.scalars) + len(s.composites))}
}

// Plain returns a value as the plain JSON that it stands for, with each number as JSON writes it.
// Structpb's own AsInterface gives doubles, which OPA writes as 1e+06 where the author wrote 1000000;
// then sprintf shows that and format_int fails.
func Plain(value *structpb.Value) any {
	switch v := value.GetKind().(type) {
	case *structpb.Value_StructValue:
		out := make(map[string]any, len(v.StructValue.GetFields()))
		for name, value := range v.StructValue.GetFields() {
			out[name] = Plain(value)
		}
		return out
	case *structpb.Value_ListValue:
		out := make([]any, len(v.ListValue.GetValues()))
		for i, element := range v.ListValue.GetValues() {
			out[i] = Plain(element)
		}
		return out
	case *structpb.Value_NumberValue:
		return Number(v.NumberValue)
	}
	return value.AsInterface()
}

// Number returns a json.Number: as JSON writes it. For what JSON has no number for, it is
// the text that protojson has.
func Number(number float64) any {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		return structpb.NewNumberValue(number).AsInterface()
	}
	text, err := json.Marshal(number)
	if err != nil {
		return number
	}
	return json.Number(text)
}
