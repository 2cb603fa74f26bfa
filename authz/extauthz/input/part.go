package input

import (
	"encoding/base64"
	"encoding/binary"
	"unicode/utf8"

	"understudy/rego"
)

// The parts that are a field of one kind each. A field is absent from the document where
// proto3 does not populate it: an empty text, a zero.

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

// bytesPart is bytes, which the document has in base64; absent if there are none.
type bytesPart struct{ slot int }

func (t *bytesPart) of(c *Check) string { return c.texts[t.slot] }

func (t *bytesPart) read(c *Check, f field) Fallback {
	if f.wireType != wireBytes {
		return FallbackWire
	}
	c.texts[t.slot] = f.text
	return none
}

func (t *bytesPart) key(c *Check, b []byte, _ *plan) ([]byte, bool) {
	return appendText(b, t.of(c)), false
}

func (t *bytesPart) value(c *Check, _ *plan) (rego.Value, error) {
	if t.of(c) == "" {
		return rego.Value{}, nil
	}
	return rego.String(base64.StdEncoding.EncodeToString([]byte(t.of(c)))), nil
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

func (i *integerPart) key(c *Check, b []byte, _ *plan) ([]byte, bool) {
	return binary.AppendVarint(b, c.integers[i.slot]), false
}

func (i *integerPart) value(c *Check, _ *plan) (rego.Value, error) {
	if c.integers[i.slot] == 0 {
		return rego.Value{}, nil
	}
	return rego.Integer(c.integers[i.slot]), nil
}

// opaquePart is a message of another API, absent if the request has none. It is checked as
// it is read, and becomes a value only for a policy that reads it. Equal messages may have
// different bytes: then a decision is made twice, and both are right.
type opaquePart struct {
	slot    int
	bit     uint32
	message *messageType
	// unusual is the reason why the lazy decoder does not read it; none if it does.
	unusual Fallback
}

// read keeps a message. One that occurs twice would have to be merged. In a full decode it
// is known to be valid.
func (o *opaquePart) read(c *Check, f field) Fallback {
	switch {
	case o.unusual != none && !c.full:
		return o.unusual
	case c.present&o.bit != 0:
		return FallbackRepeated
	case f.wireType != wireBytes || !c.full && !o.message.valid(f.text, maxDepth):
		return FallbackUnusual
	}
	c.present |= o.bit
	c.opaques[o.slot] = f.text
	return none
}

func (o *opaquePart) key(c *Check, b []byte, p *plan) ([]byte, bool) {
	if c.present&o.bit == 0 {
		return append(b, 0), false
	}
	return o.message.key(append(b, 1), c.opaques[o.slot], p), false
}

func (o *opaquePart) value(c *Check, p *plan) (rego.Value, error) {
	if c.present&o.bit == 0 {
		return rego.Value{}, nil
	}
	return o.message.value(c.opaques[o.slot], p), nil
}

// constantPart is the same in every request.
type constantPart struct{ of rego.Value }

func (constantPart) key(_ *Check, b []byte, _ *plan) ([]byte, bool) { return b, false }

func (c constantPart) value(*Check, *plan) (rego.Value, error) { return c.of, nil }
