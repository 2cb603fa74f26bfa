package resourcefile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	adminpb "understudy/admin/v1"
	"understudy/rego/bundle"
)

// readResource is what `apply` reads of a file in a folder, as JSON.
func readResource(text []byte, dir string) ([]byte, error) {
	r, err := Read(text, FromFolder(dir))
	if err != nil {
		return nil, err
	}
	return r.Encoded, nil
}

// dataOf returns the data of a resource.
func dataOf(t *testing.T, encoded []byte) any {
	t.Helper()
	var document struct{ Data any }
	d := json.NewDecoder(bytes.NewReader(encoded))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		t.Fatalf("%v: %s", err, encoded)
	}
	return document.Data
}

// TestApplyReadsWhatImportReads gives the same text to `apply`, as the data of a policy,
// and to `import`, as data.yaml or data.json.
func TestApplyReadsWhatImportReads(t *testing.T) {
	for _, data := range []string{
		"{from: 2026-01-01, at: 2026-01-01T10:00:00Z, quoted: '2026-01-01'}", "{a: yes, b: on, c: true, d: Null, e: ~, f: }",
		"{1: a, true: b, 1.5: c, 2026-01-01: d}", "{a: 0x10, b: 0o17, c: 017, d: 1_000, e: 1e3, f: .5, g: -0}",
		"{a: &a {x: 1, y: 2}, b: {<<: *a, y: 3}, c: {<<: [*a, {x: 9, z: 8}]}, d: *a}",
		"{a: !!str 12, b: \"\\u00e9\\t\", c: 'it''s'}", "{a: [1, [2, {b: 3}]], b: {}, c: []}", `{"a": "\ud83d\ude00", "b": 12345678, "c": 1.50}`,
	} {
		applied, err := readResource([]byte("data: "+data+"\n"), t.TempDir())
		if strings.HasPrefix(data, `{"`) {
			applied, err = readResource([]byte(`{"data": `+data+`}`), t.TempDir())
		}
		if err != nil {
			t.Errorf("%s: %v", data, err)
			continue
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "data.yaml"), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		imported, err := bundle.ReadFolder(context.Background(), os.DirFS(dir), bundle.Options{})
		if err != nil {
			t.Errorf("%s: %v", data, err)
			continue
		}
		want, err := json.Marshal(map[string]any{"data": imported.Data})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(dataOf(t, want), dataOf(t, applied)); diff != "" {
			t.Errorf("%s (-import +apply):\n%s", data, diff)
		}
	}
}

// TestMistakesOfAResource names field and line of the file that the user wrote.
func TestMistakesOfAResource(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "it is empty",
		"# nothing\n":                      "it is empty",
		"[]":                               "line 1: it is a list; a policy or an experiment is an object",
		"- a\n":                            "line 1: it is a list",
		"just text":                        "line 1: it is a text",
		"rules: []\n---\nrules: []\n":      "line 3: another document begins here",
		"rules: []\n...\n--- more\n":       "line 3: another document begins here",
		"{\"rules\": []}\n{\"rules\": []}": "line 1", // yaml's own words
		"rules: []\n...\nmore\n":           "line 2",
		"rules:\n- rego: {}\ndata:\n  a:\n    b: .inf\n":    "line 5: data.a.b: JSON, and so a policy, has no number .inf",
		"data:\n  a: 1\n  b: 2\n  a: 3\n":                   "line 4: data.a: it is there twice; the first one is in line 2",
		"data: {? [1]\n : 2}":                               "line 1: data: a key is text or a number",
		"data: &a\n  b: *a\n":                               "is within itself",
		"displayName: x\nrules: x\n":                        `line 2: rules: unexpected token "x"`,
		"rules:\n- rego: {}\n- rego: {path: [1]}\n":         `line 3: rules[1].rego.path: invalid value for string field path: [`,
		"rules:\n- rego: {}\n  wrong: 1\n":                  `line 3: rules[0] has no field "wrong"`,
		"{\n \"displayName\": \"x\",\n \"rules\": \"x\"\n}": `line 3: rules: unexpected token "x"`,
		"displayName: 7\nrules: []\n":                       "line 1: displayName: invalid value for string field displayName: 7",
		"rules: []\nmodules:\n  a.rego: '@none.rego'\n":     "line 3: modules.a.rego: the module cannot be read: ",
		"rules: []\nmodules:\n  a.rego: '@zero.rego'\n":     "zero.rego is no plain file",
		"rules: []\nmodules:\n  a.rego: '@pipe.rego'\n":     "pipe.rego is no plain file",
		"rules: []\nparent_revision: 7\n":                   "line 2: parent_revision: it is the ID of a revision, or its beginning, such as a0ee1ccd",
		"parentRevision: a\nparent_revision: b\n":           "line 2: parent_revision: the revision is named twice",
	} {
		dir := t.TempDir()
		if err := os.Symlink("/dev/zero", filepath.Join(dir, "zero.rego")); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(filepath.Join(dir, "pipe.rego"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := Read([]byte(text), FromFolder(dir))
		if err == nil {
			err = r.Decode(&adminpb.Policy{}, "HINT")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", text, err, want)
		}
	}
}

// TestAliasesAreBounded: what they expand to, and how deep.
func TestAliasesAreBounded(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&bomb, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	if _, err := readResource([]byte(bomb.String()), t.TempDir()); err == nil || !strings.Contains(err.Error(), "the aliases of the file expand to more than") {
		t.Errorf("the error is %v", err)
	}
}

// BenchmarkKeys reads an object of many keys: the time has to grow as their number does.
func BenchmarkKeys(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		var text strings.Builder
		text.WriteString("data:\n")
		for i := range n {
			fmt.Fprintf(&text, "  key%06d: %d\n", i, i)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := readResource([]byte(text.String()), b.TempDir()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
