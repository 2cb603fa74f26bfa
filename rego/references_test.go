package rego_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/rego"
)

// TestReferences names the places that read the input, through imports too.
func TestReferences(t *testing.T) {
	p, err := rego.Compile(t.Context(), rego.Source{Paths: []string{"a/decision"}, Modules: map[string]string{
		"b.rego": "package b\nimport input.attributes.request.http as http\nallow if http.headers.authorization\n",
		"a.rego": "package a\n\nallow if {\n\tinput.parsed_path[0] == \"x\"\n\tinput.headers[name] == data.y\n\tname == \"n\"\n}\nall := input\ntest_it if allow with input as {\"z\": input.t}\n",
		"c.rego": "package a\ndecision := [allow, all, data.b.allow, input.parsed_path]\n",
	}})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range p.References("a/decision") {
		lines = append(lines, fmt.Sprintf("%s:%d %s", r.File, r.Row, strings.Join(r.Path, ".")))
	}
	want := []string{"a.rego:4 parsed_path", "a.rego:5 headers", "a.rego:8 ", "b.rego:3 attributes.request.http.headers.authorization"}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
