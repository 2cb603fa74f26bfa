package input

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/rego"
)

// messageType is the part of a message's type that decides whether it is valid, what of it
// a key has, and which value it becomes. It is made of the descriptor, so that it knows what
// Envoy adds. It is immutable.
//
// To decode a message would build each of its fields, whether a policy reads them or not.
// Here one pass checks the bytes without allocating, and a value is built only for a policy
// that reads it.
type messageType struct {
	// fields :: number of a field → what it holds. Numbers without a field have no kind.
	fields []messageField
	form   form
}

// form is how a message is read.
type form uint8

const (
	// plainForm: by its fields. Its bytes stand for it in a key.
	plainForm form = iota
	// mapsForm: by its fields, which are maps: Envoy's Metadata. Filters put much into it that
	// changes with every request, such as the ID of a trace; by paths, only what is read
	// counts in the key:
	//
	//	input.attributes.metadataContext.filterMetadata["envoy.filters.http.jwt_authn"].payload.sub
	mapsForm
	// structForm and valueForm: google.protobuf.Struct and Value, as the JSON that they are.
	structForm
	valueForm
)

type messageField struct {
	number uint64
	kind   protoreflect.Kind
	// message is the type of what it holds, if that is a message; of a map, that of its
	// entries.
	message *messageType
	// once is a bit for what may occur once only: a message that is not repeated, since
	// protocol buffers merge two of it, or the members of a oneof together, of which
	// another one replaces the first. Fields of one bit exclude each other. Zero means
	// that the last occurrence counts, or that all do.
	once uint32
	// name is that of the object's field, which is field.
	name  string
	field rego.Name
	list  bool
	isMap bool
	// present says that the field is in the document even if it is zero.
	present bool
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
	t := &messageType{form: formOf(message)}
	types[message.FullName()] = t
	bits := make(map[protoreflect.FullName]uint32)
	for i := range message.Fields().Len() {
		f := message.Fields().Get(i)
		for len(t.fields) <= int(f.Number()) {
			t.fields = append(t.fields, messageField{})
		}
		field := messageField{
			number: uint64(f.Number()), kind: f.Kind(), list: f.IsList(), isMap: f.IsMap(), present: f.HasPresence(),
			name: f.JSONName(), field: rego.NewName(f.JSONName()),
		}
		if f.Message() != nil {
			field.message = newMessageType(f.Message())
		}
		if exclusive := exclusiveName(f); exclusive != "" {
			if bits[exclusive] == 0 {
				bits[exclusive] = 1 << len(bits)
			}
			field.once = bits[exclusive]
		}
		t.fields[f.Number()] = field
	}
	return t
}

// formOf returns the form of a message. One with maps and other fields has none, nor has one
// with a map of anything but messages: that is a panic when the program starts.
func formOf(message protoreflect.MessageDescriptor) form {
	switch message.FullName() {
	case "google.protobuf.Struct":
		return structForm
	case "google.protobuf.Value":
		return valueForm
	}
	maps, fields := 0, message.Fields()
	for i := range fields.Len() {
		if fields.Get(i).IsMap() && fields.Get(i).MapValue().Kind() == protoreflect.MessageKind {
			maps++
		} else if fields.Get(i).IsMap() {
			maps = -fields.Len()
		}
	}
	switch maps {
	case 0:
		return plainForm
	case fields.Len():
		return mapsForm
	}
	panic(fmt.Sprintf("the message %s has a map that the input document has no rule for", message.FullName()))
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
