package rest

import (
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
		return carried{invalidParameter(err)}
	}
	return nil
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
