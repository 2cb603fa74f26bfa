package extauthz

import "unicode/utf8"

// The wire of protocol buffers, as far as a view reads it. Whatever is broken or
// unusual is declined, never mended: the full decode says what it means.

// field is one field of a message on the wire: bytes, or a number. Its methods read it
// as one type; they report false if it is of another.
type field struct {
	isText bool
	text   string
	number uint64
}

func (f field) string(to *string) bool {
	*to = f.text
	return f.isText && utf8.ValidString(f.text)
}

func (f field) integer(to *int64) bool {
	*to = int64(f.number)
	return !f.isText
}

// The types of a field on the wire that a view reads.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// fields calls f for each field of a message whose type is bytes or varint. It
// reports false if the wire is broken, has a field of another type, or f declines.
func fields(wire string, f func(number uint64, value field) bool) bool {
	for len(wire) > 0 {
		tag, rest, ok := varint(wire)
		if !ok {
			return false
		}
		var value field
		switch tag & 7 {
		case wireVarint:
			value.number, rest, ok = varint(rest)
		case wireBytes:
			value.isText = true
			value.text, rest, ok = lengthPrefixed(rest)
		default:
			return false
		}
		if !ok || !f(tag>>3, value) {
			return false
		}
		wire = rest
	}
	return true
}

// varint reads a varint of at most nine bytes: longer ones are declined, for they
// are where decoders differ.
func varint(wire string) (value uint64, rest string, ok bool) {
	for i := 0; i < len(wire) && i < 9; i++ {
		value |= uint64(wire[i]&0x7f) << (7 * i)
		if wire[i] < 0x80 {
			return value, wire[i+1:], true
		}
	}
	return 0, "", false
}

func lengthPrefixed(wire string) (value, rest string, ok bool) {
	n, rest, ok := varint(wire)
	if !ok || n > uint64(len(rest)) {
		return "", "", false
	}
	return rest[:n], rest[n:], true
}
