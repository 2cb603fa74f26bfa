package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// home is a path that has to be found nowhere in the repository.
const home = "example.com/you/understudy"

// copyRepository copies the repository, without what is built.
func copyRepository(t *testing.T) string {
	t.Helper()
	const repository = "../.."
	names, err := files(repository)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range names {
		from, to := filepath.Join(repository, name), filepath.Join(folder, name)
		info, err := os.Stat(from)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, content, info.Mode().Perm())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// content returns all files of a folder.
func content(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	names, err := files(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, name := range names {
		if all[name], err = os.ReadFile(filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestTheRepositoryMovesAndComesBack gives a copy another path. No file imports the old one
// then, no module has it, and a second change makes all of it as it was.
func TestTheRepositoryMovesAndComesBack(t *testing.T) {
	t.Parallel()
	folder := copyRepository(t)
	from, err := current(folder)
	if err != nil {
		t.Fatal(err)
	}
	before := content(t, folder)
	if err := run([]string{folder, home}); err != nil {
		t.Fatal(err)
	}
	moved := content(t, folder)
	modules := 0
	for name, text := range moved {
		switch filepath.Base(name) {
		case "go.mod":
			modules++
			if path, err := current(filepath.Join(folder, filepath.Dir(name))); err != nil || !strings.HasPrefix(path, home) {
				t.Errorf("%s has the path %q, %v", name, path, err)
			}
		default:
			importsNone(t, name, text, change{from: from})
		}
	}
	if modules < 7 {
		t.Errorf("there are %d modules, fewer than the repository has", modules)
	}
	if _, err := move(folder, change{from: home, to: from}); err != nil {
		t.Fatal(err)
	}
	after := content(t, folder)
	for name, text := range before {
		if !bytes.Equal(after[name], text) {
			t.Errorf("%s is not as it was", name)
		}
	}
}

// importsNone holds a Go file against the imports of a module that is no more.
func importsNone(t *testing.T, name string, text []byte, gone change) {
	t.Helper()
	if filepath.Ext(name) != ".go" {
		return
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, ours := gone.path(imported); ours {
			t.Errorf("%s imports %s still", name, imported)
		}
	}
}

func TestEdits(t *testing.T) {
	for _, c := range []struct{ about, name, before, after string }{
		{"imports, sorted anew", "a.go",
			"package a\n\nimport (\n\t_ \"old/b\"\n\t_ \"other\"\n)\n", "package a\n\nimport (\n\t_ \"example.com/new/b\"\n\t_ \"other\"\n)\n"},
		{"a name that begins alike", "a.go", "package a\n\nimport _ \"older/b\"\n", ""},
		{"a link", "a.go", "// Package a is of [old/b.C].\npackage a\n", "// Package a is of [example.com/new/b.C].\npackage a\n"},
		{"the name of a metric", "a.go", "package a\n\nvar scope = \"old/b\"\n", ""},
		{"a module and what it needs", "go.mod",
			"module old/b\n\ngo 1.26.0\n\nrequire (\n\ta.com/x v1.0.0\n\told v0.0.0\n)\n\nreplace old => ../old\n",
			"module example.com/new/b\n\ngo 1.26.0\n\nrequire (\n\ta.com/x v1.0.0\n\texample.com/new v0.0.0\n)\n\nreplace example.com/new => ../old\n"},
		{"the Go package of a proto alone", "a.proto",
			"package old.b;\nimport \"old/c.proto\";\noption go_package = \"old/b;b\";\n", "package old.b;\nimport \"old/c.proto\";\noption go_package = \"example.com/new/b;b\";\n"},
		{"text", "README.md", "old/b\n", ""},
	} {
		after, err := change{from: "old", to: "example.com/new"}.edit(c.name, []byte(c.before))
		if err != nil {
			t.Fatal(err)
		}
		if c.after == "" {
			c.after = c.before
		}
		if string(after) != c.after {
			t.Errorf("%s: got\n%s\nwant\n%s", c.about, after, c.after)
		}
	}
}

func TestPathsAreChecked(t *testing.T) {
	for path, want := range map[string]string{
		"example.com/you/understudy":         "",
		"example.com/understudy":             "",
		"understudy":                         "missing dot",
		"https://example.com/you/understudy": "without https://",
		"example.com/you/":                   "trailing slash",
		"example.com/you/understudy/v2":      "leave it out",
		"":                                   "such as example.com/you/understudy",
	} {
		err := check(path)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", path, err, want)
		}
	}
}
