package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// attribute is a name in a query; Loki writes it with underscores.
var attribute = regexp.MustCompile(`\b(understudy|http|url)[._][a-z_.]*[a-z]`)

// TestQueriesNameAttributes: the records have each attribute that a query names, and the
// document has each query.
func TestQueriesNameAttributes(t *testing.T) {
	source := ""
	for _, pattern := range []string{"../authz/rehearsal/*.go", "../authz/request.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			source += read(t, name)
		}
	}
	known := map[string]bool{
		"understudy.label.tenant": true, // a label of the policy
		"understudy.preview":      true, // the view
	}
	for _, m := range regexp.MustCompile(`"([a-z_]+(?:\.[a-z_]+)+)"`).FindAllStringSubmatch(source, -1) {
		known[m[1]] = true
	}
	for name := range known {
		known[strings.ReplaceAll(name, ".", "_")] = true
	}
	document := read(t, "queries/README.md")
	queries, err := filepath.Glob("queries/*.*ql")
	if err != nil || len(queries) < 15 {
		t.Fatalf("there are %d queries (%v)", len(queries), err)
	}
	for _, path := range queries {
		if !strings.Contains(document, "("+filepath.Base(path)+")") {
			t.Errorf("queries/README.md does not name %s", path)
		}
		for _, name := range attribute.FindAllString(read(t, path), -1) {
			if !known[name] {
				t.Errorf("%s: no record has %s", path, name)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
