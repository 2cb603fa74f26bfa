package input

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/rego"
)

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

func (l *leafPart) key(c *Check, b []byte, p *plan) ([]byte, bool) {
	if !l.has(c) {
		return append(b, 0), false
	}
	return l.messageField.key(append(b, 1), l.of(c), p), false
}

func (l *leafPart) value(c *Check, p *plan) (rego.Value, error) {
	if !l.has(c) {
		return rego.Value{}, nil
	}
	return l.messageField.value(l.of(c), p), nil
}

// textPart is such a field with a text. Rego strings are UTF-8, and protocol buffers demand
// it of a string field; what is not is left to the full decode, which refuses it.
type textPart struct{ leafPart }

func (t *textPart) of(c *Check) string { return c.texts[t.slot] }

func (t *textPart) text(c *Check) (string, bool) { return t.of(c), t.of(c) != "" }

// constantPart is the same in every request.
type constantPart struct{ of rego.Value }

func (constantPart) key(_ *Check, b []byte, _ *plan) ([]byte, bool) { return b, false }

func (c constantPart) value(*Check, *plan) (rego.Value, error) { return c.of, nil }
