package input_test

import (
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"understudy/authz/extauthz/checktest"
)

// TestWithoutTheBody makes the documents of requests with a body that cannot be read: all of it but what is
// read of the body, with or without whether it is all there.
func TestWithoutTheBody(t *testing.T) {
	type object = map[string]any
	for name, tt := range map[string]struct {
		length    string
		truncated any // nil: that is not known
	}{"a body that does not parse": {"1", false}, "a part of one": {"2", true}, "of no length": {"many", nil}} {
		headers := map[string]string{"content-type": "application/json", "content-length": tt.length}
		wire, err := proto.Marshal(checktest.HTTP(&authv3.AttributeContext_HttpRequest{Method: "POST", Path: "/a?b=c", Headers: headers, Body: "{"}))
		if err != nil {
			t.Fatal(err)
		}
		r, _, err := reader().Read(wire)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Source(nil); (err == nil) != (tt.truncated == true) {
			t.Fatalf("%s: reading all of it ends with %v", name, err)
		}
		want := object{
			"attributes": object{"request": object{"http": object{
				"method": "POST", "path": "/a?b=c", "headers": object{"content-type": "application/json", "content-length": tt.length}, "body": "{",
			}}},
			"version":     object{"ext_authz": "v3", "encoding": "protojson"},
			"parsed_path": []any{"a"}, "parsed_query": object{"b": []any{"c"}},
		}
		made, err := r.WithoutBody(nil, false)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(any(want), documentOf(t, made)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		want["truncated_body"] = tt.truncated
		made, err = r.WithoutBody(nil, true)
		if (err != nil) != (tt.truncated == nil) {
			t.Errorf("%s: whether it is all there ends with %v", name, err)
		} else if err == nil {
			if diff := cmp.Diff(any(want), documentOf(t, made)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}
