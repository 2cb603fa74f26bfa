package extauthz_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
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

// TestDifferential compares the input document with a plain reading of its
// specification, which goes through descriptors, for random requests. The plain
// reading has the fields that Envoy's protos have: a new one shows here.
func TestDifferential(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		request := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{}}
		fill(r, request.Attributes.ProtoReflect(), 0)
		plausible(r, request.Attributes)
		got, err := document(t, request)
		want, ok := plainDocument(t, request)
		if (err == nil) != ok {
			t.Fatalf("seed %d: error %v, the plain reading parses: %v\n%v", seed, err, ok, request.GetAttributes().GetRequest())
		}
		if err != nil {
			continue
		}
		if diff := difference(want, got); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// fill populates about half of the fields of a message.
func fill(r *rand.Rand, m protoreflect.Message, depth int) {
	descriptors := m.Descriptor().Fields()
	for i := range descriptors.Len() {
		fd := descriptors.Get(i)
		if r.IntN(2) == 0 || depth > 8 {
			continue
		}
		switch {
		case fd.IsMap():
			for range r.IntN(3) {
				value := m.Mutable(fd).Map().NewValue()
				m.Mutable(fd).Map().Set(protoreflect.ValueOfString(randomText(r)).MapKey(), fillValue(r, fd.MapValue(), value, depth))
			}
		case fd.IsList():
			for range r.IntN(3) {
				list := m.Mutable(fd).List()
				list.Append(fillValue(r, fd, list.NewElement(), depth))
			}
		default:
			m.Set(fd, fillValue(r, fd, m.NewField(fd), depth))
		}
	}
}

func fillValue(r *rand.Rand, fd protoreflect.FieldDescriptor, value protoreflect.Value, depth int) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.MessageKind:
		fill(r, value.Message(), depth+1)
		return value
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(randomText(r))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(randomText(r)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		// NullValue has no other number; SocketAddress.Protocol has two.
		if fd.Enum().Values().Len() == 1 {
			return value
		}
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(r.IntN(3)))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64([]int64{0, -1, 7, 1<<53 + 1, -1 << 63}[r.IntN(5)])
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32([]int32{0, 5, -9, 1<<31 - 1}[r.IntN(4)])
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32([]uint32{0, 8443, 1<<32 - 1}[r.IntN(3)])
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64([]float64{0, 1, -2.5, 1e21, 1e-7, math.NaN(), math.Inf(-1)}[r.IntN(7)])
	}
	panic(fmt.Sprintf("a field of a kind that is new: %s", fd.FullName()))
}

func randomText(r *rand.Rand) string {
	return []string{"", "a", "b", "policy", "x-y", "é", "a b", "/a/b?c=d", "%", "\"\\"}[r.IntN(10)]
}

// plausible gives most requests a path and a body that parse.
func plausible(r *rand.Rand, a *authv3.AttributeContext) {
	if r.IntN(10) == 0 || a.GetRequest().GetHttp() == nil {
		return
	}
	http := a.Request.Http
	http.Path = []string{
		"", "/", "//a/b", "/a%2fb/?c=d&c=%20&e", "/x?y=%", "/%zz", "?a", "/grpc.health.v1.Health/Check", "/a;b?c;d",
	}[r.IntN(9)]
	headers := map[string]string{}
	if t := []string{
		"", "application/json", "text/json, application/json", "application/grpc", "application/x-www-form-urlencoded",
		"multipart/form-data; boundary=B", "multipart/form-data", "text/plain", "APPLICATION/JSON",
	}[r.IntN(9)]; t != "" {
		headers["content-type"] = t
	}
	if l := []string{"", "", "", "0", "5", "100000", "x", "-1"}[r.IntN(8)]; l != "" {
		headers["content-length"] = l
	}
	if p := []string{"", "", "", "false", "true"}[r.IntN(5)]; p != "" {
		headers["x-envoy-auth-partial-body"] = p
	}
	body := []string{
		"", `{"a": [1, 2.50, null], "n": 9007199254740993}`, `[`, `{} {}`, "a=1&b=%20&a=2", "a=%",
		"--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--B--\r\n", "\x00\x00\x00\x00\x03\x0a\x01a", "\x01\x00\x00\x00\x00", "\x00\x00\x00\x00\x09",
	}[r.IntN(10)]
	http.Body, http.RawBody = body, nil
	if r.IntN(2) == 0 {
		http.Body, http.RawBody = "", []byte(body)
	}
	http.Headers = headers
	if r.IntN(4) == 0 {
		http.Headers, http.HeaderMap = nil, rawHeaders()
		for name, value := range headers {
			http.HeaderMap.Headers = append(http.HeaderMap.Headers, rawHeaders(name, value).Headers...)
		}
	}
}

// badness says what of a request does not parse.
type badness int

const (
	// parses: all of it does.
	parses badness = iota
	// badTarget: the path or the query.
	badTarget
	// badLength: what says how long the body is, or what it is.
	badLength
	// badBody: the body itself.
	badBody
)

// plainDocument reads the specification; false means that the request does not
// parse.
func plainDocument(t *testing.T, request *authv3.CheckRequest) (any, bool) {
	document, bad := plainRequest(t, request)
	return document, bad == parses
}

// plainRequest reads the specification. The document lacks what does not parse.
func plainRequest(t *testing.T, request *authv3.CheckRequest) (any, badness) {
	out := plainMessage(request.ProtoReflect()).(map[string]any)
	http := request.GetAttributes().GetRequest().GetHttp()
	headers := plainHeaders(http)
	target := http.GetPath()
	if target == "" {
		target = headers[":path"]
	}
	path, query, _ := strings.Cut(target, "?")
	decoded, ok := plainUnescape(path)
	if !ok {
		return nil, badTarget
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, badTarget
	}
	var segments []any
	for _, s := range strings.Split(strings.TrimLeft(decoded, "/"), "/") {
		segments = append(segments, s)
	}
	body, truncated, bad := plainBody(t, http, headers, segments)
	out["version"] = map[string]any{"ext_authz": "v3", "encoding": "protojson"}
	out["parsed_path"], out["parsed_query"] = segments, plainValues(values)
	if bad != badLength {
		out["truncated_body"] = truncated
	}
	if bad == parses {
		out["parsed_body"] = body
	}
	if p := request.GetAttributes().GetSource().GetPrincipal(); p != "" {
		out["source_principal"] = p
	}
	return out, bad
}

// plainMessage turns a message into JSON: names in lowerCamelCase, populated
// fields only.
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

// plainStruct is plain JSON; a value that is not set is null.
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
		text, _ := json.Marshal(v.NumberValue)
		return json.Number(text)
	case *structpb.Value_StringValue:
		return v.StringValue
	case *structpb.Value_BoolValue:
		return v.BoolValue
	}
	return nil
}

func plainHeaders(http *authv3.AttributeContext_HttpRequest) map[string]string {
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

// plainUnescape replaces each percent sign and two digits by their byte.
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

func plainJSON(text string) (any, bool) {
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var out any
	return out, decoder.Decode(&out) == nil
}

// plainBody reads the rules for a body in the order of the specification.
func plainBody(
	t *testing.T, http *authv3.AttributeContext_HttpRequest, headers map[string]string, path []any,
) (value any, truncated bool, bad badness) {
	if strings.ToLower(headers["x-envoy-auth-partial-body"]) == "true" {
		return nil, true, parses
	}
	contentType := headers["content-type"]
	kind := ""
	for _, k := range []string{"application/json", "application/grpc", "application/x-www-form-urlencoded", "multipart/form-data"} {
		if kind == "" && strings.Contains(strings.ToLower(contentType), k) {
			kind = k
		}
	}
	body := http.GetBody()
	if body == "" {
		body = string(http.GetRawBody())
	}
	if kind == "application/grpc" {
		return plainGRPC(t, string(http.GetRawBody()), path)
	}
	if kind == "" || body == "" {
		return nil, false, parses
	}
	if length, set := headers["content-length"]; set {
		n, err := strconv.Atoi(length)
		if err != nil {
			return nil, false, badLength
		}
		if n > len(body) {
			return nil, true, parses
		}
	}
	ok := false
	switch kind {
	case "application/json":
		value, ok = plainJSON(body)
	case "application/x-www-form-urlencoded":
		values, err := url.ParseQuery(body)
		value, ok = plainValues(values), err == nil
	default:
		value, ok = plainMultipart(contentType, body)
	}
	if !ok {
		return nil, false, badBody
	}
	return value, false, parses
}

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

func plainGRPC(t *testing.T, body string, path []any) (value any, truncated bool, bad badness) {
	switch {
	case body == "":
		return nil, false, parses
	case len(path) != 2, len(body) < 5:
		return nil, false, badLength
	case body[0] != 0:
		return nil, false, parses
	}
	length, err := strconv.ParseUint(fmt.Sprintf("%x", body[1:5]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	if int(length) > len(body)-5 {
		return nil, true, parses
	}
	if path[0] != "grpc.health.v1.Health" || path[1] != "Check" {
		return nil, false, parses
	}
	message := &healthpb.HealthCheckRequest{}
	if proto.Unmarshal([]byte(body[5:5+length]), message) != nil {
		return nil, false, badBody
	}
	out := map[string]any{}
	if message.Service != "" {
		out["service"] = message.Service
	}
	return out, false, parses
}
