package envoy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// row matches a row of the table of differences. Its first column is the name.
var row = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")

// TestDifferencesAreShown holds the table of opa-envoy-plugin.md against the files that show
// what differs from opa-envoy-plugin: each row has a file, and each file a row.
func TestDifferencesAreShown(t *testing.T) {
	content, err := os.ReadFile("opa-envoy-plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), "## What differs from opa-envoy-plugin")
	if !found {
		t.Fatal("opa-envoy-plugin.md does not list what differs")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	shown := shownDifferences(t)
	listed := make(map[string]bool)
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		if listed[m[1]] {
			t.Errorf("%s is listed twice", m[1])
		}
		listed[m[1]] = true
		if len(shown[m[1]]) == 0 {
			t.Errorf("%s is listed, and no file shows it", m[1])
		}
	}
	for name, files := range shown {
		if !listed[name] {
			t.Errorf("%s is shown by %v, and not listed", name, files)
		}
	}
	if rows := strings.Count(section, "\n| `"); rows != len(listed) || rows == 0 {
		t.Errorf("the table has %d rows; %d were read", rows, len(listed))
	}
}

// shownDifferences returns name of a difference :: the files that show it.
func shownDifferences(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../authz/extauthz/testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]string)
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(archive.Comment)) {
			names, marked := strings.CutPrefix(line, "# differs:")
			if !marked {
				continue
			}
			for _, name := range strings.Fields(names) {
				out[name] = append(out[name], filepath.Base(file))
			}
		}
	}
	return out
}
