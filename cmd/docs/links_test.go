package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	// unanchored is what an anchor leaves out of its heading, as GitHub makes it.
	unanchored = regexp.MustCompile(`[^\p{L}\p{N}\-_ ]`)
)

// TestLinks: what a document refers to in the repository is there, up to the heading.
func TestLinks(t *testing.T) {
	for _, d := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(d.text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := filepath.Join(repository, d.path)
			if file != "" {
				target = filepath.Join(filepath.Dir(target), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s refers to %s: %v", d.path, m[1], err)
			} else if anchor != "" && !hasHeading(t, target, anchor) {
				t.Errorf("%s refers to %s: there is no such heading", d.path, m[1])
			}
		}
	}
}

func hasHeading(t *testing.T, file, anchor string) bool {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range heading.FindAllStringSubmatch(string(content), -1) {
		text := unanchored.ReplaceAllString(strings.ToLower(m[1]), "")
		if strings.ReplaceAll(text, " ", "-") == anchor {
			return true
		}
	}
	return false
}

var (
	// named is a document that a comment or a message names, by its path.
	named = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_./-]*/[A-Za-z0-9_-]+\.md(?:#[a-z0-9_-]+)?`)
	// naming are the endings of files that name documents.
	naming = []string{".go", ".yaml", ".yml", ".conf", ".proto", ".sh", ".html", ".rego"}
)

// TestNamedDocuments: each document that the code or a shipped file names is there, up to
// the heading.
func TestNamedDocuments(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != repository && (apart(d.Name()) || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains(naming, filepath.Ext(path)):
			return nil
		}
		content, err := os.ReadFile(path)
		for _, name := range named.FindAllString(string(content), -1) {
			seen++
			file, anchor, _ := strings.Cut(name, "#")
			target := filepath.Join(filepath.Dir(path), file)
			if _, err := os.Stat(target); err != nil {
				target = filepath.Join(repository, file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s names %s, which is not there", path, name)
			} else if anchor != "" && !hasHeading(t, target, anchor) {
				t.Errorf("%s names %s: there is no such heading", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 5 {
		t.Errorf("the code names %d documents, fewer than it does", seen)
	}
}
