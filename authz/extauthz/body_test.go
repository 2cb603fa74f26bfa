package extauthz_test

import (
	"encoding/binary"
	"net/http"
	"slices"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/authz/extauthz"
	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"
)

// posted is a POST with a body of a type, as Envoy sends it: as bytes, with its headers
// in a map or, raw, in a list.
func posted(contentType, body string, raw bool) *authv3.CheckRequest {
	http := &authv3.AttributeContext_HttpRequest{
		Method: "POST", Path: "/grpc.health.v1.Health/Check", RawBody: []byte(body), Size: int64(len(body)),
	}
	if raw {
		http.HeaderMap = checktest.RawHeaders("content-type", contentType)
	} else {
		http.Headers = map[string]string{"content-type": contentType}
	}
	return checktest.HTTP(http)
}

const multipartType = "multipart/form-data; boundary=B"

// manyValues are bodies of many values, by content type.
func manyValues(n int) map[string]string {
	message := strings.Repeat("\x0a\x01a", n)
	return map[string]string{
		"application/json":                  "[" + strings.Repeat("{},", n) + "{}]",
		"application/x-www-form-urlencoded": strings.Repeat("a=b&", n),
		multipartType: "--B\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: application/json\r\n\r\n[" +
			strings.Repeat("{},", n) + "{}]\r\n--B--\r\n",
		"application/grpc": string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message,
	}
}

// badBodies do not parse, by content type.
var badBodies = map[string]string{
	"application/json":                  `{"a":`,
	"application/x-www-form-urlencoded": "a=%zz",
	multipartType:                       "--B\r\nContent",
	"application/grpc":                  "\x00\x00\x00\x00\x01\xff",
}

// TestABodyThatNobodyReadsIsNotParsed: neither does it deny, nor does it cost anything.
func TestABodyThatNobodyReadsIsNotParsed(t *testing.T) {
	s, reading := servertest.New(t, servertest.ByPolicy(t, servertest.OnlyPOST)), servertest.New(t, servertest.ByPolicy(t, servertest.Amounts))
	for _, raw := range []bool{false, true} {
		for contentType, body := range badBodies {
			request := posted(contentType, body, raw)
			if response := checkWire(t, s, request); response.GetStatus().GetCode() != 0 {
				t.Errorf("%s, raw headers %v: %v, want OK", contentType, raw, response)
			}
			if response := checkWire(t, reading, request); response.GetDeniedResponse().GetStatus().GetCode() != http.StatusBadRequest {
				t.Errorf("%s, raw headers %v, read: %v, want 400", contentType, raw, response)
			}
		}
		for contentType, body := range manyValues(200_000) {
			wire, err := proto.Marshal(posted(contentType, body, raw))
			if err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(5, func() {
				if _, err := s.CheckWire(t.Context(), wire); err != nil {
					t.Fatal(err)
				}
			}); n > 500 {
				t.Errorf("%s, raw headers %v: a check of a body that nobody reads makes %v objects", contentType, raw, n)
			}
		}
	}
}

// TestABodyOfManyValuesIsRefused: what a body costs goes by its values, so that they are
// counted before it is parsed.
func TestABodyOfManyValuesIsRefused(t *testing.T) {
	s := servertest.New(t, servertest.ByPolicy(t, servertest.Amounts))
	for _, raw := range []bool{false, true} {
		for contentType, body := range manyValues(60_000) {
			wire, err := proto.Marshal(posted(contentType, body, raw))
			if err != nil {
				t.Fatal(err)
			}
			var response authv3.CheckResponse
			if n := testing.AllocsPerRun(2, func() {
				out, err := s.CheckWire(t.Context(), wire)
				if err != nil || proto.Unmarshal(out, &response) != nil {
					t.Fatal(err)
				}
			}); n > 1000 {
				t.Errorf("%s, raw headers %v: to refuse it makes %v objects", contentType, raw, n)
			}
			if got := response.GetDeniedResponse().GetBody(); !strings.Contains(got, "too many values") {
				t.Errorf("%s, raw headers %v: %v, want 400 for too many values", contentType, raw, &response)
			}
		}
	}
}

// nestingService has methods that take a google.protobuf.Value and a google.protobuf.Any.
func nestingService() *descriptorpb.FileDescriptorSet {
	method := func(name, input string) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: &input, OutputType: &input}
	}
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto),
		protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto),
		{
			Name: new("nesting.proto"), Package: new("nesting"), Syntax: new("proto3"),
			Dependency: []string{"google/protobuf/any.proto", "google/protobuf/struct.proto"},
			Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Nesting"), Method: []*descriptorpb.MethodDescriptorProto{
				method("Value", ".google.protobuf.Value"), method("Any", ".google.protobuf.Any"),
			}}},
		},
	}}
}

// TestMessagesWithinMessagesAreWeighed: to go down millions of levels takes hundreds of
// megabytes of stack, and what is in an Any becomes values too.
func TestMessagesWithinMessagesAreWeighed(t *testing.T) {
	set, err := extauthz.WithDescriptorSet(nestingService())
	if err != nil {
		t.Fatal(err)
	}
	s := extauthz.New(servertest.ByPolicy(t, servertest.Amounts), set)
	nested := func(depth int) proto.Message {
		v := structpb.NewNullValue()
		for range depth {
			v = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{v}})
		}
		return v
	}
	packed := func(m proto.Message) proto.Message {
		a, err := anypb.New(m)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	long := &structpb.ListValue{Values: slices.Repeat([]*structpb.Value{structpb.NewNullValue()}, 60_000)}
	for name, tt := range map[string]struct {
		method  string
		message proto.Message
		refused bool
	}{
		"some levels":             {"Value", nested(49), false},
		"more levels":             {"Value", nested(50), true},
		"an Any":                  {"Any", packed(packed(nested(5))), false},
		"an Any with many values": {"Any", packed(long), true},
		"Any within Any":          {"Any", packed(packed(packed(long))), true},
	} {
		message, err := proto.Marshal(tt.message)
		if err != nil {
			t.Fatal(err)
		}
		request := posted("application/grpc", string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))))+string(message), false)
		request.Attributes.Request.Http.Path = "/nesting.Nesting/" + tt.method
		response := checkWire(t, s, request)
		if refused := strings.Contains(response.GetDeniedResponse().GetBody(), "too many values"); refused != tt.refused || refused == (response.GetStatus().GetCode() == 0) {
			t.Errorf("%s: %v; want it refused: %v", name, response, tt.refused)
		}
	}
}
