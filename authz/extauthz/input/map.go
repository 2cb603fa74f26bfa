package input

import (
	"encoding/binary"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"understudy/rego"
)

// Envoy writes the entries of a map in any order, and those of a Struct, such as the claims
// of a token, in another one with nearly every message. So no key has the bytes of a map:
// what a policy reads is taken by its path, and a map that is read whole is sorted first. Of
// a key that comes twice the last entry counts, as in protocol buffers.

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

// sorted sorts entries by name and leaves the last one of each.
func sorted(pairs []pair) []pair {
	slices.SortStableFunc(pairs, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	out := pairs[:0]
	for i, p := range pairs {
		if i+1 == len(pairs) || pairs[i+1].name != p.name {
			out = append(out, p)
		}
	}
	return out
}

// mapPart is a map of texts, absent if it has no entries: headers, labels, context
// extensions. A Check keeps the entries in the order in which they came: a search through
// 20 headers is faster than making a map of them. A plan has the names that the policy
// reads, so a header that no policy looks at neither costs anything nor is part of a key.
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

func (m *mapPart) key(c *Check, b []byte, p *plan) ([]byte, bool) {
	entries := m.of(c)
	if len(entries) == 0 {
		return append(b, 0), false
	}
	if b = append(b, 1); !p.whole {
		return b, true
	}
	entries = sorted(slices.Clone(entries))
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		b = appendText(appendText(b, e.name), e.value)
	}
	return b, false
}

func (m *mapPart) value(c *Check, p *plan) (rego.Value, error) {
	entries := m.of(c)
	switch {
	case len(entries) == 0:
		return rego.Value{}, nil
	case !p.whole:
		return p.object(c)
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

func (e entryText) text(c *Check) (string, bool) { return lookup(e.of.of(c), e.name) }

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

// key appends what is read of the map: the values at the places below p, or all entries in
// the order of their names. With all entries, names are what differs.
func (e entries) key(b []byte, p *plan) []byte {
	if p.whole {
		all := sorted(slices.Collect(e.all()))
		b = binary.AppendUvarint(b, uint64(len(all)))
		for _, entry := range all {
			b = e.of.key(appendText(b, entry.name), entry.value, wholePlan)
		}
		return b
	}
	for _, child := range p.below {
		if value, ok := e.find(child.name); ok {
			b = e.of.key(append(b, 1), value, child)
		} else {
			b = append(b, 0)
		}
	}
	return b
}

// value returns what is read of the map as an object.
func (e entries) value(p *plan) rego.Value {
	object := rego.NewObject(e.count())
	if p.whole {
		for entry := range e.all() {
			object.Set(rego.NewName(entry.name), e.of.value(entry.value, wholePlan))
		}
		return object.Value()
	}
	for _, child := range p.below {
		if value, ok := e.find(child.name); ok {
			object.Set(child.field, e.of.value(value, child))
		}
	}
	return object.Value()
}
