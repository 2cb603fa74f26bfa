package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// required is the value of --require in a command; a variable is its own matter.
	required = regexp.MustCompile(`--require[ =]['"]?([a-z][^'"\s` + "`" + `]*)`)
	// list is a list of requirements, of two at least, wherever it stands.
	list = regexp.MustCompile(`default(?:,[a-z-]+[<>]?=[0-9.%hmd]+)+|[a-z-]+(?:[<>]?=[0-9.%hmd]+)(?:,[a-z-]+(?:[<>]?=[0-9a-z.%-]+)?)+`)
)

// terms are what every list has that is shown as an example: they get copied.
var terms = []string{"newly-denied", "newly-allowed", "failed", "dropped", "unjudged"}

// TestGates: each list of requirements that a document or a shipped file shows judges who is
// locked out, who is let in, what fails, what was not compared and what was not seen.
func TestGates(t *testing.T) {
	files := documents(t)
	err := filepath.WalkDir(filepath.Join(repository, "deploy"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		files = append(files, document{path: path, text: string(content)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, d := range files {
		for _, gate := range gatesOf(d.text) {
			seen++
			if strings.HasPrefix(gate, "default") {
				continue // it has all of them
			}
			for _, term := range terms {
				if !strings.Contains(gate, term) {
					t.Errorf("%s: the requirements %s have no %s", d.path, gate, term)
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("there are %d lists of requirements, fewer than the documents have", seen)
	}
}

// gatesOf returns the lists of requirements in a text.
func gatesOf(text string) (gates []string) {
	for _, m := range required.FindAllStringSubmatch(text, -1) {
		gates = append(gates, m[1])
	}
	return append(gates, list.FindAllString(text, -1)...)
}

func TestGatesOf(t *testing.T) {
	for text, want := range map[string]int{
		"wait x --require 'requests>=1'": 1, "`default,requests>=10000,callers>=20`": 1, "`requests>=10000,newly-denied=0`": 1, "write `newly-allowed<=5`": 0,
		`--require "$R"`: 0, "R='failed=0,all-nodes'": 1, "`--require`, with commas": 0,
	} {
		if got := gatesOf(text); len(got) != want {
			t.Errorf("%s: got %q, want %d", text, got, want)
		}
	}
}
