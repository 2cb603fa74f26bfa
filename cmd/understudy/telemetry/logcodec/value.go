package logcodec

import (
	"math"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the fields, of opentelemetry-proto 1.10, common/v1/common.proto.
const (
	keyValueKey   protowire.Number = 1
	keyValueValue protowire.Number = 2

	anyString protowire.Number = 1
	anyBool   protowire.Number = 2
	anyInt    protowire.Number = 3
	anyDouble protowire.Number = 4
	anyArray  protowire.Number = 5
	anyMap    protowire.Number = 6
	anyBytes  protowire.Number = 7

	// listValues is the field of an ArrayValue and of a KeyValueList.
	listValues protowire.Number = 1
)

func appendAttributes(dst []byte, field protowire.Number, r *sdklog.Record) []byte {
	r.WalkAttributes(func(kv attribute.KeyValue) bool {
		dst = appendKeyValue(dst, field, kv)
		return true
	})
	return dst
}

func appendKeyValue(dst []byte, field protowire.Number, kv attribute.KeyValue) []byte {
	dst, at := begin(dst, field, shortLength)
	dst = appendText(dst, keyValueKey, string(kv.Key))
	dst = appendValue(dst, keyValueValue, kv.Value)
	return end(dst, at, shortLength)
}

// appendValue appends an AnyValue. A value that is empty is there, without a kind.
func appendValue(dst []byte, field protowire.Number, v attribute.Value) []byte {
	dst, at := begin(dst, field, shortLength)
	switch v.Type() {
	case attribute.EMPTY:
	case attribute.STRING:
		dst = appendBytes(dst, anyString, valid(v.AsString()))
	case attribute.BOOL:
		dst = appendVarint(dst, anyBool, protowire.EncodeBool(v.AsBool()))
	case attribute.INT64:
		dst = appendVarint(dst, anyInt, uint64(v.AsInt64())) //nolint:gosec // two's complement, as int64 is on the wire
	case attribute.FLOAT64:
		dst = protowire.AppendFixed64(protowire.AppendTag(dst, anyDouble, protowire.Fixed64Type), math.Float64bits(v.AsFloat64()))
	case attribute.BYTESLICE:
		dst = appendBytes(dst, anyBytes, v.AsByteSlice())
	case attribute.MAP:
		dst = appendMap(dst, v.AsMap())
	default:
		dst = appendArray(dst, v)
	}
	return end(dst, at, shortLength)
}

func appendMap(dst []byte, entries []attribute.KeyValue) []byte {
	dst, at := begin(dst, anyMap, shortLength)
	for _, kv := range entries {
		dst = appendKeyValue(dst, listValues, kv)
	}
	return end(dst, at, shortLength)
}

// appendArray appends the elements of a value that has some. What is of a kind that is not
// known has none.
func appendArray(dst []byte, v attribute.Value) []byte {
	dst, at := begin(dst, anyArray, shortLength)
	switch v.Type() {
	case attribute.BOOLSLICE:
		dst = appendElements(dst, v.AsBoolSlice(), attribute.BoolValue)
	case attribute.INT64SLICE:
		dst = appendElements(dst, v.AsInt64Slice(), attribute.Int64Value)
	case attribute.FLOAT64SLICE:
		dst = appendElements(dst, v.AsFloat64Slice(), attribute.Float64Value)
	case attribute.STRINGSLICE:
		dst = appendElements(dst, v.AsStringSlice(), attribute.StringValue)
	case attribute.SLICE:
		dst = appendElements(dst, v.AsSlice(), func(v attribute.Value) attribute.Value { return v })
	}
	return end(dst, at, shortLength)
}

func appendElements[E any](dst []byte, elements []E, value func(E) attribute.Value) []byte {
	for _, e := range elements {
		dst = appendValue(dst, listValues, value(e))
	}
	return dst
}

// appendText appends a text, if it is not empty.
func appendText(dst []byte, field protowire.Number, text string) []byte {
	if text == "" {
		return dst
	}
	return appendBytes(dst, field, valid(text))
}

func appendBytes[T string | []byte](dst []byte, field protowire.Number, text T) []byte {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(text)))
	return append(dst, text...)
}

func appendVarint(dst []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), n)
}

// valid returns a text as UTF-8.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// begin appends the tag of a message and leaves so many bytes for its length. The message
// begins at at.
func begin(dst []byte, field protowire.Number, length int) (out []byte, at int) {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	var room [batchLength]byte
	dst = append(dst, room[:length]...)
	return dst, len(dst)
}

// end sets the length of the message that begins at at and ends dst. If it takes another
// number of bytes than were left for it, the message is moved.
func end(dst []byte, at, left int) []byte {
	n := len(dst) - at
	if takes := protowire.SizeVarint(uint64(n)); takes != left { //nolint:gosec // above 0
		if takes > left {
			dst = append(dst, make([]byte, takes-left)...)
		}
		copy(dst[at-left+takes:], dst[at:at+n])
		dst = dst[:at-left+takes+n]
	}
	protowire.AppendVarint(dst[:at-left], uint64(n)) //nolint:gosec // above 0
	return dst
}
