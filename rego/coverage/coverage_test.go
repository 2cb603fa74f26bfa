package coverage_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"understudy/rego"
	"understudy/rego/coverage"
)

const path = "envoy/authz/allow"

// TestCoverage has traffic exercise the difference of two policies. Each file of testdata
// has both, inputs, one a line, and what is to be reported.
func TestCoverage(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			live, candidate := coverage.Source{Modules: map[string]string{}, Paths: []string{path}}, coverage.Source{Modules: map[string]string{}, Paths: []string{path}}
			var inputs []map[string]any
			want := ""
			for _, f := range archive.Files {
				of, name, _ := strings.Cut(f.Name, "/")
				side := &live
				if of == "candidate" {
					side = &candidate
				}
				switch {
				case f.Name == "inputs":
					for _, line := range strings.Split(strings.TrimSpace(string(f.Data)), "\n") {
						inputs = append(inputs, document(t, line))
					}
				case f.Name == "report":
					want = strings.TrimSpace(string(f.Data))
				case name == "data.json":
					side.Data = document(t, string(f.Data))
				default:
					side.Modules[name] = string(f.Data)
				}
			}
			changes, err := coverage.Diff(t.Context(), live, candidate)
			if err != nil {
				t.Fatal(err)
			}
			lines := append(cover(t, coverage.Live, live, changes.Live, inputs), cover(t, coverage.Candidate, candidate, changes.Candidate, inputs)...)
			for _, data := range changes.Data {
				lines = append(lines, "data "+data)
			}
			if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
				t.Errorf("%s: another report than is wanted (-want +got):\n%s", strings.TrimSpace(string(archive.Comment)), diff)
			}
		})
	}
}

func document(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// cover evaluates all inputs on one side, and returns what is reported of its targets.
func cover(t *testing.T, side coverage.Side, source coverage.Source, targets []coverage.Target, inputs []map[string]any) (out []string) {
	t.Helper()
	p, err := rego.Compile(t.Context(), rego.Source{Modules: source.Modules, Data: source.Data, Paths: source.Paths})
	if err != nil {
		t.Fatal(err)
	}
	tracer := coverage.NewTracer(targets)
	for _, input := range inputs {
		in, err := rego.NewInput(input)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(1_700_000_000, 0)
		got, err := p.Cover(t.Context(), path, in, now, tracer)
		if err != nil {
			t.Fatal(err)
		}
		if want, err := p.Interpret(t.Context(), path, in, now); err != nil || !cmp.Equal(got.Value, want.Value) {
			t.Errorf("with coverage the value of %v is %v, without %v, %v", input, got.Value, want.Value, err)
		}
	}
	for i, seen := range tracer.Seen() {
		what := map[coverage.Seen]string{0: "never", coverage.True: "true", coverage.False: "false", coverage.True | coverage.False: "both"}[seen]
		if targets[i].Done(seen) {
			what += " done"
		}
		out = append(out, fmt.Sprintf("%s %s:%d %s %s", side, targets[i].File, targets[i].Line, targets[i].Name, what))
	}
	return out
}

// TestRulesOfAChain has one tracer watch two paths of a request, whose evaluations have
// nothing to do with one another: what is true on the second is no rule of the first.
func TestRulesOfAChain(t *testing.T) {
	modules := map[string]string{"b.rego": `package b
allow if not refused
refused if { input.x; input.x == "fine" }
`}
	live := coverage.Source{Modules: maps.Clone(modules), Paths: []string{"a/allow", "b/allow"}}
	modules["a.rego"] = `package a
allow if not blocked
blocked if { input.x; input.x == "blocked" }
`
	source := coverage.Source{Modules: modules, Paths: live.Paths}
	changes, err := coverage.Diff(t.Context(), live, source)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rego.Compile(t.Context(), rego.Source{Modules: source.Modules, Paths: source.Paths})
	if err != nil {
		t.Fatal(err)
	}
	in, err := rego.NewInput(document(t, `{"x": "fine"}`))
	if err != nil {
		t.Fatal(err)
	}
	tracer := coverage.NewTracer(changes.Candidate)
	for _, path := range source.Paths {
		if _, err := p.Cover(t.Context(), path, in, time.Unix(1_700_000_000, 0), tracer); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]coverage.Seen{"data.a.allow": coverage.True, "data.a.blocked": coverage.False}
	got := map[string]coverage.Seen{}
	for i, seen := range tracer.Seen() {
		got[changes.Candidate[i].Name] = seen
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("another coverage than is wanted (-want +got):\n%s", diff)
	}
}

// TestAnEvaluationThatFails has rules that were true, one that was not, and one that the
// failure keeps from an end, which is neither.
func TestAnEvaluationThatFails(t *testing.T) {
	source := coverage.Source{Modules: map[string]string{"a.rego": `package envoy.authz
allow if { not other; conflict == 3 }
other if { input.x; input.x == "other" }
conflict := 1 if input.x
conflict := 2 if input.x == "both"
`}, Paths: []string{path}}
	changes, err := coverage.Diff(t.Context(), coverage.Source{}, source)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rego.Compile(t.Context(), rego.Source{Modules: source.Modules, Paths: source.Paths})
	if err != nil {
		t.Fatal(err)
	}
	in, err := rego.NewInput(document(t, `{"x": "both"}`))
	if err != nil {
		t.Fatal(err)
	}
	tracer := coverage.NewTracer(changes.Candidate)
	if _, err := p.Cover(t.Context(), path, in, time.Unix(1_700_000_000, 0), tracer); err == nil {
		t.Fatal("two values for one rule are no failure")
	}
	want := []coverage.Seen{0, coverage.False, coverage.True, coverage.True}
	if diff := cmp.Diff(want, tracer.Seen()); diff != "" {
		t.Errorf("another coverage than is wanted (-want +got):\n%s", diff)
	}
}

// TestBounds has a change of many rules, and of much data.
func TestBounds(t *testing.T) {
	var module strings.Builder
	module.WriteString("package envoy.authz\n")
	data := map[string]any{}
	for i := range 1000 {
		fmt.Fprintf(&module, "allow if { input.x == %d; input.y == %d }\n", i, i)
		data[fmt.Sprint("k", i)] = i
	}
	live := coverage.Source{Modules: map[string]string{"a.rego": "package envoy.authz\nallow if input.z"}, Paths: []string{path}}
	candidate := coverage.Source{Modules: map[string]string{"a.rego": module.String()}, Data: data, Paths: []string{path}}
	changes, err := coverage.Diff(t.Context(), live, candidate)
	if err != nil {
		t.Fatal(err)
	}
	if len(changes.Candidate) != 256 || len(changes.Data) != 64 || !changes.Truncated {
		t.Errorf("got %d targets and %d paths, truncated %v; want 256, 64 and that there are more", len(changes.Candidate), len(changes.Data), changes.Truncated)
	}
}

// TestWhatDoesNotParse has no difference.
func TestWhatDoesNotParse(t *testing.T) {
	bad := coverage.Source{Modules: map[string]string{"a.rego": "pakage"}}
	if _, err := coverage.Diff(t.Context(), coverage.Source{}, bad); err == nil || !strings.Contains(err.Error(), "candidate") {
		t.Errorf("got %v; want an error that names the side", err)
	}
}
