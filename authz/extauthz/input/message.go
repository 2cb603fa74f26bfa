package input

import (
	"encoding/base64"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"google.golang.org/protobuf/proto"

	"understudy/rego"
)

// messageType is the part of a message's type that decides whether it is valid, and
// which object it becomes. It is made of the descriptor, so that it knows what Envoy
// adds. It is immutable.
//
// To decode a message would build each of its fields, whether a policy reads them or not. Here one pass checks the bytes without allocating,
// and a value is built only for a policy that reads it.
type messageType struct {
	// fields :: number of a field → what it holds. Numbers without a field have no kind.
	fields []messageField
}

type messageField struct {
	kind protoreflect.Kind
	// message is the type of what it holds, if that is a message.
	message *messageType
	// once is a bit for what may occur once only: a message that is not repeated, since
	// protocol buffers merge two of it, or the members of a oneof together, of which
	// another one replaces the first. Fields of one bit exclude each other. Zero means
	// that the last occurrence counts, or that all do.
	once uint32
	// name is that of the object's field.
	name rego.Name
	list bool
	// present says that the field is in the document even if it is zero.
	present bool
}

// maxDepth is how deep messages may nest in one that is valid. What is deeper is left to
// the full decode.
const maxDepth = 24

// types are the types made so far, and those in them. They are made when the program
// starts.
var types = make(map[protoreflect.FullName]*messageType)

// typeOf returns the type of a message.
func typeOf(prototype proto.Message) *messageType {
	return newMessageType(prototype.ProtoReflect().Descriptor())
}

func newMessageType(message protoreflect.MessageDescriptor) *messageType {
	if t := types[message.FullName()]; t != nil {
		return t
	}
	t := &messageType{}
	types[message.FullName()] = t
	bits := make(map[protoreflect.FullName]uint32)
	fields := message.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		for len(t.fields) <= int(f.Number()) {
			t.fields = append(t.fields, messageField{})
		}
		field := &t.fields[f.Number()]
		field.kind, field.list, field.present = f.Kind(), f.IsList(), f.HasPresence()
		field.name = rego.NewName(f.JSONName())
		if f.Message() != nil {
			field.message = newMessageType(f.Message())
		}
		if exclusive := exclusiveName(f); exclusive != "" {
			if bits[exclusive] == 0 {
				bits[exclusive] = 1 << len(bits)
			}
			field.once = bits[exclusive]
		}
	}
	return t
}

// exclusiveName returns the name by which a field may occur once only: that of its oneof
// or, of a message, its own. It is empty if the field may occur more often.
func exclusiveName(f protoreflect.FieldDescriptor) protoreflect.FullName {
	switch oneof := f.ContainingOneof(); {
	case oneof != nil && !oneof.IsSynthetic():
		return oneof.FullName()
	case f.Message() != nil && f.Cardinality() != protoreflect.Repeated:
		return f.FullName()
	}
	return ""
}

// valid reports whether a message decodes and holds nothing that an input document could
// not: all fields known, in their own type and as often as they may be, all text UTF-8, all
// numbers finite.
func (t *messageType) valid(wire string, depth int) bool {
	seen := uint32(0)
	for len(wire) > 0 {
		tag, rest, ok := varint(wire)
		if !ok || depth == 0 || tag>>3 >= uint64(len(t.fields)) {
			return false
		}
		f := &t.fields[tag>>3]
		if seen&f.once != 0 {
			return false
		}
		seen |= f.once
		if wire, ok = f.valid(tag&7, rest, depth); !ok {
			return false
		}
	}
	return true
}

// valid reads one field and returns what is after it.
func (f *messageField) valid(wireType uint64, wire string, depth int) (rest string, ok bool) {
	switch f.kind {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		text, rest, ok := lengthPrefixed(wire)
		if !ok || wireType != wireBytes {
			return "", false
		}
		return rest, f.kind == protoreflect.BytesKind ||
			f.kind == protoreflect.StringKind && utf8.ValidString(text) ||
			f.kind == protoreflect.MessageKind && f.message.valid(text, depth-1)
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.Int32Kind, protoreflect.Int64Kind,
		protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		_, rest, ok := varint(wire)
		return rest, ok && wireType == wireVarint
	case protoreflect.DoubleKind:
		bits, rest, ok := fixed64(wire)
		number := math.Float64frombits(bits)
		return rest, ok && wireType == wireFixed64 && !math.IsNaN(number) && !math.IsInf(number, 0)
	}
	return "", false
}

// value returns a message as the input document has it: an object of its populated fields,
// with their names in lowerCamelCase. It has to be valid.
func (t *messageType) value(wire string) rego.Value {
	object := rego.NewObject(len(t.fields))
	for number := range t.fields {
		if f := &t.fields[number]; f.kind != 0 {
			object.Set(f.name, f.in(wire, uint64(number)))
		}
	}
	return object.Value()
}

// in returns the value of the field in a message; absent if it is not populated.
func (f *messageField) in(wire string, number uint64) (out rego.Value) {
	var list []rego.Value
	fields(wire, func(n uint64, occurrence field) {
		if n != number {
			return
		}
		out = f.value(occurrence)
		if f.list {
			list = append(list, out)
		}
	})
	if list != nil {
		return rego.Array(list)
	}
	return out
}

// value returns the value of one occurrence; absent if it is zero and need not be there.
func (f *messageField) value(occurrence field) rego.Value {
	switch f.kind {
	case protoreflect.MessageKind:
		return f.message.value(occurrence.text)
	case protoreflect.StringKind:
		if occurrence.text != "" || f.present {
			return rego.String(occurrence.text)
		}
	case protoreflect.BytesKind:
		if occurrence.text != "" || f.present {
			return rego.String(base64.StdEncoding.EncodeToString([]byte(occurrence.text)))
		}
	case protoreflect.BoolKind:
		if occurrence.number != 0 || f.present {
			return rego.Boolean(occurrence.number != 0)
		}
	default:
		if n := f.integer(occurrence.number); n != 0 || f.present {
			return rego.Integer(n)
		}
	}
	return rego.Value{}
}

// integer returns a varint as the field's type cuts it off. An enum is its number.
func (f *messageField) integer(varint uint64) int64 {
	switch f.kind {
	case protoreflect.Int32Kind, protoreflect.EnumKind:
		return int64(int32(varint))
	case protoreflect.Uint32Kind:
		return int64(uint32(varint))
	}
	return int64(varint)
}
