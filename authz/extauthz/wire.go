package extauthz

import "unicode/utf8"

// The wire of protocol buffers, as far as a view reads it. Whatever is broken or
// unusual is declined, never mended: the full decode says what it means.

// field is one field of a message on the wire: bytes, or a number. Its methods read it
// as one type; they decline one of another.
type field struct {
	isText bool
	text   string
	number uint64
}

func (f field) string(to *string) declined {
	*to = f.text
	switch {
	case !f.isText:
		return declinedWire
	case !utf8.ValidString(f.text):
		return declinedText
	}
	return readable
}

func (f field) bytes(to *string) declined {
	*to = f.text
	if !f.isText {
		return declinedWire
	}
	return readable
}

func (f field) integer(to *int64) declined {
	*to = int64(f.number)
	if f.isText {
		return declinedWire
	}
	return readable
}

// The types of a field on the wire that a view reads.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
	wireFixed32 = 5
)

// fields calls f for each field of a message whose type is bytes or varint. It
// declines a wire that is broken or has a field of another type, and what f declines.
func fields(wire string, f func(number uint64, value field) declined) declined {
	for len(wire) > 0 {
		tag, rest, ok := varint(wire)
		if !ok {
			return declinedWire
		}
		var value field
		switch tag & 7 {
		case wireVarint:
			value.number, rest, ok = varint(rest)
		case wireBytes:
			value.isText = true
			value.text, rest, ok = lengthPrefixed(rest)
		default:
			return declinedWire
		}
		if !ok {
			return declinedWire
		}
		if why := f(tag>>3, value); why != readable {
			return why
		}
		wire = rest
	}
	return readable
}

// maxVarint is the length of the longest varint, in bytes: 64 bits, seven in each. A
// negative number always has it, such as the size of a body that is not known (-1).
const maxVarint = 10

// varint reads a varint of 64 bits. One with more bits is declined, for there decoders
// differ: some cut it off, Go's takes it for an error.
func varint(wire string) (value uint64, rest string, ok bool) {
	for i := 0; i < len(wire) && i < maxVarint; i++ {
		value |= uint64(wire[i]&0x7f) << (7 * i)
		if wire[i] < 0x80 {
			return value, wire[i+1:], i < maxVarint-1 || wire[i] <= 1
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
