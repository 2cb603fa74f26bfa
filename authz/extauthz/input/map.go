package input

import (
	"iter"
	"unicode/utf8"

	"understudy/rego"
)

// Envoy writes the entries of a map in any order, and those of a Struct, such as the claims of a token, in
// another one with nearly every message. Of a name that comes twice the last entry counts, as in protocol
// buffers.

// pair is an entry of a map.
type pair struct{ name, value string }

// The numbers of the fields in an entry of a map.
const (
	entryName  = 1
	entryValue = 2
)

// lookup returns the value of a name: that of its last entry, as in any proto map.
func lookup(pairs []pair, name string) (string, bool) {
	for i := len(pairs) - 1; i >= 0; i-- {
		if pairs[i].name == name {
			return pairs[i].value, true
		}
	}
	return "", false
}

// mapPart is a map of texts, absent if it has no entries: headers, labels, context
// extensions. A Check keeps the entries in the order in which they came: a search through
// 20 headers is faster than making a map of them.
type mapPart struct {
	slot int
	// room is how many entries there is room for at once.
	room int
}

func (m *mapPart) of(c *Check) []pair { return c.maps[m.slot] }

// read adds an entry. What is missing in it is empty.
func (m *mapPart) read(c *Check, entry field) Fallback {
	if entry.wireType != wireBytes {
		return FallbackWire
	}
	var read pair
	for wire := entry.text; len(wire) > 0; {
		number, f, rest, ok := next(wire)
		switch {
		case !ok || f.wireType != wireBytes:
			return FallbackWire
		case !utf8.ValidString(f.text):
			return FallbackText
		case number == entryName:
			read.name = f.text
		case number == entryValue:
			read.value = f.text
		default:
			return FallbackField
		}
		wire = rest
	}
	if c.maps[m.slot] == nil {
		c.maps[m.slot] = make([]pair, 0, m.room)
	}
	c.maps[m.slot] = append(c.maps[m.slot], read)
	return none
}

func (m *mapPart) value(c *Check, _ []string) (rego.Value, error) {
	entries := m.of(c)
	if len(entries) == 0 {
		return rego.Value{}, nil
	}
	object := rego.NewObject(len(entries))
	for _, e := range entries {
		object.Set(rego.NewName(e.name), rego.String(e.value))
	}
	return object.Value(), nil
}

// entryText is one entry of such a map, which is there even if it is empty.
type entryText struct {
	of   *mapPart
	name string
}

func (e entryText) value(c *Check, _ []string) (rego.Value, error) {
	text, ok := lookup(e.of.of(c), e.name)
	if !ok {
		return rego.Value{}, nil
	}
	return rego.String(text), nil
}

// entries are the entries of a map of messages in a valid message.
type entries struct {
	of     *messageType
	wire   string
	number uint64
}

// all are the entries as they come. What is missing in one is empty.
func (e entries) all() iter.Seq[pair] {
	return func(yield func(pair) bool) {
		for number, entry := range fields(e.wire) {
			if number != e.number {
				continue
			}
			var p pair
			for number, f := range fields(entry.text) {
				if number == entryName {
					p.name = f.text
				} else {
					p.value = f.text
				}
			}
			if !yield(p) {
				return
			}
		}
	}
}

// count returns how many there are. A map without entries is not written at all.
func (e entries) count() (n int) {
	for range e.all() {
		n++
	}
	return n
}

// find returns the value of a name.
func (e entries) find(name string) (value string, found bool) {
	for p := range e.all() {
		if p.name == name {
			value, found = p.value, true
		}
	}
	return value, found
}

// value returns the map as an object, or as much of it as is at and below a path of names.
func (e entries) value(only []string) rego.Value {
	if len(only) == 0 {
		object := rego.NewObject(e.count())
		for entry := range e.all() {
			object.Set(rego.NewName(entry.name), e.of.value(entry.value, nil))
		}
		return object.Value()
	}
	object := rego.NewObject(1)
	if value, ok := e.find(only[0]); ok {
		object.Set(rego.NewName(only[0]), e.of.value(value, only[1:]))
	}
	return object.Value()
}
