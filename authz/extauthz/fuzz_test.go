package extauthz_test

import (
	"bytes"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// FuzzCheck feeds bytes as they may come from the network.
func FuzzCheck(f *testing.F) {
	for _, request := range seedRequests(f) {
		content, err := proto.Marshal(request)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	s := servertest.New(f, servertest.ByPolicy(f, `package envoy.authz

allow := {
	"allowed": input.parsed_path[0] == "a",
	"headers": {"x-id": input.attributes.request.http.id, "x-path": input.parsed_path},
	"body": concat(",", input.parsed_path),
	"dynamic_metadata": {"input": input},
}
`))
	f.Fuzz(func(t *testing.T, content []byte) {
		request := &authv3.CheckRequest{}
		if proto.Unmarshal(content, request) != nil {
			return
		}
		response := check(t, s, request)
		if _, err := proto.Marshal(response); err != nil {
			t.Fatalf("the response does not marshal: %v", err)
		}
		if code := response.GetStatus().GetCode(); code != 0 && code != 7 {
			t.Errorf("status %d", code)
		}
		if response.GetDynamicMetadata().GetFields()["decision_id"] == nil {
			t.Error("no decision_id")
		}
		// The plain reading of a multipart form knows no files and no JSON.
		headers := checktest.Headers(request.GetAttributes().GetRequest().GetHttp())
		if request.Attributes == nil || strings.Contains(strings.ToLower(headers["content-type"]), "multipart") {
			return
		}
		got, err := document(t, request)
		want, ok := checktest.Document(t, request)
		if err == nil && ok {
			if diff := checktest.Difference(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
}

// seedRequests are those of testdata, those of a real Envoy, and random ones.
func seedRequests(f *testing.F) []*authv3.CheckRequest {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	var out []*authv3.CheckRequest
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		request := &authv3.CheckRequest{}
		if err := protojson.Unmarshal(archive.Files[0].Data, request); err != nil {
			f.Fatalf("%s: %v", file, err)
		}
		out = append(out, request)
	}
	for name, content := range checktest.Envoy(f) {
		request := &authv3.CheckRequest{}
		if err := proto.Unmarshal(content, request); err != nil {
			f.Fatalf("%s: %v", name, err)
		}
		out = append(out, request)
	}
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		request := &authv3.CheckRequest{Attributes: &authv3.AttributeContext{}}
		checktest.Fill(r, request.Attributes.ProtoReflect(), 0)
		checktest.MakePlausible(r, request.Attributes)
		out = append(out, request)
	}
	// A size that is not known is -1 by attribute_context.proto.
	unknown := checktest.Istio()
	unknown.Attributes.Request.Http.Size = -1
	return append(out, checktest.Istio(), unknown)
}

// FuzzParse feeds the parts of a request that are parsed.
func FuzzParse(f *testing.F) {
	f.Add("//admin/x?a=b", "application/json", "1", []byte(`{"a": 1e9999}`))
	f.Add("/a%2f%", "multipart/form-data; boundary=B", "", []byte("--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\none\r\n--B--\r\n"))
	f.Add("/grpc.health.v1.Health/Check", "application/grpc", "", []byte("\x00\x00\x00\x00\x03\x0a\x01a"))
	f.Add("?;", "application/x-www-form-urlencoded", "-1", []byte("a=%zz;"))
	f.Add("/", "application/x-www-form-urlencoded", "", []byte("a"))
	f.Add("/", "application/json", "", []byte(`[{},{"a":"\\\"["}]`))
	f.Fuzz(func(t *testing.T, path, contentType, length string, body []byte) {
		headers := checktest.RawHeaders("content-type", contentType)
		if length != "" {
			headers.Headers = append(headers.Headers, checktest.RawHeaders("content-length", length).Headers...)
		}
		request := checktest.HTTP(&authv3.AttributeContext_HttpRequest{Path: path, HeaderMap: headers, RawBody: body})
		if weight, value, ok := reader().BodyWeight(request); ok && weight < valuesIn(value) {
			t.Errorf("a body of %d values has the weight %d", valuesIn(value), weight)
		}
		got, err := document(t, request)
		if err != nil {
			if reason := err.Error(); len(path) > 5 && strings.Contains(reason, path) || len(body) > 5 && bytes.Contains([]byte(reason), body) {
				t.Errorf("the reason quotes the request: %s", reason)
			}
			return
		}
		parsed := got.(map[string]any)
		if segments := parsed["parsed_path"].([]any); len(segments) == 0 || len(segments) > 1 && segments[0] == "" {
			t.Errorf("parsed_path %q", segments)
		}
		if parsed["truncated_body"] == true && parsed["parsed_body"] != nil {
			t.Error("a truncated body was parsed")
		}
	})
}
