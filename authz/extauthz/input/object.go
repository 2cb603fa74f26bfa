package input

import (
	"fmt"
	"maps"

	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/rego"
)

// objectPart is a place with fields of fixed names: a message of Envoy's that is read field
// by field, absent if the request has none.
type objectPart struct {
	bit uint32
	// members :: name → the part.
	members map[string]member
	// byNumber :: number of a field of the message → its part.
	byNumber []fieldPart
}

// member is a part with its name as that of an object's field.
type member struct {
	name rego.Name
	part
}

// set puts a part at a name.
func (o *objectPart) set(name string, p part) { o.members[name] = member{rego.NewName(name), p} }

// fieldPart is a place that is a field of one of Envoy's messages.
type fieldPart interface {
	part
	// read takes the field from the wire. It says why it cannot.
	read(c *Check, f field) Fallback
}

// How much a Check has room for. Each field takes a slot of its kind; one too many is a
// panic when the program starts.
const (
	maxTexts    = 24
	maxIntegers = 1
	maxMaps     = 4
	maxMessages = 32 // bits
)

// slots are how many slots of each kind the fields made so far take. It changes only while
// the document is made, when the program starts.
var slots struct{ texts, integers, maps, messages int }

// slot takes the next slot of a kind.
func slot(taken *int, limit int) int {
	if *taken == limit {
		panic(fmt.Sprintf("the input document has more fields of a kind than the %d that a Check has room for", limit))
	}
	*taken++
	return *taken - 1
}

// newObject returns the part of a message, with a part for each of its fields.
func newObject(message protoreflect.MessageDescriptor) *objectPart {
	o := &objectPart{bit: 1 << slot(&slots.messages, maxMessages), members: make(map[string]member)}
	for i := range message.Fields().Len() {
		f := message.Fields().Get(i)
		for len(o.byNumber) <= int(f.Number()) {
			o.byNumber = append(o.byNumber, nil)
		}
		o.byNumber[f.Number()] = newField(f)
		o.set(f.JSONName(), o.byNumber[f.Number()])
	}
	return o
}

// newField returns the part of a field. Messages of Envoy's authorization API are read
// field by field; those of other APIs, such as addresses and metadata, are kept as they are on
// the wire. A field of a kind that has no rule is a panic when the program starts: Envoy has
// something new.
func newField(f protoreflect.FieldDescriptor) fieldPart {
	switch kind := f.Kind(); {
	case f.IsMap() && f.MapKey().Kind() == protoreflect.StringKind && f.MapValue().Kind() == protoreflect.StringKind:
		return &mapPart{slot: slot(&slots.maps, maxMaps)}
	case f.IsList() || f.IsMap():
	case kind == protoreflect.MessageKind && f.Message().ParentFile().Package() == f.ParentFile().Package():
		return newObject(f.Message())
	case kind == protoreflect.Int64Kind:
		return &leafPart{messageField: newMessageField(f), slot: slot(&slots.integers, maxIntegers)}
	case kind == protoreflect.StringKind:
		return &textPart{leafPart{messageField: newMessageField(f), slot: slot(&slots.texts, maxTexts)}}
	case kind == protoreflect.BytesKind:
		return &leafPart{messageField: newMessageField(f), slot: slot(&slots.texts, maxTexts)}
	case kind == protoreflect.MessageKind:
		return &leafPart{messageField: newMessageField(f), slot: slot(&slots.texts, maxTexts), bit: 1 << slot(&slots.messages, maxMessages)}
	}
	panic(fmt.Sprintf("the field %s is of a kind that the input document has no rule for", f.FullName()))
}

// find returns the part at a path below an object, which has to be there: it is called when
// the program starts, and a wrong name is a panic then.
func find[T part](o *objectPart, names ...string) T {
	if len(names) > 1 {
		o = find[*objectPart](o, names[:len(names)-1]...)
	}
	return o.members[names[len(names)-1]].part.(T)
}

func (o *objectPart) read(c *Check, f field) Fallback {
	if f.wireType != wireBytes {
		return FallbackWire
	}
	return o.readMessage(c, f.text)
}

// readMessage reads a message as often as it occurs: occurrences are merged, and of a
// field the last one counts (protocol buffers, "last one wins"). A field that is not known
// is left to the full decode.
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

func (o *objectPart) value(c *Check, _ []string) (rego.Value, error) {
	if c.present&o.bit == 0 {
		return rego.Value{}, nil
	}
	object := rego.NewObject(len(o.members))
	for _, m := range o.members {
		value, err := m.value(c, nil)
		if err != nil {
			return rego.Value{}, err
		}
		object.Set(m.name, value)
	}
	return object.Value(), nil
}

// without returns the object without some of its members.
func (o *objectPart) without(names ...string) *objectPart {
	out := *o
	out.members = maps.Clone(o.members)
	for _, name := range names {
		delete(out.members, name)
	}
	return &out
}
