package main

import (
	"os"
	"path/filepath"
	"regexp"
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
