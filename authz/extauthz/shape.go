package extauthz

import (
	"math"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// shape is what of a message's type decides whether it decodes: which fields hold
// text, bytes, messages and numbers. It is made of the descriptor, so that it knows
// what Envoy adds. The zero value knows no fields.
type shape struct {
	// fields :: number of a field → what it holds. Numbers without a field have no kind.
	fields []shapeField
}

type shapeField struct {
	kind protoreflect.Kind
	// message is the shape of what it holds, if that is a message.
	message *shape
	// once is a bit for what may occur once only: a message that is not repeated, since
	// protocol buffers merge two of it, or the members of a oneof together, of which
	// another one replaces the first. Fields of one bit exclude each other. Zero means
	// that the last occurrence counts, or that all do.
	once uint32
}

// plainDepth is how deep messages may nest in one that is plain. Policies that look at
// deeper ones get them by the full decode.
const plainDepth = 24

// The messages that a view passes over.
var (
	shapes        = make(map[protoreflect.FullName]*shape)
	addressShape  = shapeOf((&corev3.Address{}).ProtoReflect().Descriptor())
	metadataShape = shapeOf((&corev3.Metadata{}).ProtoReflect().Descriptor())
	timeShape     = shapeOf((&timestamppb.Timestamp{}).ProtoReflect().Descriptor())
)

func shapeOf(message protoreflect.MessageDescriptor) *shape {
	if s := shapes[message.FullName()]; s != nil {
		return s
	}
	s := &shape{}
	shapes[message.FullName()] = s
	bits := make(map[protoreflect.FullName]uint32)
	fields := message.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		for len(s.fields) <= int(f.Number()) {
			s.fields = append(s.fields, shapeField{})
		}
		field := &s.fields[f.Number()]
		field.kind = f.Kind()
		if f.Message() != nil {
			field.message = shapeOf(f.Message())
		}
		if exclusive := exclusiveName(f); exclusive != "" {
			if bits[exclusive] == 0 {
				bits[exclusive] = 1 << len(bits)
			}
			field.once = bits[exclusive]
		}
	}
	return s
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

// plain reports whether a message decodes and holds nothing that an input document
// could not: all fields known, in their own type and as often as they may be, all text
// UTF-8, all numbers finite.
func (s *shape) plain(wire string, depth int) bool {
	seen := uint32(0)
	for len(wire) > 0 {
		tag, rest, ok := varint(wire)
		if !ok || depth == 0 || tag>>3 >= uint64(len(s.fields)) {
			return false
		}
		f := &s.fields[tag>>3]
		if seen&f.once != 0 {
			return false
		}
		seen |= f.once
		if wire, ok = f.plain(tag&7, rest, depth); !ok {
			return false
		}
	}
	return true
}

// plain reads one field and returns what is after it.
func (f *shapeField) plain(wireType uint64, wire string, depth int) (rest string, ok bool) {
	switch f.kind {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		text, rest, ok := lengthPrefixed(wire)
		if !ok || wireType != wireBytes {
			return "", false
		}
		return rest, f.kind == protoreflect.BytesKind ||
			f.kind == protoreflect.StringKind && utf8.ValidString(text) ||
			f.kind == protoreflect.MessageKind && f.message.plain(text, depth-1)
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
