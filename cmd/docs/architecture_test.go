package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// place matches a folder or a file of the repository in ARCHITECTURE.md.
var place = regexp.MustCompile("`([a-z0-9_]+(?:/[a-z0-9_.]+)*/|[a-z0-9_]+(?:/[a-z0-9_]+)*/[a-z0-9_.]+\\.[a-z]+)`")

// TestArchitecturePlaces holds that what ARCHITECTURE.md sends a reader to is there: a path
// from the root, or in a folder that stands before it on the same line.
func TestArchitecturePlaces(t *testing.T) {
	for _, line := range architecture(t) {
		folders := []string{"."}
		for _, found := range place.FindAllStringSubmatch(line, -1) {
			name := found[1]
			where := ""
			for _, folder := range folders {
				if _, err := os.Stat(filepath.Join(repository, folder, name)); err == nil {
					where = path.Join(folder, name)
				}
			}
			if where == "" {
				t.Errorf("%s is not there, nor in a folder named before it: %s", name, line)
			} else if strings.HasSuffix(name, "/") {
				folders = append(folders, where)
			}
		}
	}
}

// quotedFile matches a file or a folder in a table of where to change something.
var quotedFile = regexp.MustCompile("`([a-z0-9_/]+(?:/|\\.(?:go|proto|conf|md)))`")

// TestWhereToChange holds that the tables "Where do I change" of folders name what is there:
// by a path from the root, or from the folder of the document.
func TestWhereToChange(t *testing.T) {
	tables := 0
	for _, d := range documents(t) {
		_, table, found := strings.Cut(d.text, "\n## Where do I change\n")
		if !found || d.path == "ARCHITECTURE.md" {
			continue
		}
		tables++
		table, _, _ = strings.Cut(table, "\n## ")
		for _, m := range quotedFile.FindAllStringSubmatch(table, -1) {
			_, fromRoot := os.Stat(filepath.Join(repository, m[1]))
			_, fromHere := os.Stat(filepath.Join(repository, filepath.Dir(d.path), m[1]))
			if fromRoot != nil && fromHere != nil {
				t.Errorf("%s sends to %s, which is not there", d.path, m[1])
			}
		}
	}
	if tables < 3 {
		t.Errorf("there are %d tables of where to change something", tables)
	}
}

// TestArchitectureRooms holds that each package has a place in the table of the rooms: its
// own, or that of the folder it is in, under its name.
func TestArchitectureRooms(t *testing.T) {
	rooms := strings.Join(architecture(t), "\n")
	err := filepath.WalkDir(repository, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		base := d.Name()
		if strings.HasPrefix(base, ".") && base != ".." || base == "testdata" || base == "bin" {
			return fs.SkipDir
		}
		code, err := filepath.Glob(filepath.Join(name, "*.go"))
		if err != nil || !hasCode(code) || strings.HasSuffix(base, "test") && base != "storetest" && base != "regotest" {
			return err
		}
		rel := filepath.ToSlash(strings.TrimPrefix(name, repository+"/"))
		if !strings.Contains(rooms, "`"+rel+"/`") && !strings.Contains(rooms, "`"+base+"/`") && !strings.HasPrefix(rel, "deploy/") {
			t.Errorf("the package %s has no place in ARCHITECTURE.md", rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// hasCode reports whether files are not of tests alone.
func hasCode(files []string) bool {
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			return true
		}
	}
	return false
}

// architecture returns the lines of ARCHITECTURE.md.
func architecture(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}
