package decisionlog

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPointers removes and sets what a pointer leads to in one document.
func TestPointers(t *testing.T) {
	const document = `{"a": {"b": [1, [2, 3], null]}, "": 0, "c/d": 1, "e~f": 2, "%41": 3, "A": 4, "g h": 5}`
	for _, c := range []struct{ pointer, removed, set string }{
		{"/a/b/0", `{"a": {"b": [[2, 3], null]}}`, `{"a": {"b": ["x", [2, 3], null]}}`},
		{"/a/b/1/0", `{"a": {"b": [1, [3], null]}}`, `{"a": {"b": [1, ["x", 3], null]}}`},
		{"/a/b/2", `{"a": {"b": [1, [2, 3]]}}`, `{"a": {"b": [1, [2, 3], "x"]}}`},
		{"/a/b/2/y", "", ""},
		{"/a/b/3", "", ""},
		{"/a/b/-1", "", ""},
		{"/a/b/z", "", ""},
		{"/", `{"": null}`, `{"": "x"}`},
		{"/c~1d", `{"c/d": null}`, `{"c/d": "x"}`},
		{"/c%2fd", `{"c/d": null}`, `{"c/d": "x"}`},
		{"/e~0f", `{"e~f": null}`, `{"e~f": "x"}`},
		{"/%41", `{"%41": null}`, `{"%41": "x"}`},
		{"/g%20h", `{"g h": null}`, `{"g h": "x"}`},
		{"/new/y", "", `{"new": {"y": "x"}}`},
		{"/A/y", "", ""},
	} {
		p, err := parsePointer(c.pointer)
		if err != nil {
			t.Fatal(err)
		}
		for verb, want := range map[string]string{"remove": c.removed, "upsert": c.set} {
			got := read(t, document)
			done := p.remove
			if verb == "upsert" {
				done = func(tree map[string]any) bool { return p.upsert(tree, "x") }
			}
			if ok := done(got); ok != (want != "") {
				t.Errorf("%s %s: done is %v", verb, c.pointer, ok)
			}
			if diff := cmp.Diff(merged(t, read(t, document), want), compact(got)); diff != "" {
				t.Errorf("%s %s: %s", verb, c.pointer, diff)
			}
		}
	}
	for _, bad := range []string{"", "a", "a/b"} {
		if _, err := parsePointer(bad); err == nil {
			t.Errorf("%q is taken for a pointer", bad)
		}
	}
}

func read(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// merged returns a document with the members of another; one that is null is left out.
func merged(t *testing.T, document map[string]any, members string) any {
	t.Helper()
	if members == "" {
		return document
	}
	for key, value := range read(t, members) {
		document[key] = value
		if value == nil {
			delete(document, key)
		}
	}
	return document
}

// FuzzPointer parses any text: a pointer is written as it was, but for escapes that
// say nothing, and leads to what it has set.
func FuzzPointer(f *testing.F) {
	for _, s := range []string{"/a", "/a~1b/~0", "//", "/%", "/~01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePointer(text)
		if err != nil {
			return
		}
		again, err := parsePointer(p.String())
		if diff := cmp.Diff(p, again); err != nil || diff != "" {
			t.Fatalf("%q becomes %q: %v %s", text, p, err, diff)
		}
		tree := map[string]any{}
		if !p.upsert(tree, "x") || !p.remove(tree) {
			t.Fatalf("%q does not lead to what it has set", text)
		}
	})
}
