package extauthz

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// shape is what of a message's type decides whether it decodes: which fields hold
// text, bytes, messages and numbers. It is made of the descriptor, so that it knows
// what Envoy adds.
type shape struct {
	// kinds :: number of a field → what it holds.
	kinds map[uint64]protoreflect.Kind
	// messages :: number of a field → the shape of what it holds.
	messages map[uint64]*shape
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
	s := &shape{kinds: make(map[uint64]protoreflect.Kind), messages: make(map[uint64]*shape)}
	shapes[message.FullName()] = s
	fields := message.Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		s.kinds[uint64(f.Number())] = f.Kind()
		if f.Message() != nil {
			s.messages[uint64(f.Number())] = shapeOf(f.Message())
		}
	}
	return s
}

// plain reports whether a message decodes and holds nothing that an input document
// could not: all fields known and in their own type, all text UTF-8, all numbers
// finite.
func (s *shape) plain(wire string, depth int) bool {
	for len(wire) > 0 {
		tag, rest, ok := varint(wire)
		if !ok || depth == 0 {
			return false
		}
		if wire, ok = s.plainField(tag>>3, tag&7, rest, depth); !ok {
			return false
		}
	}
	return true
}

// plainField reads one field and returns what is after it.
func (s *shape) plainField(number, wireType uint64, wire string, depth int) (rest string, ok bool) {
	switch kind := s.kinds[number]; kind {
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		text, rest, ok := lengthPrefixed(wire)
		if !ok || wireType != wireBytes {
			return "", false
		}
		return rest, kind == protoreflect.BytesKind ||
			kind == protoreflect.StringKind && utf8.ValidString(text) ||
			kind == protoreflect.MessageKind && s.messages[number].plain(text, depth-1)
	case protoreflect.BoolKind, protoreflect.EnumKind, protoreflect.Int32Kind, protoreflect.Int64Kind,
		protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		_, rest, ok := varint(wire)
		return rest, ok && wireType == wireVarint
	case protoreflect.DoubleKind:
		if len(wire) < 8 || wireType != wireFixed64 {
			return "", false
		}
		number := math.Float64frombits(binary.LittleEndian.Uint64([]byte(wire[:8])))
		return wire[8:], !math.IsNaN(number) && !math.IsInf(number, 0)
	}
	return "", false
}
