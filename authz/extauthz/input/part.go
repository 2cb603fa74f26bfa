package input

import (
	"encoding/binary"

	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/authz"
	"understudy/rego"
)

// part is a place of the input document: how what stands there is made of a request. It is immutable.
type part interface {
	// value returns what stands there, absent if nothing does. If there are names, it is no more of it
	// than what is at and below the path of these, in objects on the way.
	value(c *Check, only []string) (rego.Value, error)
}

// sealedPart is a part that has to be parsed.
type sealedPart interface {
	part
	// seal appends all of which it is made to b.
	seal(c *Check, b []byte) []byte
}

// appendText appends a text with its length.
func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// badRequest is the error of what does not parse. The reason quotes nothing.
func badRequest(reason string) error { return &authz.BadRequest{Reason: reason} }

// leafPart is a field whose content a Check keeps as it is on the wire: a text, bytes, a
// number, or a message of another API, such as an address or metadata. It is checked as it is
// read, and becomes a value only for a policy that reads it. It is absent from the document
// where proto3 does not populate it: an empty text, a zero, no message.
type leafPart struct {
	*messageField
	// slot is that of the text or the number.
	slot int
	// bit says that there is a message.
	bit uint32
	// unusual is the reason why the lazy decoder does not read it; none if it does.
	unusual Fallback
}

// read keeps the content. A message that occurs twice would have to be merged. In a full
// decode it is known to be valid.
func (l *leafPart) read(c *Check, f field) Fallback {
	switch {
	case c.full:
	case l.unusual != none:
		return l.unusual
	case c.present&l.bit != 0:
		return FallbackRepeated
	default:
		if reason := l.valid(f, maxDepth); reason != none {
			if l.message != nil {
				return FallbackUnusual
			}
			return reason
		}
	}
	c.present |= l.bit
	if f.wireType == wireVarint {
		c.integers[l.slot] = f.number
	} else {
		c.texts[l.slot] = f.text
	}
	return none
}

// of returns the content.
func (l *leafPart) of(c *Check) field {
	if l.kind == protoreflect.Int64Kind {
		return field{number: c.integers[l.slot]}
	}
	return field{text: c.texts[l.slot]}
}

// has reports whether the message is there; of anything else its content says so.
func (l *leafPart) has(c *Check) bool { return c.present&l.bit == l.bit }

func (l *leafPart) value(c *Check, only []string) (rego.Value, error) {
	if !l.has(c) {
		return rego.Value{}, nil
	}
	return l.messageField.value(l.of(c), only), nil
}

// textPart is such a field with a text. Rego strings are UTF-8, and protocol buffers demand
// it of a string field; what is not is left to the full decode, which refuses it.
type textPart struct{ leafPart }

func (t *textPart) of(c *Check) string { return c.texts[t.slot] }

func (t *textPart) value(c *Check, _ []string) (rego.Value, error) {
	if t.of(c) == "" {
		return rego.Value{}, nil
	}
	return rego.String(t.of(c)), nil
}

// constantPart is the same in every request.
type constantPart struct{ of rego.Value }

func (c constantPart) value(*Check, []string) (rego.Value, error) { return c.of, nil }
