package rest

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// queryParser reads query parameters as the gateway does, but refuses those that
// it would ignore: a mistyped validate_only must not change anything.
type queryParser struct{}

// Parse implements runtime.QueryParameterParser. bound holds the fields that the
// path or the body has.
func (queryParser) Parse(m proto.Message, values url.Values, bound *utilities.DoubleArray) error {
	spellings := make(map[string]string) // :: path of a field → how the query spells it
	for _, name := range slices.Sorted(maps.Keys(values)) {
		path, field := resolveParameter(m.ProtoReflect().Descriptor(), name)
		if field == nil || bound.HasCommonPrefix(path) {
			return carried{unknownParameter(name)}
		}
		if len(values[name]) > 1 && !field.IsList() && !isMask(field) {
			return carried{repeatedParameter(name)}
		}
		key := strings.Join(path, ".")
		if other, twice := spellings[key]; twice {
			return carried{twiceSpelled(name, other)}
		}
		spellings[key] = name
		if isMask(field) && !slices.ContainsFunc(values[name], func(v string) bool { return v != "" }) {
			// A client in whose message the mask is there but empty writes it like this; it
			// means the same as none (AIP-134).
			delete(values, name)
		}
	}
	if err := (&runtime.DefaultQueryParser{}).Parse(m, values, bound); err != nil {
		return carried{malformedParameter(m, values, err)}
	}
	return nil
}

// malformedParameter finds the parameter of which the gateway could not read the value: its
// error does not always name one.
func malformedParameter(m proto.Message, values url.Values, cause error) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		alone, none := url.Values{name: values[name]}, utilities.NewDoubleArray(nil)
		if (&runtime.DefaultQueryParser{}).Parse(m.ProtoReflect().New().Interface(), alone, none) == nil {
			continue
		}
		if _, field := resolveParameter(m.ProtoReflect().Descriptor(), name); field != nil {
			return malformedValue(name, formOf(field))
		}
	}
	return invalidParameter(cause)
}

// formOf says what a parameter for a field looks like; empty if nothing short does.
func formOf(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return "It is true or false."
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return "It is a whole number, such as 10000."
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return "It is a number, such as 0.001."
	case protoreflect.EnumKind:
		var names []string
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return "It is one of " + strings.Join(names, ", ") + "."
	case protoreflect.MessageKind:
		return formOfMessage(f)
	default:
		return ""
	}
}

// formOfMessage is formOf of a field that has fields itself.
func formOfMessage(f protoreflect.FieldDescriptor) string {
	switch name := f.Message().FullName(); {
	case name == "google.protobuf.Duration":
		return "It is a duration, such as 3600s."
	case name.Parent() == "google.protobuf" || f.Message().Fields().Len() == 0:
		return ""
	}
	return fmt.Sprintf("It has fields: write each as a parameter, such as %s.%s.", f.JSONName(), f.Message().Fields().Get(0).JSONName())
}

// isMask reports whether a field is an update mask, whose parameter may be repeated and
// may be empty.
func isMask(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && f.Message().FullName() == "google.protobuf.FieldMask"
}

// resolveParameter returns the field that a parameter names, in snake_case or
// lowerCamelCase, and its path.
func resolveParameter(m protoreflect.MessageDescriptor, name string) ([]string, protoreflect.FieldDescriptor) {
	var path []string
	var field protoreflect.FieldDescriptor
	for _, part := range strings.Split(name, ".") {
		if m == nil {
			return nil, nil
		}
		if field = m.Fields().ByJSONName(part); field == nil {
			field = m.Fields().ByName(protoreflect.Name(part))
		}
		if field == nil || field.IsMap() {
			return nil, nil
		}
		path, m = append(path, string(field.Name())), field.Message()
	}
	return path, field
}
