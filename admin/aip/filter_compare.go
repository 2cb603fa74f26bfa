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
//
// AIP-160 defines what is not said in protobuf's terms: a field with presence that is unset makes
// the comparison unknown, so neither `field = "x"` nor `NOT field = "x"` matches; a field without
// presence has its zero value.
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
		// Without presence, unset and zero are the same message, so it is compared with the zero value.
		if f.HasPresence() && !m.Has(f) {
			return isUnknown
		}
		return truthOf(value(m.Get(f)))
	}, nil
}

// has is the test of `field:value`: that the field is there, or has the value.
//
// AIP-160 calls `:` the has operator. Of a repeated field it asks whether some element has the
// value. In contrast to a comparison it is never unknown: what is not there has no value.
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
		// Of a list one element is enough.
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
	// A key is compared as it is written: labels have no two spellings, as fields have.
	name := protoreflect.ValueOfString(key[0]).MapKey()
	if r.comparator == ":" {
		if r.argument.text == "*" {
			return walk(steps, func(m protoreflect.Message) truth { return truthOf(m.Get(f).Map().Has(name)) }), nil
		}
		r.comparator = "="
	}
	value, err := valueTest(f.MapValue(), r)
	return walk(steps, func(m protoreflect.Message) truth {
		// A key that is not there is like a field that is unset.
		if !m.Get(f).Map().Has(name) {
			return isUnknown
		}
		return truthOf(value(m.Get(f).Map().Get(name)))
	}), err
}

// wholeMap is a restriction of a map without a key: `labels:*` asks whether it has any, and
// `labels:team` whether it has that one.
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
	// Before the kind: a timestamp is a message, and the only kind of message that has an order.
	if isTime(f) {
		return timeTest(f, r)
	}
	switch f.Kind() {
	case protoreflect.StringKind:
		return stringTest(r), nil
	case protoreflect.BoolKind:
		wanted, err := strconv.ParseBool(text)
		// ParseBool also takes 1, t and TRUE, which AIP-160 does not.
		if err != nil || text != "true" && text != "false" {
			return nil, errorf("The field %q is compared with true or false.", name)
		}
		return equality(name, r, func(v protoreflect.Value) bool { return v.Bool() == wanted })
	case protoreflect.EnumKind:
		// By the name of the value alone. Its number is no part of the JSON that callers see.
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

// enumNames are the values of an enum, in their order, for an error.
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
		// AIP-160: wildcards belong to equality. With an order they would have no meaning, and `*` is a
		// character like others there.
		wanted := r.comparator == "="
		return func(v protoreflect.Value) bool { return matchWildcards(text, v.String()) == wanted }
	}
	return func(v protoreflect.Value) bool { return ordered(r.comparator, cmp.Compare(v.String(), text)) }
}

// matchWildcards compares a text with a pattern. A `*` between other characters is none, so that
// no pattern takes more than one pass over the text.
func matchWildcards(pattern, text string) bool {
	// "*" alone has nothing behind its front: it ends as a suffix that every text has.
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

// numberTest compares a number. An integer that is written as one is compared exactly: as float64,
// 9007199254740993 and 9007199254740992 would be the same. All else, such as 1.5 or 1e3, is
// compared as float64.
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
	// signed are the kinds that protoreflect returns as int64, floating those that it returns as
	// float64. All other numbers are uint64.
	signed = []protoreflect.Kind{
		protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Sint32Kind, protoreflect.Sint64Kind,
		protoreflect.Sfixed32Kind, protoreflect.Sfixed64Kind,
	}
	floating = []protoreflect.Kind{protoreflect.FloatKind, protoreflect.DoubleKind}
)

// float is the value of a numeric field, to the precision of float64.
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
	// Both types have the same two fields, and are compared by them: a time.Duration has 292 years at
	// most, and a Timestamp ten thousand.
	var seconds, nanos int64
	if f.Message().Name() == "Timestamp" {
		// Quotes are needed because of the colons, each of which would be an operator.
		t, err := time.Parse(time.RFC3339Nano, r.argument.text)
		if err != nil {
			return nil, errorf(`The field %q is compared with a time such as "2026-01-31T00:00:00Z", in quotes.`, name)
		}
		seconds, nanos = t.Unix(), int64(t.Nanosecond())
	} else {
		// AIP-160 wants seconds such as 20s. 1h30m is taken, too: it cannot be meant in another way.
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
