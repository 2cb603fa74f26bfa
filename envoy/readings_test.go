package envoy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadingsAreShown holds the table of readings.md against what shows its rows: a file that a test runs, or
// a setting of envoy.yaml.
func TestReadingsAreShown(t *testing.T) {
	table, err := os.ReadFile("readings.md")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := os.ReadFile("envoy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if !strings.HasPrefix(line, "| ") || cells[0] == "what" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		rows++
		names := regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 3 || len(names) == 0 {
			t.Errorf("nothing shows the row %q", line)
		}
		for _, name := range names {
			_, err := os.Stat(filepath.Join("..", "authz", "extauthz", "testdata", name[1]+".txtar"))
			if err != nil && !strings.Contains(string(settings), name[1]+": ") {
				t.Errorf("%s is no file and no setting", name[1])
			}
		}
	}
	if rows == 0 {
		t.Error("the table has no rows")
	}
}
