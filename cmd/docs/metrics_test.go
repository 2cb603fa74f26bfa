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
	// instrument is a name of OpenTelemetry's in the source, metric of Prometheus' in a
	// document.
	instrument = regexp.MustCompile(`"(understudy\.[a-z_.]+)"`)
	metric     = regexp.MustCompile(`\bunderstudy_[a-z_]+`)
	// suffix is what Prometheus' names have of the kind and the unit of an instrument.
	suffix = regexp.MustCompile(`(_seconds|_bytes|_ratio)?(_total)?$`)
)

// TestMetrics: the program has each metric that a document names.
func TestMetrics(t *testing.T) {
	known := map[string]bool{}
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != repository && apart(d.Name()):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		content, err := os.ReadFile(path)
		for _, m := range instrument.FindAllStringSubmatch(string(content), -1) {
			known[strings.ReplaceAll(m[1], ".", "_")] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents(t) {
		for _, name := range metric.FindAllString(d.text, -1) {
			// A policy's own labels are attributes of records, and Loki's name for one has no dots.
			label := strings.HasPrefix(name, "understudy_label_")
			if !label && !known[name] && !known[suffix.ReplaceAllString(name, "")] {
				t.Errorf("%s: no metric is called %s", d.path, name)
			}
		}
	}
}
