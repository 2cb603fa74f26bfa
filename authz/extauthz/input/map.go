package input

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/anypb"

	"understudy/rego"
)

// Envoy writes the entries of a map in any order, and those of a Struct, such as the
// claims of a token, in another one with nearly every message. So no key has the bytes of a
// map: what a policy reads is taken by its path, and a map that is read whole is sorted
// first. Of a key that comes twice the last entry counts, as in protocol buffers. No
// message comes twice where it would be merged, for then the message is not valid.

// The numbers of the maps in Envoy's Metadata.
const (
	metadataFilters      = 1
	metadataTypedFilters = 2
)

// metadataPart is Envoy's Metadata, of which a policy reads some paths. Filters put
// much into it that changes with every request, such as the ID of a trace; by paths,
// only what is read counts in the key.
//
//	input.attributes.metadataContext.filterMetadata["envoy.filters.http.jwt_authn"].payload.sub
type metadataPart struct {
	*opaquePart
	object objectPart
}

func newMetadataPart(o *opaquePart) *metadataPart {
	m := &metadataPart{opaquePart: o, object: objectPart{bit: o.bit}}
	m.object.add("filterMetadata", mapPart{o.slot, metadataFilters, structContent{}})
	m.object.add("typedFilterMetadata", mapPart{o.slot, metadataTypedFilters, anyContent{}})
	return m
}

func (m *metadataPart) plan(reads *rego.Reads) []*plan { return m.object.plan(reads) }

func (m *metadataPart) key(c *Check, b []byte) ([]byte, bool) { return m.object.key(c, b) }

func (m *metadataPart) value(c *Check, below []*plan) (rego.Value, error) {
	return m.object.value(c, below)
}

// mapPart is a map of a message whose values are read by their paths, absent if the map
// has no entries.
type mapPart struct {
	// slot is that of the message.
	slot    int
	number  uint64
	content content
}

func (m mapPart) plan(reads *rego.Reads) []*plan {
	return []*plan{{part: placesPart{m, newPlaces("", reads)}}}
}

func (mapPart) key(_ *Check, b []byte) ([]byte, bool) { return b, true }

func (mapPart) value(c *Check, below []*plan) (rego.Value, error) { return below[0].value(c) }

// placesPart is what is read of such a map.
type placesPart struct {
	mapPart
	places *places
}

func (placesPart) plan(*rego.Reads) []*plan { return nil }

func (p placesPart) key(c *Check, b []byte) ([]byte, bool) {
	wire := c.opaques[p.slot]
	if !hasField(wire, p.number) {
		return append(b, keyAbsent), false
	}
	return mapKey(append(b, keyStruct), wire, p.number, p.places, p.content), false
}

func (p placesPart) value(c *Check, _ []*plan) (rego.Value, error) {
	wire := c.opaques[p.slot]
	if !hasField(wire, p.number) {
		return rego.Value{}, nil
	}
	return mapValue(wire, p.number, p.places, p.content)
}

// hasField reports whether a field occurs in a message. A map without entries is not
// written at all.
func hasField(wire string, number uint64) (found bool) {
	fields(wire, func(n uint64, _ field) { found = found || n == number })
	return found
}

// places is what is read of a map, and of the maps in it: a tree of names, made once for
// a read set and immutable.
type places struct {
	name string
	// field is the name as one of an object.
	field rego.Name
	// whole says that everything at and below this place is read.
	whole bool
	below []*places
}

func newPlaces(name string, reads *rego.Reads) *places {
	p := &places{name: name, field: rego.NewName(name), whole: reads.Whole()}
	for _, name := range reads.Names() {
		p.below = append(p.below, newPlaces(name, reads.Child(name)))
	}
	return p
}

// wholePlace is a place that is read whole.
var wholePlace = &places{whole: true}

// content is how the values of a map are read.
type content interface {
	// key appends what stands for a value in a key. It begins with a byte that is not
	// zero, and its end follows from what is before it.
	key(b []byte, wire string, p *places) []byte
	// value returns the value, or as much of it as is read.
	value(wire string, p *places) (rego.Value, error)
}

// The contents: Structs, the values in them, and messages of any type, which policies
// see undecoded.
type (
	structContent struct{}
	valueContent  struct{}
	anyContent    struct{}
)

func (anyContent) key(b []byte, wire string, _ *places) []byte {
	return appendText(append(b, keyOpaque), wire)
}

func (anyContent) value(wire string, _ *places) (rego.Value, error) { return anyType.value(wire), nil }

var anyType = typeOf((*anypb.Any)(nil))

// The bytes that begin a value in a key.
const (
	keyAbsent byte = iota
	keyNull
	keyFalse
	keyTrue
	keyNumber
	keyString
	keyStruct
	keyList
	keyOpaque
)

// mapKey appends what is read of a map: the values at the places below p, or all
// entries in the order of their names. The places are the same for all requests of a
// read set, so their names need not be in the key; with all entries, names are what
// differs.
func mapKey(b []byte, wire string, number uint64, p *places, c content) []byte {
	if !p.whole {
		for _, child := range p.below {
			if value, ok := entryOf(wire, number, child.name); ok {
				b = c.key(b, value, child)
			} else {
				b = append(b, keyAbsent)
			}
		}
		return b
	}
	entries := sorted(entriesOf(wire, number))
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for _, e := range entries {
		b = c.key(appendText(b, e.name), e.value, wholePlace)
	}
	return b
}

// mapValue returns what is read of a map as an object.
func mapValue(wire string, number uint64, p *places, c content) (rego.Value, error) {
	entries := entriesOf(wire, number)
	object := rego.NewObject(len(entries))
	set := func(name rego.Name, wire string, p *places) error {
		value, err := c.value(wire, p)
		object.Set(name, value)
		return err
	}
	if p.whole {
		for _, e := range entries {
			if err := set(rego.NewName(e.name), e.value, wholePlace); err != nil {
				return rego.Value{}, err
			}
		}
		return object.Value(), nil
	}
	for _, child := range p.below {
		if value, ok := lookup(entries, child.name); ok {
			if err := set(child.field, value, child); err != nil {
				return rego.Value{}, err
			}
		}
	}
	return object.Value(), nil
}

// entriesOf returns the entries of the map that is a field of a message, as they come.
func entriesOf(wire string, number uint64) []pair {
	var out []pair
	eachEntry(wire, number, func(p pair) { out = append(out, p) })
	return out
}

// entryOf returns the value of a name: that of its last entry.
func entryOf(wire string, number uint64, name string) (value string, found bool) {
	eachEntry(wire, number, func(p pair) {
		if p.name == name {
			value, found = p.value, true
		}
	})
	return value, found
}

// eachEntry calls f for each entry of a map. What is missing in one is empty.
func eachEntry(wire string, number uint64, f func(pair)) {
	fields(wire, func(n uint64, entry field) {
		if n != number {
			return
		}
		var p pair
		fields(entry.text, func(n uint64, part field) {
			if n == entryName {
				p.name = part.text
			} else {
				p.value = part.text
			}
		})
		f(p)
	})
}

// sorted sorts entries by name and leaves the last one of each.
func sorted(entries []pair) []pair {
	slices.SortStableFunc(entries, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	out := entries[:0]
	for i, e := range entries {
		if i+1 == len(entries) || entries[i+1].name != e.name {
			out = append(out, e)
		}
	}
	return out
}

// structFields is the number of the map in a Struct.
const structFields = 1

func (structContent) key(b []byte, wire string, p *places) []byte {
	return mapKey(append(b, keyStruct), wire, structFields, p, valueContent{})
}

func (structContent) value(wire string, p *places) (rego.Value, error) {
	return mapValue(wire, structFields, p, valueContent{})
}

// The numbers of the fields in a Value. A list has none but values.
const (
	valueNull   = 1
	valueNumber = 2
	valueString = 3
	valueBool   = 4
	valueStruct = 5
	valueList   = 6
)

// kindOf returns the one field of a Value; null if it has none. It is a oneof: the last
// that is written counts.
func kindOf(wire string) (number uint64, f field) {
	number = valueNull
	fields(wire, func(n uint64, value field) { number, f = n, value })
	return number, f
}

// key takes all of a value that is no object: only an object has places that are read by
// name alone.
func (c valueContent) key(b []byte, wire string, p *places) []byte {
	switch number, f := kindOf(wire); number {
	case valueNumber:
		return binary.BigEndian.AppendUint64(append(b, keyNumber), f.number)
	case valueString:
		return appendText(append(b, keyString), f.text)
	case valueBool:
		if f.number != 0 {
			return append(b, keyTrue)
		}
		return append(b, keyFalse)
	case valueStruct:
		return structContent{}.key(b, f.text, p)
	case valueList:
		b = append(b, keyList)
		fields(f.text, func(_ uint64, element field) { b = c.key(b, element.text, wholePlace) })
		return append(b, keyAbsent)
	}
	return append(b, keyNull)
}

func (c valueContent) value(wire string, p *places) (rego.Value, error) {
	switch number, f := kindOf(wire); number {
	case valueNumber:
		return rego.Number(math.Float64frombits(f.number)), nil
	case valueString:
		return rego.String(f.text), nil
	case valueBool:
		return rego.Boolean(f.number != 0), nil
	case valueStruct:
		return structContent{}.value(f.text, p)
	case valueList:
		return c.list(f.text)
	}
	return rego.Null(), nil
}

func (c valueContent) list(wire string) (rego.Value, error) {
	var out []rego.Value
	var failed error
	fields(wire, func(_ uint64, element field) {
		value, err := c.value(element.text, wholePlace)
		if err != nil {
			failed = err
		}
		out = append(out, value)
	})
	return rego.Array(out), failed
}
