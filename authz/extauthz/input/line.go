package input

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"understudy/rego"
)

// line is a line of the table: a field of Envoy's message M, and the place of the input
// document that it becomes.
type line[M any] struct {
	number uint64
	name   string
	part   fieldPart
	// fill takes the field from a decoded message.
	fill func(c *Check, m *M)
}

// The constructors below make the lines. Each makes both ways in which a field is filled:
// read of the part takes it from the wire by its number, fill takes it from a decoded
// message by a getter. No getter needs reflection, and the compiler holds a getter to the
// message whose line it is in.

// fieldPart is a part that is a field of one of Envoy's messages.
type fieldPart interface {
	part
	// read takes the field from the wire. It says why it cannot.
	read(c *Check, f field) Fallback
}

// How much a Check has room for. Each line of the table takes a slot of its kind; one too
// many is a panic when the program starts.
const (
	maxTexts    = 20
	maxIntegers = 1
	maxPairs    = 4
	maxOpaques  = 6
	maxMessages = 32 // bits
)

// slots are how many slots of each kind the lines made so far take. It changes only while
// the table is made, when the program starts.
var slots struct{ texts, integers, pairs, opaques, messages int }

// slot takes the next slot of a kind.
func slot(taken *int, limit int) int {
	if *taken == limit {
		panic(fmt.Sprintf("the table of the input document has more lines of a kind than the %d that a Check has room for", limit))
	}
	*taken++
	return *taken - 1
}

// message is the line of a message that is read field by field. The type parameters P
// and M are the message that has the field and that which is in it: a getter of another
// message does not compile.
func message[P, M any](number uint64, name string, get func(*P) *M, lines ...line[M]) line[P] {
	o := &objectPart{bit: 1 << slot(&slots.messages, maxMessages)}
	for _, l := range lines {
		o.add(l.name, l.part)
		for uint64(len(o.byNumber)) <= l.number {
			o.byNumber = append(o.byNumber, nil)
		}
		o.byNumber[l.number] = l.part
	}
	return line[P]{number, name, o, func(c *Check, p *P) {
		if m := get(p); m != nil {
			c.present |= o.bit
			for _, l := range lines {
				l.fill(c, m)
			}
		}
	}}
}

// root is the document: the line of the attributes, and what is derived.
func root[P any](l line[P], derived map[string]part) *objectPart {
	o := &objectPart{bit: 1 << slot(&slots.messages, maxMessages)}
	o.byNumber = append(make([]fieldPart, l.number), l.part)
	o.add(l.name, l.part)
	for _, name := range slices.Sorted(maps.Keys(derived)) {
		o.add(name, derived[name])
	}
	return o
}

// find returns the part at a path below a line, which has to be there: it is called
// when the program starts, and a wrong name is a panic then.
func find[T part, P any](l line[P], names ...string) T {
	var p part = l.part
	for _, name := range names {
		o := p.(*objectPart)
		p = o.parts[slices.Index(o.names, name)]
	}
	return p.(T)
}

// text is the line of a string; absent if it is empty.
func text[M any](number uint64, name string, get func(*M) string) line[M] {
	p := &textPart{slot(&slots.texts, maxTexts)}
	return line[M]{number, name, p, func(c *Check, m *M) { c.texts[p.slot] = get(m) }}
}

// bytes is the line of bytes, which the document has in base64; absent if there are none.
func bytes[M any](number uint64, name string, get func(*M) []byte) line[M] {
	p := &bytesPart{textPart{slot(&slots.texts, maxTexts)}}
	return line[M]{number, name, p, func(c *Check, m *M) { c.texts[p.slot] = string(get(m)) }}
}

// integer is the line of a number; absent if it is zero.
func integer[M any](number uint64, name string, get func(*M) int64) line[M] {
	p := &integerPart{slot(&slots.integers, maxIntegers)}
	return line[M]{number, name, p, func(c *Check, m *M) { c.integers[p.slot] = get(m) }}
}

// pairs is the line of a map of strings; absent if it has no entries.
func pairs[M any](number uint64, name string, get func(*M) map[string]string) line[M] {
	p := &pairsPart{slot(&slots.pairs, maxPairs)}
	return line[M]{number, name, p, func(c *Check, m *M) {
		entries := get(m)
		if len(entries) == 0 {
			return
		}
		c.pairs[p.slot] = make([]pair, 0, len(entries))
		for name, value := range entries {
			c.pairs[p.slot] = append(c.pairs[p.slot], pair{name, value})
		}
	}}
}

// opaque is the line of a message that is read as a whole or not at all. It becomes a value
// by its descriptor.
func opaque[M any, O proto.Message](number uint64, name string, get func(*M) O) line[M] {
	var none O
	p := &opaquePart{slot(&slots.opaques, maxOpaques), 1 << slot(&slots.messages, maxMessages), typeOf(none)}
	return line[M]{number, name, p, func(c *Check, m *M) { p.fill(c, get(m)) }}
}

// metadata is the line of Envoy's Metadata, of which policies read some paths.
func metadata[M any, O proto.Message](number uint64, name string, get func(*M) O) line[M] {
	l := opaque(number, name, get)
	l.part = newMetadataPart(l.part.(*opaquePart))
	return l
}

// decodedOnly is a line that the lazy decoder does not read, for this reason.
func decodedOnly[M any](reason Fallback, l line[M]) line[M] {
	l.part = decodedOnlyPart{l.part.(*opaquePart), reason}
	return l
}

// objectPart is a place with fields of fixed names, absent if the request has none. In
// a key it is one byte, whether it is there; what is below follows.
type objectPart struct {
	bit uint32
	// names are sorted, and parts are theirs.
	names []string
	parts []part
	// byNumber :: number of a field of the message → its part.
	byNumber []fieldPart
}

func (o *objectPart) add(name string, p part) {
	i, _ := slices.BinarySearch(o.names, name)
	o.names, o.parts = slices.Insert(o.names, i, name), slices.Insert(o.parts, i, p)
}

func (o *objectPart) plan(reads *rego.Reads) []*plan {
	var below []*plan
	for i, name := range o.names {
		if child := reads.Child(name); child != nil {
			below = append(below, newPlanOf(name, o.parts[i], child))
		}
	}
	return below
}

func (o *objectPart) read(c *Check, f field) Fallback {
	if f.wireType != wireBytes {
		return FallbackWire
	}
	return o.readMessage(c, f.text)
}

// readMessage reads a message as often as it occurs: occurrences are merged, and of a
// field the last one counts (protocol buffers, "last one wins"). A field that has no
// line is left to the full decode, since nobody here knows whether a policy would see
// it.
func (o *objectPart) readMessage(c *Check, wire string) Fallback {
	c.present |= o.bit
	for len(wire) > 0 {
		number, f, rest, ok := next(wire)
		switch {
		case !ok:
			return FallbackWire
		case number >= uint64(len(o.byNumber)) || o.byNumber[number] == nil:
			return FallbackField
		}
		if reason := o.byNumber[number].read(c, f); reason != none {
			return reason
		}
		wire = rest
	}
	return none
}

func (o *objectPart) key(c *Check, b []byte) ([]byte, bool) {
	if c.present&o.bit == 0 {
		return append(b, 0), false
	}
	return append(b, 1), true
}

func (o *objectPart) value(c *Check, below []*plan) (rego.Value, error) {
	if c.present&o.bit == 0 {
		return rego.Value{}, nil
	}
	return objectOf(c, below)
}

// objectOf returns an object with the places below it.
func objectOf(c *Check, below []*plan) (rego.Value, error) {
	object := rego.NewObject(len(below))
	for _, child := range below {
		value, err := child.value(c)
		if err != nil {
			return rego.Value{}, err
		}
		object.Set(child.name, value)
	}
	return object.Value(), nil
}
