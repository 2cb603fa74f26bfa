package extauthz_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/extauthz"
	"understudy/authz/extauthz/servertest"
)

var update = flag.Bool("update", false, "write what came out into testdata")

// check asks a server that must answer.
func check(t testing.TB, s *extauthz.Server, request *authv3.CheckRequest) *authv3.CheckResponse {
	t.Helper()
	response, err := s.Check(context.Background(), request)
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	return response
}

// capture returns the authz.Request that a CheckRequest becomes.
func capture(t testing.TB, request *authv3.CheckRequest) *authz.Request {
	t.Helper()
	var got *authz.Request
	s := servertest.New(t, servertest.Decide(func(_ context.Context, r *authz.Request) authz.Decision {
		got = r
		return authz.Decision{}
	}))
	check(t, s, request)
	return got
}

// document returns the input document of a CheckRequest, or why there is none.
func document(t testing.TB, request *authv3.CheckRequest) (any, error) {
	t.Helper()
	input, err := capture(t, request).Input(nil)
	if err != nil {
		return nil, err
	}
	out, err := input.Document()
	if err != nil {
		t.Fatal(err)
	}
	return out, nil
}

// TestFiles runs the files of testdata. Each has request.json, a CheckRequest in
// protojson, and some of: input.json, the input document; error, why there is
// none; policy.rego and response.json, the CheckResponse in protojson, in which
// <decision ID> stands for a UUID, or refused, why it does not compile. The file
// rules has the paths of the rules that are asked; without it, it is the usual one.
// A line "# differs:" names what the file shows of the differences that
// envoy/opa-envoy-plugin.md lists.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { testFile(t, file) })
	}
}

func testFile(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts := make(map[string]*txtar.File)
	for i := range archive.Files {
		parts[archive.Files[i].Name] = &archive.Files[i]
	}
	if parts["request.json"] == nil || len(parts) < 2 {
		t.Fatal("the file has to have request.json and what comes of it")
	}
	request := &authv3.CheckRequest{}
	if err := protojson.Unmarshal(parts["request.json"].Data, request); err != nil {
		t.Fatal(err)
	}
	golden := func(name string, got []byte) {
		want := parts[name]
		if want == nil {
			return
		}
		if *update {
			want.Data = got
			return
		}
		if diff := cmp.Diff(string(want.Data), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if request.Attributes != nil {
		input, err := document(t, request)
		if err != nil {
			golden("error", []byte(err.Error()+"\n"))
		}
		if (err != nil) != (parts["error"] != nil) {
			t.Errorf("input: error %v", err)
		}
		golden("input.json", servertest.Indented(t, input))
	}
	if parts["policy.rego"] != nil {
		testPolicy(t, parts, request, golden)
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// testPolicy compiles the policy of a file and asks it.
func testPolicy(
	t *testing.T, parts map[string]*txtar.File, request *authv3.CheckRequest, golden func(name string, got []byte),
) {
	rules := []string{""}
	if f := parts["rules"]; f != nil {
		rules = strings.Fields(string(f.Data))
	}
	policy, err := servertest.Compile(string(parts["policy.rego"].Data), rules...)
	if (err != nil) != (parts["refused"] != nil) || (err == nil) != (parts["response.json"] != nil) {
		t.Fatalf("a policy has a response.json, or refused if it does not compile: %v", err)
	}
	if err != nil {
		golden("refused", []byte(err.Error()+"\n"))
		return
	}
	golden("response.json", responseJSON(t, check(t, servertest.New(t, servertest.Alone(policy)), request)))
}

// responseJSON renders a response with a placeholder for its decision ID, which
// has to be there.
func responseJSON(t testing.TB, response *authv3.CheckResponse) []byte {
	t.Helper()
	response = proto.CloneOf(response)
	id := response.GetDynamicMetadata().GetFields()["decision_id"]
	if !servertest.UUID.MatchString(id.GetStringValue()) {
		t.Errorf("decision_id %q is no UUID", id.GetStringValue())
		return nil
	}
	delete(response.DynamicMetadata.Fields, "decision_id")
	text, err := protojson.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	var value map[string]any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	metadata, _ := value["dynamicMetadata"].(map[string]any)
	metadata["decision_id"] = "<decision ID>"
	return servertest.Indented(t, value)
}
