package input

import (
	"encoding/base64"
	"encoding/binary"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"understudy/rego"
)

// The parts that are a field of one kind each. A field is absent from the document where
// proto3 does not populate it: an empty text, a zero. So the key of a projection need not
// distinguish "absent" from "empty", and takes the content alone.

// textPart is a text, absent if it is empty. Rego strings are UTF-8, and protocol
// buffers demand it of a string field; what is not is left to the full decode, which
// refuses it.
type textPart struct{ slot int }

func (t *textPart) of(c *Check) string { return c.texts[t.slot] }

func (t *textPart) text(c *Check) (string, bool) { return t.of(c), t.of(c) != "" }

func (t *textPart) read(c *Check, f field) Fallback {
	switch {
	case f.wireType != wireBytes:
		return FallbackWire
	case !utf8.ValidString(f.text):
		return FallbackText
	}
	c.texts[t.slot] = f.text
	return none
}

func (*textPart) plan(*rego.Reads) []*plan { return nil }

func (t *textPart) key(c *Check, b []byte) ([]byte, bool) { return appendText(b, t.of(c)), false }

func (t *textPart) value(c *Check, _ []*plan) (rego.Value, error) {
	text := t.of(c)
	if text == "" {
		return rego.Value{}, nil
	}
	return rego.String(text), nil
}

// bytesPart is bytes, which the document has in base64; absent if there are none.
type bytesPart struct{ textPart }

func (p *bytesPart) read(c *Check, f field) Fallback {
	if f.wireType != wireBytes {
		return FallbackWire
	}
	c.texts[p.slot] = f.text
	return none
}

func (p *bytesPart) text(c *Check) (string, bool) {
	return base64.StdEncoding.EncodeToString([]byte(p.of(c))), p.of(c) != ""
}

func (p *bytesPart) value(c *Check, _ []*plan) (rego.Value, error) {
	text, ok := p.text(c)
	if !ok {
		return rego.Value{}, nil
	}
	return rego.String(text), nil
}

// integerPart is a number, absent if it is zero.
type integerPart struct{ slot int }

func (i *integerPart) read(c *Check, f field) Fallback {
	if f.wireType != wireVarint {
		return FallbackWire
	}
	c.integers[i.slot] = int64(f.number)
	return none
}

func (*integerPart) plan(*rego.Reads) []*plan { return nil }

func (i *integerPart) key(c *Check, b []byte) ([]byte, bool) {
	return binary.AppendVarint(b, c.integers[i.slot]), false
}

func (i *integerPart) value(c *Check, _ []*plan) (rego.Value, error) {
	if c.integers[i.slot] == 0 {
		return rego.Value{}, nil
	}
	return rego.Integer(c.integers[i.slot]), nil
}

// opaquePart is a message that is read as a whole or not at all, absent if the request
// has none. In a key its bytes stand for it; they become a value only for a policy that
// reads it. Equal messages may have different bytes: then a decision is made twice, and
// both are right.
type opaquePart struct {
	slot    int
	bit     uint32
	message *messageType
}

// read keeps a message. One that occurs twice would have to be merged.
func (o *opaquePart) read(c *Check, f field) Fallback {
	switch {
	case c.present&o.bit != 0:
		return FallbackRepeated
	case f.wireType != wireBytes || !o.message.valid(f.text, maxDepth):
		return FallbackUnusual
	}
	c.present |= o.bit
	c.opaques[o.slot] = f.text
	return none
}

// fill keeps a decoded message.
func (o *opaquePart) fill(c *Check, m proto.Message) {
	if m.ProtoReflect().IsValid() {
		c.present |= o.bit
		c.decoded.messages[o.slot] = m
	}
}

func (*opaquePart) plan(*rego.Reads) []*plan { return nil }

func (o *opaquePart) key(c *Check, b []byte) ([]byte, bool) {
	if c.present&o.bit == 0 {
		return append(b, 0), false
	}
	return appendText(append(b, 1), c.opaques[o.slot]), false
}

func (o *opaquePart) value(c *Check, _ []*plan) (rego.Value, error) {
	if c.present&o.bit == 0 {
		return rego.Value{}, nil
	}
	return o.message.value(c.opaques[o.slot]), nil
}

// decodedOnlyPart is a message that the lazy decoder does not read.
type decodedOnlyPart struct {
	*opaquePart
	reason Fallback
}

func (d decodedOnlyPart) read(*Check, field) Fallback { return d.reason }

// constantPart is the same in every request.
type constantPart struct{ of rego.Value }

func (constantPart) plan(*rego.Reads) []*plan { return nil }

func (constantPart) key(_ *Check, b []byte) ([]byte, bool) { return b, false }

func (p constantPart) value(*Check, []*plan) (rego.Value, error) { return p.of, nil }

// appendText appends a text with its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}
