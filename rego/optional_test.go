package rego_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/rego"
)

func TestOptionalPaths(t *testing.T) {
	p, err := rego.Compile(context.Background(), rego.Source{
		Modules:  map[string]string{"a.rego": "package a\nx := 1\nset contains 2"},
		Data:     map[string]any{"d": map[string]any{"y": 3}},
		Paths:    []string{"a/x"},
		Optional: []string{"a/set", "d/y", "a/nothing", "b/x", "", "//"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"a/x": true, "a/set": true, "d/y": true, "a/nothing": false, "b/x": false, "": false} {
		if got := p.Has(path); got != want {
			t.Errorf("Has(%q) = %v, want %v", path, got, want)
		}
		result, err := p.Eval(context.Background(), path, rego.Input{}, time.Now())
		if (err == nil && result.Defined) != want {
			t.Errorf("Eval(%q) = %v, %v", path, result, err)
		}
	}
}

// TestOptionalFunctionsAreRefused: a rule that is there but cannot be asked is a
// mistake, not an absence.
func TestOptionalFunctionsAreRefused(t *testing.T) {
	got := refusal(t, rego.Source{Modules: map[string]string{"a.rego": "package a\nf(x) := x"}, Optional: []string{"a/f"}})
	if len(got) != 1 || got[0].Path != "a/f" {
		t.Errorf("the problems are %+v", got)
	}
}

func TestDocumentIsACopy(t *testing.T) {
	in := input(t, `{"a": {"b": [1, 2]}}`)
	for range 2 {
		document, err := in.Document()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decode(t, `{"a": {"b": [1, 2]}}`), document); diff != "" {
			t.Fatal(diff)
		}
		document.(map[string]any)["a"].(map[string]any)["b"].([]any)[0] = "changed"
		delete(document.(map[string]any), "a")
	}
}
