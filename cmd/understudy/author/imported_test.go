package author

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/testing/protocmp"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/resourcefile"
	"understudy/rego/bundle"
)

// TestImportedYAML shows that what import writes is read back as it was, whatever
// is in it.
func TestImportedYAML(t *testing.T) {
	for _, text := range []string{
		"package a\n", "no end", "\tindented\n\t\tmore\n", "  spaces first\n", "space at the end \nof a line\n", "true", "1e3", "null",
		"\r\nwindows\r\n", "ünï\u2028code\n", "# no module\n\n\n", "a: b\n- c\n", "tab at the end\t\n\n", "# \"quoted\"\n'x'\n...\n---\n", "%TAG\n%YAML 1\n", "", "\n", "@", "\x7f\u0085\ufeff",
	} {
		d := &imported{from: "x", id: "web/next", rules: []string{"a/b"}, bundle: &bundle.Bundle{
			Modules: map[string]string{"m.rego": text, text + ".rego": "x"},
			Data:    map[string]any{text: text, "list": []any{text, nil, true, 1.5}, "none": map[string]any{}},
		}}
		want, err := d.resource()
		if err != nil {
			t.Fatal(err)
		}
		written, err := d.yaml()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got, err := resourcefile.Read(written, resourcefile.FromFolder(filepath.Join(t.TempDir(), "nowhere")))
		if err != nil {
			t.Fatalf("%q: %v in\n%s", text, err, written)
		}
		if diff := cmp.Diff(experiment(t, want), experiment(t, got.Encoded), protocmp.Transform()); diff != "" {
			t.Errorf("%q, -want +got:\n%s\n%s", text, diff, written)
		}
	}
}

func experiment(t *testing.T, content []byte) *adminpb.PolicyExperiment {
	t.Helper()
	e := &adminpb.PolicyExperiment{}
	if err := protojson.Unmarshal(content, e); err != nil {
		t.Fatal(err)
	}
	return e
}
