package rego_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"understudy/rego"
)

// causesOf returns the causes of a module without what is only read, one a line.
func causesOf(t *testing.T, file, module string) (out []string) {
	t.Helper()
	p, err := rego.Compile(t.Context(), rego.Source{
		Modules: map[string]string{file: module}, Paths: []string{"envoy/authz/allow"},
		Data: map[string]any{"permissions": map[string]any{"reader": []any{map[string]any{"resource": "orders", "methods": []any{"GET"}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Causes("envoy/authz/allow") {
		if c.Kind != rego.CauseRead {
			out = append(out, fmt.Sprintf("%d %s %s", c.Row, c.Kind, c.What))
		}
		if c.File != file {
			t.Errorf("%+v is in another file than %s", c, file)
		}
	}
	return out
}

func TestTmp(t *testing.T) {
	files, _ := filepath.Glob("../cmd/authzbench/policies/*.rego")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(file)
		for _, c := range causesOf(t, filepath.Base(file), string(text)) {
			fmt.Println("   ", c)
		}
	}
	slices.Sort(files)
}
