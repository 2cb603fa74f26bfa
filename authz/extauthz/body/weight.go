package body

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

var errManyValues = badRequest("The body has too many values: more than 50000, or messages nested more than 100 deep.")

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

// weightOfForm counts parameters: each makes a list with a text in it. What stands
// between two `&` may be empty and make nothing, so it counts too many, never too few.
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

// maxNesting is how deep messages may be nested in a gRPC message that is read. The
// parsers of C++, Java and Python refuse deeper ones; Go's would go down 10,000 levels,
// and begin anew with each google.protobuf.Any.
const maxNesting = 100

// weight counts the fields of a message and of those in it, also in those of
// google.protobuf.Any, which have their fields in JSON. It stops at a message that is
// broken, which will not be parsed either, and counts too many if they are nested deeper
// than depth.
func (m *Messages) weight(content []byte, d protoreflect.MessageDescriptor, depth int) int {
	if depth == 0 {
		return maxValues + 1
	}
	n := 1
	packed := packedMessage{isAny: d.FullName() == "google.protobuf.Any"}
	for len(content) > 0 {
		number, kind, size := protowire.ConsumeField(content)
		if size < 0 {
			return n
		}
		n++
		value := contentOf(content[:size])
		packed.read(number, value)
		switch f := d.Fields().ByNumber(number); {
		case f == nil:
		case f.Message() != nil:
			n += m.weight(value, f.Message(), depth-1)
		case kind == protowire.BytesType && f.IsList() && f.Kind() != protoreflect.StringKind && f.Kind() != protoreflect.BytesKind:
			n += len(value)
		}
		content = content[size:]
	}
	if found, err := m.types.FindMessageByURL(packed.url); packed.isAny && err == nil {
		n += m.weight(packed.content, found.Descriptor(), depth-1)
	}
	return n
}

// contentOf returns what is in a field of bytes or in a group; nothing for others.
func contentOf(field []byte) (content []byte) {
	number, kind, head := protowire.ConsumeTag(field)
	switch kind {
	case protowire.BytesType:
		content, _ = protowire.ConsumeBytes(field[head:])
	case protowire.StartGroupType:
		content, _ = protowire.ConsumeGroup(number, field[head:])
	}
	return content
}

// packedMessage is what a google.protobuf.Any holds. A field that comes twice counts as
// the last one does.
type packedMessage struct {
	isAny   bool
	url     string
	content []byte
}

func (p *packedMessage) read(number protowire.Number, value []byte) {
	switch {
	case !p.isAny:
	case number == 1:
		p.url = string(value)
	case number == 2:
		p.content = value
	}
}
