package checktest

import (
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Shuffled returns a message with the entries of all its maps in another order, as
// Envoy writes them with nearly every message. Entries of one name keep theirs, for the
// last of them counts. Equal messages in two orders must have one key in the decision
// cache: that is what it is for.
//
// It works on the wire, by the descriptor d, since a decoded map has no order that
// could be changed.
func Shuffled(t testing.TB, r *rand.Rand, wire []byte, d protoreflect.MessageDescriptor) []byte {
	t.Helper()
	var parts []part
	order := make(map[string]uint64)
	for len(wire) > 0 {
		number, kind, head := protowire.ConsumeTag(wire)
		n := protowire.ConsumeFieldValue(number, kind, wire[max(head, 0):])
		if head < 0 || n < 0 {
			t.Fatal("a broken message is Shuffled")
		}
		p := part{content: wire[:head+n]}
		f := d.Fields().ByNumber(number)
		if f != nil && f.Message() != nil && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(wire[head:])
			inner := Shuffled(t, r, value, f.Message())
			p.content = protowire.AppendBytes(protowire.AppendTag(nil, number, kind), inner)
			if p.entry = f.IsMap(); p.entry {
				name := string(wire[:head]) + nameOfEntry(value)
				if _, ok := order[name]; !ok {
					order[name] = r.Uint64()
				}
				p.order = order[name]
			}
		}
		parts = append(parts, p)
		wire = wire[head+n:]
	}
	return joined(parts)
}

// part is a field of a message, as it is on the wire.
type part struct {
	content []byte
	// entry says that it is one of a map, and order where it goes among all of them.
	entry bool
	order uint64
}

// joined puts the entries into their order, in each other's places; all other fields stay where
// they are.
func joined(parts []part) []byte {
	var entries []part
	for _, p := range parts {
		if p.entry {
			entries = append(entries, p)
		}
	}
	slices.SortStableFunc(entries, func(a, b part) int {
		if a.order < b.order {
			return -1
		}
		return int(min(1, a.order-b.order))
	})
	var out []byte
	for _, p := range parts {
		if p.entry {
			p, entries = entries[0], entries[1:]
		}
		out = append(out, p.content...)
	}
	return out
}

// nameOfEntry returns the name of a map's entry: its last, if it has several, as
// decoders have it.
func nameOfEntry(entry []byte) (name string) {
	for len(entry) > 0 {
		number, kind, head := protowire.ConsumeTag(entry)
		n := protowire.ConsumeFieldValue(number, kind, entry[head:])
		if number == 1 && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(entry[head:])
			name = string(value)
		}
		entry = entry[head+n:]
	}
	return name
}
