package aip

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// comparison checks what a field is compared with and returns the test of it.
func comparison(f protoreflect.FieldDescriptor, r restriction) (test, error) {
	if r.comparator == ":" {
		return has(f, r)
	}
	if f.IsList() {
		return nil, errorf("The field %q is repeated: ask with `:` whether it has a value.", strings.Join(r.path, "."))
	}
	value, err := valueTest(f, r)
	if err != nil {
		return nil, err
	}
	return func(m protoreflect.Message) truth {
		if f.HasPresence() && !m.Has(f) {
			return isUnknown
		}
		return truthOf(value(m.Get(f)))
	}, nil
}

// has is the test of `field:value`: that the field is there, or has the value.
func has(f protoreflect.FieldDescriptor, r restriction) (test, error) {
	if r.argument.text == "*" {
		return func(m protoreflect.Message) truth { return truthOf(m.Has(f)) }, nil
	}
	if f.Message() != nil && !isTime(f) {
		return nil, errorf("The field %q is a message: ask with `:*` whether it is there.", strings.Join(r.path, "."))
	}
	r.comparator = "="
	value, err := valueTest(f, r)
	if err != nil {
		return nil, err
	}
	return func(m protoreflect.Message) truth {
		if !f.IsList() {
			return truthOf(m.Has(f) && value(m.Get(f)))
		}
		list := m.Get(f).List()
		for i := range list.Len() {
			if value(list.Get(i)) {
				return isTrue
			}
		}
		return isFalse
	}, nil
}

// mapRestriction is a comparison with a map: `labels:key`, `labels.key = value`,
// `labels.key:value`.
func mapRestriction(steps []protoreflect.FieldDescriptor, key []string, r restriction) (predicate, error) {
	f := steps[len(steps)-1]
	if f.MapKey().Kind() != protoreflect.StringKind || f.MapValue().Kind() != protoreflect.StringKind || len(key) > 1 {
		return nil, errorf("The field %q cannot be compared.", strings.Join(r.path, "."))
	}
	if len(key) == 0 {
		return wholeMap(steps, r)
	}
	name := protoreflect.ValueOfString(key[0]).MapKey()
	if r.comparator == ":" {
		if r.argument.text == "*" {
			return walk(steps, func(m protoreflect.Message) truth { return truthOf(m.Get(f).Map().Has(name)) }), nil
		}
		r.comparator = "="
	}
	value, err := valueTest(f.MapValue(), r)
	return walk(steps, func(m protoreflect.Message) truth {
		if !m.Get(f).Map().Has(name) {
			return isUnknown
		}
		return truthOf(value(m.Get(f).Map().Get(name)))
	}), err
}

func wholeMap(steps []protoreflect.FieldDescriptor, r restriction) (predicate, error) {
	f := steps[len(steps)-1]
	if r.comparator != ":" {
		return nil, errorf("The field %q is a map: ask with `:` whether it has a key.", strings.Join(r.path, "."))
	}
	if r.argument.text == "*" {
		return walk(steps, func(m protoreflect.Message) truth { return truthOf(m.Has(f)) }), nil
	}
	name := protoreflect.ValueOfString(r.argument.text).MapKey()
	return walk(steps, func(m protoreflect.Message) truth { return truthOf(m.Get(f).Map().Has(name)) }), nil
}

// valueTest parses the argument as the field's type and returns the comparison
// with it.
func valueTest(f protoreflect.FieldDescriptor, r restriction) (func(protoreflect.Value) bool, error) {
	name, text := strings.Join(r.path, "."), r.argument.text
	if isTime(f) {
		return timeTest(f, r)
	}
	switch f.Kind() {
	case protoreflect.StringKind:
		return stringTest(r), nil
	case protoreflect.BoolKind:
		wanted, err := strconv.ParseBool(text)
		if err != nil || text != "true" && text != "false" {
			return nil, errorf("The field %q is compared with true or false.", name)
		}
		return equality(name, r, func(v protoreflect.Value) bool { return v.Bool() == wanted })
	case protoreflect.EnumKind:
		wanted := f.Enum().Values().ByName(protoreflect.Name(text))
		if wanted == nil {
			return nil, errorf("The field %q is compared with one of %s.", name, enumNames(f.Enum()))
		}
		return equality(name, r, func(v protoreflect.Value) bool { return v.Enum() == wanted.Number() })
	case protoreflect.MessageKind, protoreflect.GroupKind, protoreflect.BytesKind:
		return nil, errorf("The field %q cannot be compared. A message can be asked for with `:*`.", name)
	default:
		return numberTest(f, r)
	}
}

// equality allows = and != alone: enums and booleans have no order (AIP-160).
func equality(
	name string, r restriction, equal func(protoreflect.Value) bool,
) (func(protoreflect.Value) bool, error) {
	switch r.comparator {
	case "=":
		return equal, nil
	case "!=":
		return func(v protoreflect.Value) bool { return !equal(v) }, nil
	default:
		return nil, errorf("The field %q has no order; compare it with = or !=.", name)
	}
}

func enumNames(e protoreflect.EnumDescriptor) string {
	var names []string
	for i := range e.Values().Len() {
		names = append(names, string(e.Values().Get(i).Name()))
	}
	return strings.Join(names, ", ")
}

// stringTest compares texts; with = and != a `*` at either end of the argument
// stands for anything.
func stringTest(r restriction) func(protoreflect.Value) bool {
	text := r.argument.text
	if r.comparator == "=" || r.comparator == "!=" {
		wanted := r.comparator == "="
		return func(v protoreflect.Value) bool { return matchWildcards(text, v.String()) == wanted }
	}
	return func(v protoreflect.Value) bool { return ordered(r.comparator, cmp.Compare(v.String(), text)) }
}

func matchWildcards(pattern, text string) bool {
	middle, front := strings.CutPrefix(pattern, "*")
	middle, back := strings.CutSuffix(middle, "*")
	switch {
	case front && back:
		return strings.Contains(text, middle)
	case front:
		return strings.HasSuffix(text, middle)
	case back:
		return strings.HasPrefix(text, middle)
	default:
		return text == pattern
	}
}

// ordered turns the result of a three-way comparison into that of a comparator.
func ordered(comparator string, c int) bool {
	switch comparator {
	case "=":
		return c == 0
	case "!=":
		return c != 0
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	default:
		return c >= 0
	}
}

func numberTest(f protoreflect.FieldDescriptor, r restriction) (func(protoreflect.Value) bool, error) {
	wanted, err := strconv.ParseFloat(r.argument.text, 64)
	if err != nil {
		return nil, errorf("The field %q is compared with a number.", strings.Join(r.path, "."))
	}
	if exact, err := strconv.ParseInt(r.argument.text, 10, 64); err == nil && slices.Contains(signed, f.Kind()) {
		return func(v protoreflect.Value) bool { return ordered(r.comparator, cmp.Compare(v.Int(), exact)) }, nil
	}
	return func(v protoreflect.Value) bool { return ordered(r.comparator, cmp.Compare(float(f, v), wanted)) }, nil
}

var (
	signed = []protoreflect.Kind{
		protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Sint32Kind, protoreflect.Sint64Kind,
		protoreflect.Sfixed32Kind, protoreflect.Sfixed64Kind,
	}
	floating = []protoreflect.Kind{protoreflect.FloatKind, protoreflect.DoubleKind}
)

func float(f protoreflect.FieldDescriptor, v protoreflect.Value) float64 {
	switch {
	case slices.Contains(signed, f.Kind()):
		return float64(v.Int())
	case slices.Contains(floating, f.Kind()):
		return v.Float()
	default:
		return float64(v.Uint())
	}
}

// timeTest compares a timestamp with an RFC 3339 text, or a duration with seconds
// such as 20s.
func timeTest(f protoreflect.FieldDescriptor, r restriction) (func(protoreflect.Value) bool, error) {
	name := strings.Join(r.path, ".")
	var seconds, nanos int64
	if f.Message().Name() == "Timestamp" {
		t, err := time.Parse(time.RFC3339Nano, r.argument.text)
		if err != nil {
			return nil, errorf(`The field %q is compared with a time such as "2026-01-31T00:00:00Z", in quotes.`, name)
		}
		seconds, nanos = t.Unix(), int64(t.Nanosecond())
	} else {
		d, err := time.ParseDuration(r.argument.text)
		if err != nil {
			return nil, errorf("The field %q is compared with a duration such as 20s.", name)
		}
		seconds, nanos = int64(d/time.Second), int64(d%time.Second)
	}
	secondsField, nanosField := f.Message().Fields().ByName("seconds"), f.Message().Fields().ByName("nanos")
	return func(v protoreflect.Value) bool {
		m := v.Message()
		return ordered(r.comparator, cmp.Or(
			cmp.Compare(m.Get(secondsField).Int(), seconds), cmp.Compare(m.Get(nanosField).Int(), nanos)))
	}, nil
}
