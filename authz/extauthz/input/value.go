package input

import (
	"encoding/base64"
	"math"

	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/rego"
)

// Values of valid messages, or of as much of them as is at and below a path of names.

// structFields is the number of the map in a Struct, and valueNull that of null in a Value.
const (
	structFields = 1
	valueNull    = 1
)

// oneof returns the one field of a Value; null if it has none. The last that is written
// counts.
func oneof(wire string) (number uint64, content field) {
	number = valueNull
	for n, f := range fields(wire) {
		number, content = n, f
	}
	return number, content
}

// value returns a message as the input document has it: an object of its populated fields,
// with their names in lowerCamelCase.
func (t *messageType) value(wire string, only []string) rego.Value {
	switch t.form {
	case structForm:
		return t.fields[structFields].entries(wire).value(only)
	case valueForm:
		if number, content := oneof(wire); number != valueNull {
			return t.fields[number].value(content, only)
		}
		return rego.Null()
	case listForm:
		var list []rego.Value
		for number, element := range fields(wire) {
			list = append(list, t.fields[number].value(element, nil))
		}
		return rego.Array(list)
	}
	object := rego.NewObject(len(t.fields))
	for _, f := range t.fields {
		if f != nil && (len(only) == 0 || only[0] == f.JSONName()) {
			object.Set(f.name, f.in(wire, only[min(1, len(only)):]))
		}
	}
	return object.Value()
}

// entries returns the entries of the map that the field is in a message.
func (f *messageField) entries(wire string) entries {
	return entries{of: f.message.fields[entryValue].message, wire: wire, number: uint64(f.Number())}
}

// in returns the value of the field in a message; absent if it is not populated.
func (f *messageField) in(wire string, only []string) (out rego.Value) {
	if f.IsMap() {
		if e := f.entries(wire); e.count() > 0 {
			return e.value(only)
		}
		return rego.Value{}
	}
	var list []rego.Value
	for number, content := range fields(wire) {
		if number != uint64(f.Number()) {
			continue
		}
		out = f.value(content, only)
		if f.IsList() {
			list = append(list, out)
		}
	}
	if list != nil {
		return rego.Array(list)
	}
	return out
}

// value returns the value of one occurrence; absent if it is zero and need not be there.
func (f *messageField) value(content field, only []string) rego.Value {
	number := f.integer(content.number)
	switch {
	case f.kind == protoreflect.MessageKind:
		return f.message.value(content.text, only)
	case number == 0 && content.text == "" && !f.HasPresence():
		return rego.Value{}
	}
	switch f.kind {
	case protoreflect.StringKind:
		return rego.String(content.text)
	case protoreflect.BytesKind:
		return rego.String(base64.StdEncoding.EncodeToString([]byte(content.text)))
	case protoreflect.BoolKind:
		return rego.Boolean(number != 0)
	case protoreflect.DoubleKind:
		return rego.Number(math.Float64frombits(content.number))
	}
	return rego.Integer(number)
}

// integer returns a varint as the field's type cuts it off. An enum is its number.
func (f *messageField) integer(varint uint64) int64 {
	switch f.kind {
	case protoreflect.Int32Kind, protoreflect.EnumKind:
		return int64(int32(varint))
	case protoreflect.Uint32Kind:
		return int64(uint32(varint))
	}
	return int64(varint)
}
