package input

import (
	"encoding/base64"
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/reflect/protoreflect"

	"understudy/rego"
)

// Keys and values of valid messages, or of as much of them as is read.

// key appends what stands for what is read of a message.
func (t *messageType) key(b []byte, wire string, p *plan) []byte {
	switch t.form {
	case structForm:
		return t.fields[structFields].entries(wire).key(b, p)
	case valueForm:
		return t.jsonKey(b, wire, p)
	case plainForm:
		return appendText(b, wire)
	}
	for i := range t.fields {
		f := &t.fields[i]
		if child := p.child(f.name); f.isMap && child != nil {
			if e := f.entries(wire); e.count() == 0 {
				b = append(b, 0)
			} else {
				b = e.key(append(b, 1), child)
			}
		}
	}
	return b
}

// value returns a message as the input document has it: an object of its populated fields,
// with their names in lowerCamelCase.
func (t *messageType) value(wire string, p *plan) rego.Value {
	switch t.form {
	case structForm:
		return t.fields[structFields].entries(wire).value(p)
	case valueForm:
		return t.jsonValue(wire, p)
	}
	object := rego.NewObject(len(t.fields))
	for i := range t.fields {
		f := &t.fields[i]
		if child := p.child(f.name); f.kind != 0 && child != nil {
			object.Set(f.field, f.in(wire, child))
		}
	}
	return object.Value()
}

// entries returns the entries of the map that the field is in a message.
func (f *messageField) entries(wire string) entries {
	return entries{of: f.message.fields[entryValue].message, wire: wire, number: f.number}
}

// in returns the value of the field in a message; absent if it is not populated.
func (f *messageField) in(wire string, p *plan) (out rego.Value) {
	if f.isMap {
		if e := f.entries(wire); e.count() > 0 {
			return e.value(p)
		}
		return rego.Value{}
	}
	if f.list {
		p = wholePlan
	}
	var list []rego.Value
	for number, occurrence := range fields(wire) {
		if number != f.number {
			continue
		}
		out = f.value(occurrence, p)
		if f.list {
			list = append(list, out)
		}
	}
	if list != nil {
		return rego.Array(list)
	}
	return out
}

// value returns the value of one occurrence; absent if it is zero and need not be there.
func (f *messageField) value(occurrence field, p *plan) rego.Value {
	switch f.kind {
	case protoreflect.MessageKind:
		return f.message.value(occurrence.text, p)
	case protoreflect.StringKind:
		if occurrence.text != "" || f.present {
			return rego.String(occurrence.text)
		}
	case protoreflect.BytesKind:
		if occurrence.text != "" || f.present {
			return rego.String(base64.StdEncoding.EncodeToString([]byte(occurrence.text)))
		}
	case protoreflect.BoolKind:
		if occurrence.number != 0 || f.present {
			return rego.Boolean(occurrence.number != 0)
		}
	default:
		if n := f.integer(occurrence.number); n != 0 || f.present {
			return rego.Integer(n)
		}
	}
	return rego.Value{}
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

// structFields is the number of the map in a Struct.
const structFields = 1

// The numbers of the fields in a Value, which begin a value in a key too. A list has none
// but values, and ends with a zero.
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
	for n, value := range fields(wire) {
		number, f = n, value
	}
	return number, f
}

// jsonKey takes all of a value that is no object: only an object has places that are read by
// name alone.
func (t *messageType) jsonKey(b []byte, wire string, p *plan) []byte {
	number, f := kindOf(wire)
	b = append(b, byte(number))
	switch number {
	case valueNumber, valueBool:
		return binary.BigEndian.AppendUint64(b, f.number)
	case valueString:
		return appendText(b, f.text)
	case valueStruct:
		return t.fields[valueStruct].message.key(b, f.text, p)
	case valueList:
		for _, element := range fields(f.text) {
			b = t.jsonKey(b, element.text, wholePlan)
		}
		return append(b, 0)
	}
	return b
}

func (t *messageType) jsonValue(wire string, p *plan) rego.Value {
	switch number, f := kindOf(wire); number {
	case valueNumber:
		return rego.Number(math.Float64frombits(f.number))
	case valueString:
		return rego.String(f.text)
	case valueBool:
		return rego.Boolean(f.number != 0)
	case valueStruct:
		return t.fields[valueStruct].message.value(f.text, p)
	case valueList:
		var list []rego.Value
		for _, element := range fields(f.text) {
			list = append(list, t.jsonValue(element.text, wholePlan))
		}
		return rego.Array(list)
	}
	return rego.Null()
}
