package explain_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"understudy/rego"
	"understudy/rego/explain"
)

// TestCompare explains differences between realistic policies. Each file of testdata has
// the modules and the data of both sides, an input, and the causes, the decisive one first.
func TestCompare(t *testing.T) {
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
			c := readCase(t, archive)
			var got []string
			for _, e := range explain.Compare(c.live.trace(t, c), c.candidate.trace(t, c)) {
				got = append(got, e.String())
			}
			want := strings.Split(strings.TrimSpace(c.causes), "\n")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: other causes than are wanted (-want +got):\n%s", strings.TrimSpace(string(archive.Comment)), diff)
			}
		})
	}
}

type side struct {
	modules map[string]string
	data    map[string]any
}

type comparedCase struct {
	live, candidate side
	path            string
	input           map[string]any
	causes          string
}

func readCase(t *testing.T, archive *txtar.Archive) comparedCase {
	t.Helper()
	c := comparedCase{
		path: "envoy/authz/allow", live: side{modules: map[string]string{}}, candidate: side{modules: map[string]string{}},
	}
	document := func(data []byte) (out map[string]any) {
		decoder := json.NewDecoder(strings.NewReader(string(data)))
		decoder.UseNumber()
		if err := decoder.Decode(&out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, f := range archive.Files {
		of, name, _ := strings.Cut(f.Name, "/")
		s := &c.live
		if of == "candidate" {
			s = &c.candidate
		}
		switch {
		case f.Name == "input.json":
			c.input = document(f.Data)
		case f.Name == "path":
			c.path = strings.TrimSpace(string(f.Data))
		case f.Name == "causes":
			c.causes = string(f.Data)
		case name == "data.json":
			s.data = document(f.Data)
		case of == "both":
			c.live.modules[name], c.candidate.modules[name] = string(f.Data), string(f.Data)
		default:
			s.modules[name] = string(f.Data)
		}
	}
	return c
}

// trace evaluates a side.
func (s side) trace(t *testing.T, c comparedCase) explain.Trace {
	t.Helper()
	p, err := rego.Compile(t.Context(), rego.Source{Modules: s.modules, Data: s.data, Optional: []string{c.path}})
	if err != nil {
		t.Fatal(err)
	}
	in, err := rego.NewInput(c.input)
	if err != nil {
		t.Fatal(err)
	}
	trace, err := p.Trace(t.Context(), c.path, in, time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(trace)
	if err != nil {
		t.Fatal(err)
	}
	var crossed explain.Trace
	if err := json.Unmarshal(encoded, &crossed); err != nil {
		t.Fatal(err)
	}
	return crossed
}

// TestATraceHasNothingOfTheRequest looks for values of the input and of the data.
func TestATraceHasNothingOfTheRequest(t *testing.T) {
	s := side{
		modules: map[string]string{"a.rego": `package envoy.authz

allow if {
	some user in data.users
	token := trim_prefix(input.headers.authorization, "Bearer ")
	user.token == token
	names[token]
}

names[n] := true if n := input.name
`},
		data: map[string]any{"users": []any{map[string]any{"token": "hidden-in-data"}}},
	}
	c := comparedCase{path: "envoy/authz/allow", input: map[string]any{
		"name": "hidden-name", "headers": map[string]any{"authorization": "Bearer hidden-in-data"},
	}}
	encoded, err := json.Marshal(s.trace(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(encoded), "hidden") {
		t.Errorf("the trace has a value: %s", encoded)
	}
	if !strings.Contains(string(encoded), "user.token == token") {
		t.Errorf("the trace does not have the policy: %s", encoded)
	}
}

// TestBounds has a policy of many rules with long expressions, which nothing of a trace
// grows with.
func TestBounds(t *testing.T) {
	var module strings.Builder
	module.WriteString("package envoy.authz\n")
	for range 2000 {
		module.WriteString("allow if { input.x == \"ä#" + strings.Repeat("ö", 200) + "\" # a comment\n }\n")
	}
	s := side{modules: map[string]string{"a.rego": module.String()}}
	c := comparedCase{path: "envoy/authz/allow", input: map[string]any{"x": "a"}}
	trace := s.trace(t, c)
	if n := len(trace.Rules); n != 256 {
		t.Errorf("got %d rules, want 256", n)
	}
	text := trace.Rules[0].Body[0].Text
	if len(text) > 120 || !strings.HasPrefix(text, `input.x == "ä#öö`) || !strings.HasSuffix(text, "ö…") {
		t.Errorf("got %q of %d bytes; want 120 at most, cut between two letters", text, len(text))
	}
	if got := explain.Compare(trace, trace); len(explain.Compare(explain.Trace{}, trace)) != 3 || len(got) > 3 {
		t.Errorf("got %v; want three causes at most", got)
	}
}

// TestEqualPolicies has no differences to explain in what both allow.
func TestEqualPolicies(t *testing.T) {
	s := side{modules: map[string]string{"a.rego": "package envoy.authz\nallow if ok\nok if input.x\nok if input.y"}}
	trace := s.trace(t, comparedCase{path: "envoy/authz/allow", input: map[string]any{"x": true}})
	if got := explain.Compare(trace, trace); len(got) > 0 {
		t.Errorf("got %v; want no causes", got)
	}
}
