package input_test

import (
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"understudy/authz/extauthz/input"
)

// TestWithoutTheBody makes the document of a request with a body that cannot be read: all of it but what is
// read of the body.
func TestWithoutTheBody(t *testing.T) {
	wire, err := proto.Marshal(&authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "POST", Path: "/a?b=c", Headers: map[string]string{"content-type": "application/json", "x": "y"}, Body: "{",
		}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	reader := &input.Reader{}
	r, _, err := reader.Read(wire)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Source(nil); err == nil {
		t.Fatal("the body can be read")
	}
	made, err := r.WithoutBody(nil)
	if err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	want := object{
		"attributes": object{"request": object{"http": object{
			"method": "POST", "path": "/a?b=c", "headers": object{"content-type": "application/json", "x": "y"}, "body": "{",
		}}},
		"version":     object{"ext_authz": "v3", "encoding": "protojson"},
		"parsed_path": []any{"a"}, "parsed_query": object{"b": []any{"c"}},
	}
	if diff := cmp.Diff(any(want), documentOf(t, made)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
