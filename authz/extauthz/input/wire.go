package input

import (
	"encoding/binary"
	"iter"
)

// The wire format of protocol buffers, as far as the lazy decoder reads it. Whatever is
// broken or unusual it leaves to the full decode, which knows what that means.

// The types of a field on the wire that are read.
const (
	wireVarint  = 0
	wireFixed64 = 1
	wireBytes   = 2
)

// field is one field of a message on the wire: bytes, or a number.
type field struct {
	// wireType is one of those above.
	wireType uint64
	text     string
	number   uint64
}

// next reads the first field of a message. It reports false if the wire is broken or has a
// group or a field of 32 bits, of which Envoy's messages have none.
func next(wire string) (number uint64, f field, rest string, ok bool) {
	tag, rest, ok := varint(wire)
	if !ok {
		return 0, field{}, "", false
	}
	f.wireType = tag & 7
	switch f.wireType {
	case wireVarint:
		f.number, rest, ok = varint(rest)
	case wireBytes:
		var n uint64
		n, rest, ok = varint(rest)
		if ok = ok && n <= uint64(len(rest)); ok {
			f.text, rest = rest[:n], rest[n:]
		}
	case wireFixed64:
		if ok = len(rest) >= 8; ok {
			f.number, rest = binary.LittleEndian.Uint64([]byte(rest[:8])), rest[8:]
		}
	default:
		return 0, field{}, "", false
	}
	return tag >> 3, f, rest, ok
}

// fields are the fields of a message that was validated before, by their numbers.
func fields(wire string) iter.Seq2[uint64, field] {
	return func(yield func(uint64, field) bool) {
		for rest := wire; len(rest) > 0; {
			number, value, after, ok := next(rest)
			if !ok || !yield(number, value) {
				return
			}
			rest = after
		}
	}
}

// maxVarint is the length of the longest varint, in bytes: 64 bits, seven in each. A
// negative number always has it, such as the size of a body that is not known (-1).
const maxVarint = 10

// varint reads a varint of 64 bits. One with more bits is not read, for there decoders
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
