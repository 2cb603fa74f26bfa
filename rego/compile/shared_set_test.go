package compile_test

import (
	"strings"
	"testing"

	"understudy/rego"
)

// TestSharedSetsAreRefused: OPA adds to the set that is the value of a rule, for all requests from there on.
func TestSharedSetsAreRefused(t *testing.T) {
	for rules, refused := range map[string]bool{
		"r[k] := {\"a\"} if some k in input.l\nr[\"x\"] contains \"b\" if input.b":                   true,
		"r[k] := s if some k in input.l\ns := {\"a\"}\nr.x contains \"b\" if input.b":                true,
		"r[k] := {x | some x in input.l} if some k in input.l\nr.x contains \"b\" if input.b":        true,
		"r[k].y := {\"a\"} if some k in input.l\nr.x[z] contains \"b\" if some z in input.l":         true,
		"r[k] contains \"a\" if some k in input.l\nr[\"x\"] contains \"b\" if input.b":               false,
		"r[k] := [\"a\"] if some k in input.l\nr[\"x\"] contains \"b\" if input.b":                   false,
		"r[k] := {\"a\"} if some k in input.l\nr.x.y contains \"b\" if input.b":                      false,
		"r[k].y := {\"a\"} if some k in input.l\nr.x.z contains \"b\" if input.b":                    false,
		"r.y := {\"a\"}\nr.x contains \"b\" if input.b":                                              false,
		"r[k] contains \"a\" if some k in input.l\nr[\"x\"] := {\"b\"} if input.b":                   false,
		"s[k] := {\"a\"} if some k in input.l\nr[\"x\"] contains \"b\" if input.b\nt := [r.x, s[_]]": false,
	} {
		_, err := rego.Compile(t.Context(), rego.Source{
			Modules: map[string]string{"a.rego": "package p\n" + rules}, Paths: []string{"p/r"},
		})
		if refused != (err != nil) || refused && !strings.Contains(err.Error(), "Write that rule with contains") {
			t.Errorf("%s\nrefused: %v, with the error %v", rules, refused, err)
		}
	}
}
