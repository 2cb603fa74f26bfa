package explain_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"understudy/rego/explain"
)

// TestDecisive explains decisions of one policy, without another one to compare it with.
func TestDecisive(t *testing.T) {
	for name, of := range map[string]struct {
		module, input string
		allowed       bool
		want          []string
	}{
		"a denial by the expression that failed": {
			module: "default allow := false\nallow if {\n\tinput.user\n\tinput.role == \"admin\"\n}", input: `{"user": "ann", "role": "viewer"}`,
			want: []string{`a.rego:5 input.role == "admin"`},
		},
		"a denial deep down": {
			module: "allow if listed\nlisted if input.user in {\"ann\"}", input: `{"user": "eve"}`,
			want: []string{`a.rego:3 input.user in {"ann"}`, "a.rego:2 listed"},
		},
		"a denial by what is forbidden": {
			module: "allow if not forbidden\nforbidden if input.user == \"eve\"", input: `{"user": "eve"}`,
			want: []string{`a.rego:3 input.user == "eve"`, "a.rego:2 not forbidden"},
		},
		"a denial by an element of a set": {
			module: "allow if count(deny) == 0\ndeny contains \"late\" if input.hour > 20", input: `{"hour": 22}`,
			want: []string{"a.rego:3 input.hour > 20", "a.rego:2 count(deny) == 0"},
		},
		"a denial that a rule makes": {
			module: "allow := {\"allowed\": false} if input.user == \"eve\"", input: `{"user": "eve"}`,
			want: []string{`a.rego:2 input.user == "eve"`},
		},
		"a value of another rule": {
			module: "allow := {\"allowed\": ok}\ndefault ok := false\nok if input.user == \"ann\"", input: `{"user": "eve"}`,
			want: []string{`a.rego:4 input.user == "ann"`},
		},
		"an allowance": {
			module: "default allow := false\nallow if input.user == \"eve\"\nallow if {\n\tinput.user == \"ann\"\n\tinput.role == \"admin\"\n}", input: `{"user": "ann", "role": "admin"}`,
			allowed: true, want: []string{`a.rego:5 input.user == "ann"`, `a.rego:6 input.role == "admin"`},
		},
		"an allowance by the value of another rule": {
			module: "allow := {\"allowed\": ok}\nok if input.user == \"ann\"", input: `{"user": "ann"}`,
			allowed: true, want: []string{`a.rego:3 input.user == "ann"`},
		},
		"a constant": {module: "allow := true", input: `{}`, allowed: true, want: []string{"a.rego:2 allow := true"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := comparedCase{path: "envoy/authz/allow"}
			if err := json.NewDecoder(strings.NewReader(of.input)).Decode(&c.input); err != nil {
				t.Fatal(err)
			}
			policy := side{modules: map[string]string{"a.rego": "package envoy.authz\n" + of.module}}
			var got []string
			for _, e := range explain.Decisive(policy.trace(t, c), of.allowed) {
				got = append(got, e.String())
			}
			if diff := cmp.Diff(of.want, got); diff != "" {
				t.Errorf("other causes than are wanted (-want +got):\n%s", diff)
			}
		})
	}
}
