package input

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/rego"
)

// messageType is the part of a message's type that decides whether it is valid and which value it becomes. It
// is made of the descriptor, so that it knows what Envoy adds. It is immutable.
//
// To decode a message would build each of its fields, whether a policy reads them or not.
// Here one pass checks the bytes without allocating, and a value is built only for a policy
// that reads it.
type messageType struct {
	// fields :: number of a field → the field; nil if there is none.
	fields []*messageField
	form   form
}

// form is how a message is read: as the JSON that it is or, without a form, by its fields.
type form uint8

const (
	structForm form = 1 + iota
	valueForm
	listForm
)

// forms are those of the messages that have one.
var forms = map[protoreflect.FullName]form{
	"google.protobuf.Struct": structForm, "google.protobuf.Value": valueForm, "google.protobuf.ListValue": listForm,
}

// messageField is a field of a message. Its descriptor says the rest.
type messageField struct {
	protoreflect.FieldDescriptor
	kind protoreflect.Kind
	// message is the type of what it holds, if that is a message; of a map, that of its
	// entries.
	message *messageType
	// once is a bit for what may occur once only: a message that is not repeated, since
	// protocol buffers merge two of it, or the members of a oneof together, of which
	// another one replaces the first. Fields of one bit exclude each other. Zero means
	// that the last occurrence counts, or that all do.
	once uint64
	// name is that of the object's field.
	name rego.Name
}

// maxDepth is how deep messages may nest in one that is valid. What is deeper is left to
// the full decode.
const maxDepth = 24

// types are the types made so far, and those in them. They are made when the program
// starts.
var types = make(map[protoreflect.FullName]*messageType)

func newMessageType(message protoreflect.MessageDescriptor) *messageType {
	if t := types[message.FullName()]; t != nil {
		return t
	}
	t := &messageType{form: forms[message.FullName()]}
	types[message.FullName()] = t
	for i := range message.Fields().Len() {
		f := newMessageField(message.Fields().Get(i))
		for len(t.fields) <= int(f.Number()) {
			t.fields = append(t.fields, nil)
		}
		t.fields[f.Number()] = f
		switch oneof := f.ContainingOneof(); {
		case oneof != nil && !oneof.IsSynthetic():
			f.once = 1 << oneof.Index()
		case f.message != nil && f.Cardinality() != protoreflect.Repeated:
			f.once = 1 << (message.Oneofs().Len() + i)
		}
		if f.IsMap() && f.MapValue().Message() == nil {
			panic(fmt.Sprintf("the field %s is of a kind that the input document has no rule for", f.FullName()))
		}
	}
	return t
}

func newMessageField(f protoreflect.FieldDescriptor) *messageField {
	out := &messageField{FieldDescriptor: f, kind: f.Kind(), name: rego.NewName(f.JSONName())}
	if f.Message() != nil {
		out.message = newMessageType(f.Message())
	}
	return out
}

// valid says why a message does not decode, or holds something that an input document could
// not: none if all fields are known, in their own type and as often as they may be, all text
// is UTF-8 and all numbers are finite.
func (t *messageType) valid(wire string, depth int) Fallback {
	seen := uint64(0)
	for len(wire) > 0 {
		number, content, rest, ok := next(wire)
		switch {
		case !ok:
			return FallbackWire
		case depth == 0 || number >= uint64(len(t.fields)) || t.fields[number] == nil:
			return FallbackField
		}
		f := t.fields[number]
		if seen&f.once != 0 {
			return FallbackRepeated
		}
		seen |= f.once
		if reason := f.valid(content, depth); reason != none {
			return reason
		}
		wire = rest
	}
	return none
}

// valid is valid of the content of one field.
func (f *messageField) valid(content field, depth int) Fallback {
	switch f.kind {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		switch {
		case content.wireType != wireBytes:
			return FallbackWire
		case f.kind == protoreflect.StringKind && !utf8.ValidString(content.text):
			return FallbackText
		case f.kind == protoreflect.MessageKind:
			return f.message.valid(content.text, depth-1)
		}
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.Int32Kind, protoreflect.Int64Kind,
		protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		if content.wireType != wireVarint {
			return FallbackWire
		}
	case protoreflect.DoubleKind:
		number := math.Float64frombits(content.number)
		if content.wireType != wireFixed64 || math.IsNaN(number) || math.IsInf(number, 0) {
			return FallbackUnusual
		}
	default:
		return FallbackField
	}
	return none
}
