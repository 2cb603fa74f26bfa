package table_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// row is one change: a file of testdata, in the form that README.md describes.
type row struct {
	name, title     string
	live, candidate policy
	items           []item
	templates       map[string]*template
	// mixes :: meets, never or once → what its requests are made of.
	mixes map[string][]part
	// truths :: a traffic → what is true of it.
	truths map[string]*truth
	// unknowable :: a traffic → what no verdict about it can know, in a sentence.
	unknowable map[string]string
	// known :: a traffic → why the product is known to say something else than is true.
	known map[string]string
}

// policy is one side of a change.
type policy struct {
	modules map[string]string
	data    map[string]any
}

// readRow reads a file of testdata.
func readRow(t *testing.T, file string) *row {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(content)
	r := &row{
		name: strings.TrimSuffix(filepath.Base(file), ".txtar"), title: strings.TrimSpace(string(archive.Comment)),
		live: newPolicy(), candidate: newPolicy(), templates: make(map[string]*template), mixes: make(map[string][]part),
		truths: make(map[string]*truth), unknowable: make(map[string]string), known: make(map[string]string),
	}
	readers := map[string]func(line string) error{
		"items": r.readItem, "requests": r.readTemplate, "traffic": r.readMix, "truth": r.readTruth,
		"cannot-know": func(line string) error { return readSentence(r.unknowable, line) },
		"known-wrong": func(line string) error { return readSentence(r.known, line) },
	}
	for _, section := range archive.Files {
		read := func() error { return readLines(section.Data, readers[section.Name]) }
		if readers[section.Name] == nil {
			read = func() error { return r.readFile(section.Name, section.Data) }
		}
		if err := read(); err != nil {
			t.Fatalf("%s: %s: %v", file, section.Name, err)
		}
	}
	return r
}

// readLines has each line read that is neither empty nor a comment.
func readLines(section []byte, read func(line string) error) error {
	for line := range strings.Lines(string(section)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		if err := read(line); err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
	}
	return nil
}

func newPolicy() policy { return policy{make(map[string]string), make(map[string]any)} }

// readFile takes a module or data.json of one side, or of both.
func (r *row) readFile(name string, content []byte) error {
	sides := []*policy{&r.live, &r.candidate}
	if rest, of := strings.CutPrefix(name, "live/"); of {
		name, sides = rest, sides[:1]
	} else if rest, of := strings.CutPrefix(name, "candidate/"); of {
		name, sides = rest, sides[1:]
	}
	for _, side := range sides {
		switch {
		case name != "data.json":
			side.modules[name] = string(content)
		case json.Unmarshal(content, &side.data) != nil:
			return fmt.Errorf("it is no JSON object")
		default:
			side.data = withRows(side.data).(map[string]any)
		}
	}
	return nil
}

// TestRows: each row says all that it has to, and nothing that contradicts itself.
func TestRows(t *testing.T) {
	kinds := make(map[string]int)
	for _, r := range readRows(t) {
		kind, _, _ := strings.Cut(r.title, " ")
		kinds[kind]++
		for _, traffic := range traffics {
			for _, problem := range r.contradictions(traffic) {
				t.Errorf("%s, %s: %s", r.name, traffic, problem)
			}
		}
		for _, problem := range r.misplaced() {
			t.Errorf("%s: %s", r.name, problem)
		}
	}
	if n := kinds["Refactoring:"]; n < 8 {
		t.Errorf("there are %d refactorings; want at least 8", n)
	}
}

// readRows reads all rows, in order.
func readRows(t *testing.T) (rows []*row) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 40 {
		t.Errorf("there are %d rows; want at least 40", len(files))
	}
	for _, file := range files {
		rows = append(rows, readRow(t, file))
	}
	return rows
}
