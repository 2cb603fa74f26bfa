package extauthz

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxValues is the largest number of values in a body that is read. What a body costs
// depends on them more than on its length: a processor makes about a million a second,
// and each takes hundreds of bytes.
const maxValues = 50_000

// What a body takes while it is read, in bytes of memory: for each value, with the map
// that it comes from and the term that it becomes, and for each byte of its own. It was
// measured, and is more than most bodies take.
const (
	bytesPerValue = 512
	bytesPerByte  = 4
)

var errManyValues = badRequest("The body has too many values: more than 50000.")

// weightOfJSON counts what begins a value: a bracket, a comma, the document itself. That
// is never less than there are values, and twice as many at most.
func weightOfJSON(content []byte) int {
	n := 1
	for i := 0; i < len(content); i++ {
		switch content[i] {
		case '[', '{', ',':
			n++
		case '"':
			i += stringEnd(content[i+1:])
		}
	}
	return n
}

// stringEnd returns the length of what is left of a JSON string, with its closing quote.
func stringEnd(rest []byte) int {
	for i := 0; ; i++ {
		next := bytes.IndexAny(rest[i:], `"\\`)
		if next < 0 {
			return len(rest)
		}
		if i += next; rest[i] == '"' {
			return i + 1
		}
		i++ // what is escaped
		if i >= len(rest) {
			return len(rest)
		}
	}
}

// weightOfForm counts parameters: each makes a list with a text in it.
func weightOfForm(content []byte) int { return 3 + 2*bytes.Count(content, []byte("&")) }

// weightOfMultipart counts lines, for a part has at least three, and what JSON there may
// be in the parts.
func weightOfMultipart(content []byte) int {
	n := 1
	for _, c := range content {
		switch c {
		case '[', '{', ',', '\n':
			n++
		}
	}
	return n
}

// weightOfMessage counts the fields of a message and of those in it. It stops at a
// message that is broken, which will not be parsed either.
func weightOfMessage(content []byte, d protoreflect.MessageDescriptor) int {
	n := 1
	for len(content) > 0 {
		number, kind, size := protowire.ConsumeField(content)
		if size < 0 {
			return n
		}
		n++
		f := d.Fields().ByNumber(number)
		if kind == protowire.BytesType && f != nil {
			_, _, head := protowire.ConsumeTag(content)
			value, _ := protowire.ConsumeBytes(content[head:])
			switch {
			case f.Message() != nil:
				n += weightOfMessage(value, f.Message())
			case f.IsPacked() || f.IsList() && f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind:
				n += len(value)
			}
		}
		content = content[size:]
	}
	return n
}
