package checktest

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"mime/multipart"
	"net/url"
	"strconv"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// Badness says which part of a request does not parse. The parts fail at different
// times: a path is refused for every policy, a body only for one that reads it.
type Badness int

const (
	// Parses says that all of it does.
	Parses Badness = iota
	// BadTarget is the path or the query. It is refused before any policy is asked.
	BadTarget
	// BadLength is what says how long the body is, or what it is. It fails for a policy
	// that reads truncated_body too, since that needs the headers.
	BadLength
	// BadBody is the body itself. It fails for a policy that reads parsed_body alone.
	BadBody
)

// Document reads the specification; false means that the request does not
// parse.
func Document(t *testing.T, request *authv3.CheckRequest) (any, bool) {
	document, bad := Read(t, request)
	return document, bad == Parses
}

// Read reads the specification, and says what does not parse. The document lacks what
// does not parse. It is slow and plain on purpose: anyone who doubts a test should be able
// to check it against envoy/opa-envoy-plugin.md line by line.
func Read(t *testing.T, request *authv3.CheckRequest) (any, Badness) {
	out := plainMessage(request.ProtoReflect()).(map[string]any)
	http := request.GetAttributes().GetRequest().GetHttp()
	headers := Headers(http)
	// A client of ext_authz other than Envoy may send the request line only as
	// pseudo-headers.
	target := http.GetPath()
	if target == "" {
		target = headers[":path"]
	}
	path, query, _ := strings.Cut(target, "?")
	decoded, ok := plainUnescape(path)
	if !ok {
		return nil, BadTarget
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, BadTarget
	}
	var segments []any
	for _, s := range strings.Split(strings.TrimLeft(decoded, "/"), "/") {
		segments = append(segments, s)
	}
	// The path is decoded first and split then: an escaped slash separates segments, as
	// in opa-envoy-plugin.
	body, truncated, bad := plainBody(t, http, headers, segments)
	out["version"] = map[string]any{"ext_authz": "v3", "encoding": "protojson"}
	out["parsed_path"], out["parsed_query"] = segments, plainValues(values)
	if bad != BadLength {
		out["truncated_body"] = truncated
	}
	if bad == Parses {
		out["parsed_body"] = body
	}
	// The principal is there twice: policies should find it without knowing Envoy's
	// messages.
	if p := request.GetAttributes().GetSource().GetPrincipal(); p != "" {
		out["source_principal"] = p
	}
	return out, bad
}

// plainMessage turns a message into JSON: names in lowerCamelCase, populated fields
// only. It goes by reflection over the descriptors, so a new field of Envoy's is in it
// without a change here.
func plainMessage(m protoreflect.Message) any {
	if s, ok := m.Interface().(*structpb.Struct); ok {
		return plainStruct(s)
	}
	out := map[string]any{}
	m.Range(func(fd protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			entries := map[string]any{}
			value.Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
				entries[key.String()] = plainValue(fd.MapValue(), value)
				return true
			})
			out[fd.JSONName()] = entries
		case fd.IsList():
			list := []any{}
			for i := range value.List().Len() {
				list = append(list, plainValue(fd, value.List().Get(i)))
			}
			out[fd.JSONName()] = list
		default:
			out[fd.JSONName()] = plainValue(fd, value)
		}
		return true
	})
	return out
}

// plainValue has 64-bit integers as numbers and enums as numbers, unlike protojson.
func plainValue(fd protoreflect.FieldDescriptor, value protoreflect.Value) any {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		return plainMessage(value.Message())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(value.Bytes())
	case protoreflect.EnumKind:
		return json.Number(strconv.Itoa(int(value.Enum())))
	case protoreflect.StringKind, protoreflect.BoolKind:
		return value.Interface()
	}
	return json.Number(fmt.Sprint(value.Interface()))
}

// plainStruct is plain JSON; a value that is not set is null. Protojson does the same,
// but this must not be the code that is tested.
func plainStruct(s *structpb.Struct) any {
	out := map[string]any{}
	for name, value := range s.GetFields() {
		out[name] = plainStructValue(value)
	}
	return out
}

func plainStructValue(value *structpb.Value) any {
	switch v := value.GetKind().(type) {
	case *structpb.Value_StructValue:
		return plainStruct(v.StructValue)
	case *structpb.Value_ListValue:
		list := []any{}
		for _, element := range v.ListValue.GetValues() {
			list = append(list, plainStructValue(element))
		}
		return list
	case *structpb.Value_NumberValue:
		// JSON has no words for these; protojson's are strings.
		switch n := v.NumberValue; {
		case math.IsNaN(n):
			return "NaN"
		case math.IsInf(n, 1):
			return "Infinity"
		case math.IsInf(n, -1):
			return "-Infinity"
		}
		// Doubles are written as JSON has them: 1, not 1e+00.
		text, _ := json.Marshal(v.NumberValue)
		return json.Number(text)
	case *structpb.Value_StringValue:
		return v.StringValue
	case *structpb.Value_BoolValue:
		return v.BoolValue
	}
	return nil
}

// Headers returns the headers by their names in lower case: of several, the first. The
// map of plain headers wins over the list of raw ones where a request has both, which
// Envoy never sends.
func Headers(http *authv3.AttributeContext_HttpRequest) map[string]string {
	out := map[string]string{}
	for _, h := range http.GetHeaderMap().GetHeaders() {
		name := strings.ToLower(h.GetKey())
		if _, ok := out[name]; !ok {
			out[name] = h.GetValue() + string(h.GetRawValue())
			if len(h.GetRawValue()) > 0 {
				out[name] = string(h.GetRawValue())
			}
		}
	}
	for name, value := range http.GetHeaders() {
		out[name] = value
	}
	return out
}

// plainUnescape replaces each percent sign and two digits by their byte. A plus sign
// stays: it is a space in a query only.
func plainUnescape(text string) (string, bool) {
	var out []byte
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			out = append(out, text[i])
			continue
		}
		if i+2 >= len(text) {
			return "", false
		}
		c, err := strconv.ParseUint(text[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		out, i = append(out, byte(c)), i+2
	}
	return string(out), true
}

// plainValues is the document of a form or a query: each name with the list of its
// values.
func plainValues(values url.Values) any {
	out := map[string]any{}
	for name, list := range values {
		var texts []any
		for _, text := range list {
			texts = append(texts, text)
		}
		out[name] = texts
	}
	return out
}

// HasKeyTwice reads valid JSON token by token, and reports whether an object in it has a key twice.
func HasKeyTwice(text string) bool { return keyTwice(json.NewDecoder(strings.NewReader(text))) }

func keyTwice(decoder *json.Decoder) (twice bool) {
	decoder.UseNumber()
	begin, _ := decoder.Token()
	if begin != json.Delim('{') && begin != json.Delim('[') {
		return false
	}
	keys := make(map[json.Token]bool)
	for decoder.More() {
		if begin == json.Delim('{') {
			key, _ := decoder.Token()
			twice = twice || keys[key]
			keys[key] = true
		}
		twice = keyTwice(decoder) || twice
	}
	_, _ = decoder.Token()
	return twice
}

// plainJSON refuses what follows the first value, by json.Valid, and objects that have a key twice, and keeps
// numbers as written.
func plainJSON(text string) (any, bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var out any
	return out, decoder.Decode(&out) == nil && !HasKeyTwice(text)
}

// plainBody reads the rules for a body in the order of the specification. The order is
// part of it: a body that Envoy has cut off is truncated whatever its type is, and a
// wrong content-length matters only for a type that is read.
func plainBody(
	t *testing.T, http *authv3.AttributeContext_HttpRequest, headers map[string]string, path []any,
) (value any, truncated bool, bad Badness) {
	if strings.ToLower(headers["x-envoy-auth-partial-body"]) == "true" {
		return nil, true, Parses
	}
	contentType := headers["content-type"]
	kind := plainKind(contentType)
	body := cmp.Or(http.GetBody(), string(http.GetRawBody()))
	if body != "" && twoTypes(contentType) {
		return nil, false, BadLength
	}
	if kind == "application/grpc" && body != "" {
		return plainGRPC(t, string(http.GetRawBody()), path)
	}
	if kind == "" || body == "" {
		return nil, false, Parses
	}
	// A body shorter than announced was cut off on its way. One that is longer is read
	// as it is.
	if length, set := headers["content-length"]; set {
		n, err := strconv.Atoi(length)
		if err != nil {
			return nil, false, BadLength
		}
		if n > len(body) {
			return nil, true, Parses
		}
	}
	value, ok := plainParsed(kind, contentType, body)
	if !ok {
		return nil, false, BadBody
	}
	return value, false, Parses
}

// plainKind is the type of a body. It may stand anywhere in the header, in any case; the first
// of this list that does is it.
func plainKind(contentType string) string {
	for _, kind := range []string{"application/json", "application/grpc", "application/x-www-form-urlencoded", "multipart/form-data"} {
		if strings.Contains(strings.ToLower(contentType), kind) {
			return kind
		}
	}
	return ""
}

// twoTypes reports whether a header has two different types, of which the upstream may read the
// other one. Two equal ones do no harm.
func twoTypes(contentType string) bool {
	first, rest, several := strings.Cut(strings.ToLower(contentType), ",")
	return several && strings.TrimSpace(first) != strings.TrimSpace(rest)
}

// plainParsed parses a body by its type.
func plainParsed(kind, contentType, body string) (any, bool) {
	switch kind {
	case "application/json":
		return plainJSON(body)
	case "application/x-www-form-urlencoded":
		values, err := url.ParseQuery(body)
		return plainValues(values), err == nil
	default:
		return plainMultipart(contentType, body)
	}
}

// plainMultipart reads a form by the standard library, which is enough for text parts.
func plainMultipart(contentType, body string) (any, bool) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, false
	}
	if parameters["boundary"] == "" {
		return nil, true
	}
	form, err := multipart.NewReader(strings.NewReader(body), parameters["boundary"]).ReadForm(1 << 20)
	if err != nil {
		return nil, false
	}
	return plainValues(form.Value), true
}

// plainGRPC knows one method, Check of the health service: enough to reach each rule
// for frames.
func plainGRPC(t *testing.T, body string, path []any) (value any, truncated bool, bad Badness) {
	known := len(path) == 2 && path[0] == "grpc.health.v1.Health" && path[1] == "Check"
	switch {
	case len(path) != 2:
		return nil, false, BadLength
	case body == "": // it was sent as text
		return nil, known, Parses
	case len(body) < 5:
		return nil, false, BadLength
	case body[0] != 0: // it is compressed
		return nil, known, Parses
	}
	length, err := strconv.ParseUint(fmt.Sprintf("%x", body[1:5]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if int(length) > len(body)-5 {
		return nil, true, Parses
	}
	if !known {
		return nil, false, Parses
	}
	message := &healthpb.HealthCheckRequest{}
	if proto.Unmarshal([]byte(body[5:5+length]), message) != nil {
		return nil, false, BadBody
	}
	out := map[string]any{}
	if message.Service != "" {
		out["service"] = message.Service
	}
	return out, false, Parses
}
