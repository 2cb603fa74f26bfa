package input_test

import (
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz/input"
)

// TestWithoutTheBody makes the documents of a request with a body that cannot be read: all of
// it but the body, with what a policy reads of that.
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
	type object = map[string]any
	document := func(body bool, more object) object {
		http := object{"method": "POST", "path": "/a?b=c", "headers": object{"content-type": "application/json", "x": "y"}}
		if body {
			http["body"] = "{"
		}
		out := object{
			"attributes":  object{"request": object{"http": http}},
			"version":     object{"ext_authz": "v3", "encoding": "protojson"},
			"parsed_path": []any{"a"}, "parsed_query": object{"b": []any{"c"}},
		}
		for name, value := range more {
			out[name] = value
		}
		return out
	}
	const readsPath = `input.attributes.request.http.path == "/a"`
	for name, tt := range map[string]struct {
		set  *authz.ReadSet
		want object // nil: it cannot be made
	}{
		"for a log":                {nil, document(true, nil)},
		"nothing of it is read":    {authz.NewReadSet(reads(t, readsPath)), document(false, nil)},
		"whether it is all there":  {authz.NewReadSet(reads(t, readsPath+"; not input.truncated_body")), document(false, object{"truncated_body": false})},
		"as it was sent":           {authz.NewReadSet(reads(t, readsPath+`; contains(input.attributes.request.http.body, "{")`)), document(true, nil)},
		"all of the attributes":    {authz.NewReadSet(reads(t, `json.marshal(input.attributes) != "{}"`)), document(true, nil)},
		"a field of it":            {authz.NewReadSet(reads(t, "input.parsed_body.a")), nil},
		"all of it":                {authz.NewReadSet(reads(t, "count(input.parsed_body) > 1")), nil},
		"the bytes, which are not": {authz.NewReadSet(reads(t, `input.attributes.request.http.rawBody == ""`)), document(false, nil)},
	} {
		made, err := r.WithoutBody(nil, tt.set)
		if (err != nil) != (tt.want == nil) {
			t.Errorf("%s: the error is %v", name, err)
		}
		if err != nil {
			continue
		}
		got, err := made.Document()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(any(tt.want), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
