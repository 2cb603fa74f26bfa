package extauthz

import "unicode/utf8"

// The wire of protocol buffers, as far as a view reads it. Whatever is broken or
// unusual is declined, never mended: the full decode says what it means.

// field is one field of a message on the wire: bytes, or a number. Its methods read it
// as one type; they decline one of another.
type field struct {
	// wireType is one of those below.
	wireType uint64
	text     string
	number   uint64
}

func (f field) string(to *string) declined {
	*to = f.text
	switch {
	case f.wireType != wireBytes:
		return declinedWire
	case !utf8.ValidString(f.text):
		return declinedText
	}
	return readable
}

func (f field) bytes(to *string) declined {
	*to = f.text
	if f.wireType != wireBytes {
		return declinedWire
	}
	return readable
}

func (f field) integer(to *int64) declined {
	*to = int64(f.number)
	if f.wireType != wireVarint {
		return declinedWire
	}
	return readable
}

// The types of a field on the wire that a view reads.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
)

// fields calls f for each field of a message. It declines a wire that is broken or has
// a group or a field of 32 bits, which there are none of, and what f declines.
func fields(wire string, f func(number uint64, value field) declined) declined {
	for len(wire) > 0 {
		tag, rest, ok := varint(wire)
		if !ok {
			return declinedWire
		}
		value := field{wireType: tag & 7}
		switch value.wireType {
		case wireVarint:
			value.number, rest, ok = varint(rest)
		case wireBytes:
			value.text, rest, ok = lengthPrefixed(rest)
		case wireFixed64:
			value.number, rest, ok = fixed64(rest)
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

func fixed64(wire string) (value uint64, rest string, ok bool) {
	if len(wire) < 8 {
		return 0, "", false
	}
	for i := range 8 {
		value |= uint64(wire[i]) << (8 * i)
	}
	return value, wire[8:], true
}

func lengthPrefixed(wire string) (value, rest string, ok bool) {
	n, rest, ok := varint(wire)
	if !ok || n > uint64(len(rest)) {
		return "", "", false
	}
	return rest[:n], rest[n:], true
}
