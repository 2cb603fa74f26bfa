package aip

import (
	"cmp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Order is a parsed order_by. Ties are broken by the resource's name, so that it
// is always total. The zero Order is by name alone.
//
// That it is total is what page tokens rest on: an item has one position in a list.
type Order struct{ keys []orderKey }

// orderKey is one field of an order, by its path.
type orderKey struct {
	path       []protoreflect.FieldDescriptor
	descending bool
}

// ParseOrder parses an order: fields, each with an optional `desc`, between commas
// (AIP-132). The error is an *Error.
func ParseOrder(text string, m protoreflect.MessageDescriptor) (Order, error) {
	if strings.TrimSpace(text) == "" {
		return Order{}, nil
	}
	var order Order
	for _, part := range strings.Split(text, ",") {
		words := strings.Fields(part)
		if len(words) == 0 || len(words) > 2 {
			return Order{}, errorf("Each part between commas is a field, with `desc` behind it to reverse the order.")
		}
		// AIP-132 has `desc` alone; `asc` is what many write for the default.
		if len(words) == 2 && words[1] != "desc" && words[1] != "asc" {
			return Order{}, errorf("%q stands where only `desc` may.", words[1])
		}
		path, err := orderPath(words[0], m)
		if err != nil {
			return Order{}, err
		}
		order.keys = append(order.keys, orderKey{path, len(words) == 2 && words[1] == "desc"})
	}
	return order, nil
}

// orderPath finds the fields of a path, the last of which can be compared.
func orderPath(text string, m protoreflect.MessageDescriptor) ([]protoreflect.FieldDescriptor, error) {
	var path []protoreflect.FieldDescriptor
	for _, name := range strings.Split(text, ".") {
		var f protoreflect.FieldDescriptor
		if m != nil {
			f = fieldNamed(m, name)
		}
		if f == nil {
			return nil, errorf("There is no field %q to order by.", text)
		}
		path = append(path, f)
		// Of a message the path goes on in its fields; of a time it ends.
		m = f.Message()
		if isTime(f) {
			m = nil
		}
	}
	if last := path[len(path)-1]; last.IsList() || last.IsMap() || last.Message() != nil && !isTime(last) {
		return nil, errorf("The field %q has no order.", text)
	}
	return path, nil
}

// isTime reports whether a field is a timestamp or a duration.
func isTime(f protoreflect.FieldDescriptor) bool {
	if f.Message() == nil {
		return false
	}
	name := f.Message().FullName()
	return name == "google.protobuf.Timestamp" || name == "google.protobuf.Duration"
}

// Sort sorts messages of the descriptor that the order was parsed for.
func Sort[M proto.Message](messages []M, order Order) {
	slices.SortFunc(messages, func(a, b M) int { return order.compare(a, b) })
}

// compare is negative if a comes first. It is 0 of the same resource alone: names are unique.
func (o Order) compare(a, b proto.Message) int {
	for _, k := range o.keys {
		c := compareAt(k.path, a.ProtoReflect(), b.ProtoReflect())
		if k.descending {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return cmp.Compare(nameOf(a), nameOf(b))
}

// compareAt compares two messages at a path. Unset is before everything.
func compareAt(path []protoreflect.FieldDescriptor, a, b protoreflect.Message) int {
	f := path[0]
	// AIP-132 says nothing about fields that are unset; to have them first is what databases do.
	if f.HasPresence() && (!a.Has(f) || !b.Has(f)) {
		return compareBool(a.Has(f), b.Has(f))
	}
	if len(path) > 1 {
		return compareAt(path[1:], a.Get(f).Message(), b.Get(f).Message())
	}
	return compareValues(f, a.Get(f), b.Get(f))
}

// compareValues compares two values of a field that is set in both, or has no presence.
func compareValues(f protoreflect.FieldDescriptor, a, b protoreflect.Value) int {
	if isTime(f) {
		return compareTimes(a.Message(), b.Message())
	}
	switch f.Kind() {
	case protoreflect.BoolKind:
		return compareBool(a.Bool(), b.Bool())
	// In the order of their numbers, which is the order of the proto.
	case protoreflect.EnumKind:
		return cmp.Compare(a.Enum(), b.Enum())
	case protoreflect.StringKind:
		return cmp.Compare(a.String(), b.String())
	case protoreflect.BytesKind:
		return cmp.Compare(string(a.Bytes()), string(b.Bytes()))
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return cmp.Compare(a.Float(), b.Float())
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind, protoreflect.Fixed32Kind, protoreflect.Fixed64Kind:
		return cmp.Compare(a.Uint(), b.Uint())
	default:
		return cmp.Compare(a.Int(), b.Int())
	}
}

// compareTimes compares two Timestamps or two Durations by seconds and nanos.
func compareTimes(a, b protoreflect.Message) int {
	seconds, nanos := a.Descriptor().Fields().ByName("seconds"), a.Descriptor().Fields().ByName("nanos")
	return cmp.Or(
		cmp.Compare(a.Get(seconds).Int(), b.Get(seconds).Int()),
		cmp.Compare(a.Get(nanos).Int(), b.Get(nanos).Int()),
	)
}

// compareBool has false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// nameOf returns the resource name of a message (AIP-122).
func nameOf(m proto.Message) string {
	r := m.ProtoReflect()
	if f := r.Descriptor().Fields().ByName("name"); f != nil {
		return r.Get(f).String()
	}
	return ""
}
