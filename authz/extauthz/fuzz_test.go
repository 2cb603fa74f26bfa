package extauthz_test

import (
	"strings"
	"testing"

	"understudy/authz/extauthz/checktest"
	"understudy/authz/extauthz/servertest"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/protobuf/proto"
)

// FuzzCheck feeds bytes as they may come from the network.
func FuzzCheck(f *testing.F) {
	for _, request := range checktest.Seeds(f) {
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
