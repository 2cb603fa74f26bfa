package cmd_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testModules are those that the tests of the product itself need. What checks files
// against the types of other products has a module of its own: deploy/check.
var testModules = []string{
	"github.com/anishathalye/porcupine", "github.com/google/go-cmp", "github.com/rogpeppe/go-internal",
}

var requirement = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`) // without "// indirect"

// TestGoModHasWhatIsLinked holds go.mod against the imports of code that is no test:
// who takes the product takes its dependencies along.
func TestGoModHasWhatIsLinked(t *testing.T) {
	content, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	linked := importedByCode(t, os.DirFS(".."))
	for _, m := range requirement.FindAllStringSubmatch(string(content), -1) {
		needed := slices.ContainsFunc(linked, func(imported string) bool {
			return imported == m[1] || strings.HasPrefix(imported, m[1]+"/")
		})
		if !needed && !slices.Contains(testModules, m[1]) {
			t.Errorf("go.mod requires %s for tests alone: they belong into a module of their own, such as deploy/check", m[1])
		}
	}
}

// laterGo are the modules that need a later patch of Go than ours, because of a tool: nobody imports them.
var laterGo = map[string]string{
	".ci/release":  "GoReleaser",
	"deploy/check": "Prometheus",
}

// TestGoOfModules: a module demands the first patch of a minor version of Go, since who imports it has to
// have that one too, and names no toolchain.
func TestGoOfModules(t *testing.T) {
	modules := 0
	err := fs.WalkDir(os.DirFS(".."), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != "go.mod" {
			return err
		}
		modules++
		content, err := os.ReadFile(path.Join("..", name))
		if err != nil {
			return err
		}
		if _, later := laterGo[path.Dir(name)]; !later && !strings.Contains(string(content), "\ngo 1.26.0\n") {
			t.Errorf("%s demands another Go than 1.26.0", name)
		}
		if strings.Contains(string(content), "\ntoolchain ") {
			t.Errorf("%s names a toolchain", name)
		}
		return nil
	})
	if err != nil || modules < 8 {
		t.Errorf("there are %d modules: %v", modules, err)
	}
}

// importedByCode returns what the module's code imports, tests left out.
func importedByCode(t *testing.T, root fs.FS) (out []string) {
	t.Helper()
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && apart(root, name):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		imports, err := importsOf(root, name)
		out = append(out, imports...)
		return err
	})
	if err != nil || len(out) == 0 {
		t.Fatalf("%d imports: %v", len(out), err)
	}
	return out
}
