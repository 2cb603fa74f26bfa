package aip

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Filter is a parsed and checked filter. The zero Filter matches everything. It is
// immutable and safe for concurrent use.
type Filter struct {
	// root is nil in a filter that is empty.
	root predicate
	// fields are those that its paths lead through.
	fields map[protoreflect.FullName]bool
}

// Uses reports whether some field that a filter looks at, or looks into, is one of these.
func (f Filter) Uses(these func(field protoreflect.FullName) bool) bool {
	for field := range f.fields {
		if these(field) {
			return true
		}
	}
	return false
}

// Schema says what a filter may be about.
type Schema struct {
	// Message is the resource.
	Message protoreflect.MessageDescriptor
	// Search are the string fields of the resource that a bare text searches.
	Search []string
	// Packed are the types that the google.protobuf.Any in a field may hold; nil if such
	// a field cannot be looked into.
	Packed func(field protoreflect.FieldDescriptor) []protoreflect.MessageDescriptor
	// Unpack returns what an Any holds: the message, and further ones of types in
	// Packed that stand for it too. It is empty if that cannot be decoded.
	Unpack func(*anypb.Any) []proto.Message

	// walked are the fields that paths of a filter lead through, while it is checked.
	walked map[protoreflect.FullName]bool
}

// truth is a value of three-valued logic: a comparison with a field that is not
// there is neither true nor false.
//
// The order of the constants is the order of truth, so that AND is the minimum of its operands,
// OR the maximum, and NOT the distance from true, as in Kleene's logic.
type truth int

const (
	isFalse truth = iota
	isUnknown
	isTrue
)

// truthOf is the truth of a comparison that could be made.
func truthOf(b bool) truth {
	if b {
		return isTrue
	}
	return isFalse
}

// predicate is a checked expression.
type predicate func(m protoreflect.Message) truth

// ParseFilter parses a filter and checks it against the schema. The error is an
// *Error.
func ParseFilter(text string, schema Schema) (Filter, error) {
	n, err := parseFilter(text)
	// An empty filter is the same as none (AIP-160).
	if err != nil || n == nil {
		return Filter{}, err
	}
	schema.walked = make(map[protoreflect.FullName]bool)
	root, err := schema.check(n)
	return Filter{root, schema.walked}, err
}

// Match reports whether a message of the schema's type matches. A filter whose
// value is unknown for a message does not match it.
func (f Filter) Match(m proto.Message) bool {
	return f.root == nil || f.root(m.ProtoReflect()) == isTrue
}

// check turns a parsed expression into a predicate. All that can be wrong with it is found here: a
// predicate cannot fail, so a filter never matches one page of a list and fails on the next.
func (s Schema) check(n node) (predicate, error) {
	switch n := n.(type) {
	// An AND of nothing is true, and an OR of nothing is false. The parser makes neither.
	case andNode:
		return s.fold(n, isTrue, func(a, b truth) truth { return min(a, b) })
	case orNode:
		return s.fold(n, isFalse, func(a, b truth) truth { return max(a, b) })
	case notNode:
		operand, err := s.check(n.operand)
		return func(m protoreflect.Message) truth { return isTrue - operand(m) }, err
	case literalNode:
		// AIP-160: a literal without a field is looked for in the resource.
		return s.search(n.value.text)
	case restriction:
		return s.restriction(n)
	default:
		return nil, errorf("The filter has an expression that is not supported.")
	}
}

// fold combines the operands of an AND or an OR.
func (s Schema) fold(operands []node, start truth, combine func(a, b truth) truth) (predicate, error) {
	// Operands are checked in their order, so the error is about the first mistake in the text.
	var predicates []predicate
	for _, o := range operands {
		p, err := s.check(o)
		if err != nil {
			return nil, err
		}
		predicates = append(predicates, p)
	}
	return func(m protoreflect.Message) truth {
		out := start
		for _, p := range predicates {
			out = combine(out, p(m))
		}
		return out
	}, nil
}

// search matches messages that have the text in one of the search fields, in
// either case.
func (s Schema) search(text string) (predicate, error) {
	if len(s.Search) == 0 {
		return nil, errorf("%q stands alone, and there is nothing that it could search. Compare a field with it.", text)
	}
	// A search finds a part of a field anyway, so a `*` at either end says nothing more.
	pattern := strings.ToLower(strings.Trim(text, "*"))
	return func(m protoreflect.Message) truth {
		for _, name := range s.Search {
			f := m.Descriptor().Fields().ByName(protoreflect.Name(name))
			if f != nil && strings.Contains(strings.ToLower(m.Get(f).String()), pattern) {
				return isTrue
			}
		}
		return isFalse
	}, nil
}

// restriction checks a path and builds what walks it.
func (s Schema) restriction(r restriction) (predicate, error) { return s.path(s.Message, nil, r) }

// path is restriction for the part of a path that begins at a message of type m; walked
// are the names before it.
func (s Schema) path(m protoreflect.MessageDescriptor, walked []string, r restriction) (predicate, error) {
	// steps are the fields that lead from m to the end of the path, and names what is left of it.
	var steps []protoreflect.FieldDescriptor
	names := r.path[len(walked):]
	for i, name := range names {
		walked = r.path[:len(walked)+1]
		f := fieldNamed(m, name)
		if f == nil {
			return nil, errorf("There is no field %q.", strings.Join(walked, "."))
		}
		steps = append(steps, f)
		s.walked[f.FullName()] = true
		rest := names[i+1:]
		switch {
		// What stands behind a map is a key, of any spelling, and no field.
		case f.IsMap():
			return mapRestriction(steps, rest, r)
		case len(rest) == 0:
			test, err := comparison(f, r)
			return walk(steps, test), err
		// AIP-160 has no paths into repeated fields: which element would be meant?
		case f.IsList() || f.Message() == nil:
			return nil, errorf("The field %q has no fields of its own.", strings.Join(walked, "."))
		}
		if m = f.Message(); m.FullName() == "google.protobuf.Any" && s.Packed != nil {
			return s.packed(steps, walked, r)
		}
	}
	return nil, errorf("A comparison names no field.")
}

// packed goes on with a path behind a google.protobuf.Any, at the last of the steps: in
// each type that has such a path. A message that holds another type lacks the field.
func (s Schema) packed(steps []protoreflect.FieldDescriptor, walked []string, r restriction) (predicate, error) {
	// inside :: type of the content → the rest of the path in it. A path need not be one of all types:
	// `metadata.verb` is a field of some operations, and unknown of the others.
	inside := make(map[protoreflect.FullName]predicate)
	var first error
	for _, m := range s.Packed(steps[len(steps)-1]) {
		p, err := s.path(m, walked, r)
		if err == nil {
			inside[m.FullName()] = p
		} else if first == nil {
			first = err
		}
	}
	// No type has the path: the error is that of the first type, whose fields are the ones that people
	// know.
	if len(inside) == 0 {
		return nil, first
	}
	field := steps[len(steps)-1]
	return walk(steps, func(m protoreflect.Message) truth {
		content, _ := m.Get(field).Message().Interface().(*anypb.Any)
		for _, view := range s.Unpack(content) {
			// The first view with the path counts; Unpack gives the message itself before what stands for it.
			if p := inside[view.ProtoReflect().Descriptor().FullName()]; p != nil {
				return p(view.ProtoReflect())
			}
		}
		return isUnknown
	}), nil
}

// test decides at the end of a path: the message that has the field, and whether
// it is there, are given.
type test func(m protoreflect.Message) truth

// walk follows the path through messages. One that is unset makes the value
// unknown, whatever is compared (AIP-160).
func walk(steps []protoreflect.FieldDescriptor, at test) predicate {
	return func(m protoreflect.Message) truth {
		for _, f := range steps[:len(steps)-1] {
			if !m.Has(f) {
				return isUnknown
			}
			m = m.Get(f).Message()
		}
		return at(m)
	}
}
