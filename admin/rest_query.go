package admin

import (
	"maps"
	"net/http"
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
	for name, given := range values {
		path, field := resolveParameter(m.ProtoReflect().Descriptor(), name)
		if field == nil || bound.HasCommonPrefix(path) {
			return carried{unknownParameter(name)}
		}
		if len(given) > 1 && !field.IsList() && !isMask(field) {
			return carried{repeatedParameter(name)}
		}
	}
	if err := (&runtime.DefaultQueryParser{}).Parse(m, values, bound); err != nil {
		return carried{invalidParameter(err)}
	}
	return nil
}

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

// checkQuery refuses the parameters of calls that take none. The parser does not
// see them: the gateway asks it for the other calls only.
func checkQuery(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names := slices.Sorted(maps.Keys(r.URL.Query()))
		if len(names) > 0 && apiRoutes.withoutQuery(r.Method, r.URL.EscapedPath()) {
			writeStatus(w, http.StatusBadRequest, unknownParameter(names[0]))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// routes are the methods and path templates of the API, for the Allow header and
// for what has no parameters.
type routes []route

type route struct {
	method   string
	segments []string
	verb     string
	// query says that the call takes query parameters: its path and body do not
	// have all fields of the request.
	query bool
}

// withoutQuery reports whether a path is one that takes no query parameters.
func (r routes) withoutQuery(method, path string) bool {
	segments, verb := splitVerb(strings.Split(strings.Trim(path, "/"), "/"))
	for _, route := range r {
		if route.method == method && route.verb == verb && matchSegments(route.segments, segments) {
			return !route.query
		}
	}
	return false
}

// allowed returns the methods that a path has, sorted.
func (r routes) allowed(path string) []string {
	var out []string
	segments, verb := splitVerb(strings.Split(strings.Trim(path, "/"), "/"))
	for _, route := range r {
		if route.verb == verb && matchSegments(route.segments, segments) && !slices.Contains(out, route.method) {
			out = append(out, route.method)
		}
	}
	slices.Sort(out)
	return out
}

func splitVerb(segments []string) ([]string, string) {
	last := len(segments) - 1
	stem, verb, _ := strings.Cut(segments[last], ":")
	return append(slices.Clone(segments[:last]), stem), verb
}

func matchSegments(pattern, segments []string) bool {
	return slices.EqualFunc(pattern, segments, func(p, s string) bool { return p == s || p == "*" && s != "" })
}
