package input

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"understudy/rego"
)

// pairsPart is a place whose fields are the entries of a map, absent if it has none:
// headers, labels, context extensions. A Check keeps the entries in the order in which
// they came: a search through 20 headers is faster than making a map of them.
type pairsPart struct{ slot int }

func (p *pairsPart) of(c *Check) []pair { return c.pairs[p.slot] }

// read adds an entry. What is missing in it is empty.
func (p *pairsPart) read(c *Check, entry field) Fallback {
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
	c.pairs[p.slot] = append(c.pairs[p.slot], read)
	return none
}

// A plan has the names that the policy reads, so a header that no policy looks at
// neither costs anything nor is part of a key.
func (p *pairsPart) plan(reads *rego.Reads) []*plan {
	if reads.Whole() {
		return []*plan{{part: wholePairs{p}}}
	}
	var below []*plan
	for _, name := range reads.Names() {
		below = append(below, newPlanOf(name, entryPart{p, name}, reads.Child(name)))
	}
	return below
}

func (p *pairsPart) key(c *Check, b []byte) ([]byte, bool) {
	if len(p.of(c)) == 0 {
		return append(b, 0), false
	}
	return append(b, 1), true
}

func (p *pairsPart) value(c *Check, below []*plan) (rego.Value, error) {
	if len(p.of(c)) == 0 {
		return rego.Value{}, nil
	}
	if len(below) == 1 {
		if whole, ok := below[0].part.(wholePairs); ok {
			return whole.value(c, nil)
		}
	}
	return objectOf(c, below)
}

// The numbers of the fields in an entry of a map.
const (
	entryName  = 1
	entryValue = 2
)

// entryPart is one entry of a map.
type entryPart struct {
	pairs *pairsPart
	name  string
}

func (entryPart) plan(*rego.Reads) []*plan { return nil }

func (e entryPart) text(c *Check) (string, bool) { return lookup(e.pairs.of(c), e.name) }

func (e entryPart) key(c *Check, b []byte) ([]byte, bool) {
	value, ok := e.text(c)
	if !ok {
		return append(b, 0), false
	}
	return appendText(append(b, 1), value), false
}

func (e entryPart) value(c *Check, _ []*plan) (rego.Value, error) {
	value, ok := e.text(c)
	if !ok {
		return rego.Value{}, nil
	}
	return rego.String(value), nil
}

// wholePairs are all entries of a map. In the key they are sorted, for Envoy writes them
// in any order.
type wholePairs struct{ *pairsPart }

func (wholePairs) plan(*rego.Reads) []*plan { return nil }

func (w wholePairs) key(c *Check, b []byte) ([]byte, bool) {
	pairs := sorted(slices.Clone(w.of(c)))
	b = binary.AppendUvarint(b, uint64(len(pairs)))
	for _, p := range pairs {
		b = appendText(appendText(b, p.name), p.value)
	}
	return b, false
}

func (w wholePairs) value(c *Check, _ []*plan) (rego.Value, error) {
	object := rego.NewObject(len(w.of(c)))
	for _, p := range w.of(c) {
		object.Set(rego.NewName(p.name), rego.String(p.value))
	}
	return object.Value(), nil
}
