package compile_test

import (
	"errors"
	"strings"
	"testing"

	"understudy/rego"
	"understudy/rego/compile"
)

// TestCyclesAreRefused: OPA ends the process where a variable is bound to what contains it.
func TestCyclesAreRefused(t *testing.T) {
	for body, refused := range map[string]bool{
		`f(0)` + "\n}\nf(x) if {\ny := {1: true | some z; {x} = x; z = 1}\ny":                true,
		`some x in input.l; y := [1 | x = [x]]; y`:                                           true,
		`some x in input.l; y := [1 | x = {"a": [x]}]; y`:                                    true,
		`some x in input.l; y := [1 | [x, 1] = [[x], 1]]; y`:                                 true,
		`some x in input.l; y := [1 | {"a": x} = {"a": {x}}]; y`:                             true,
		`some x in input.l; some y in input.l; z := [1 | x = [y]; y = [x]]; z`:               true,
		`some x in input.l; some y in input.l; z := [1 | x = y; y = [x]]; z`:                 true,
		`some x in input.l; some y in input.l; x = [y]; z := [1 | y = [x]]; z`:               true,
		`some x in input.l; every y in input.l { x = [[x, y]] }`:                             true,
		`some x in input.l; y := [1 | not x = [x]]; y`:                                       true,
		`some x in input.l; some y in input.l; x = [y]; y = "a"`:                             false,
		`some x in input.l; x = [input.o[x]]`:                                                false,
		`some x in input.l; x = [count(x)]`:                                                  false,
		`some x in input.l; some y in input.l; a := [1 | x = [y]]; b := [1 | y = [x]]; a; b`: false,
		`[x, y] = [input.a, [x]]; y != x`:                                                    false,
		`x := input.a; y := {x}; y = {x}`:                                                    false,
	} {
		_, err := rego.Compile(t.Context(), rego.Source{
			Modules: map[string]string{"a.rego": "package p\nallow if {\n" + body + "\n}"}, Paths: []string{"p/allow"},
		})
		var problem *compile.Error
		switch {
		case refused && (!errors.As(err, &problem) || !strings.Contains(err.Error(), "it would be a part of itself") || problem.Problems[0].Row == 0):
			t.Errorf("%s: error %v, want one that says that the value would be a part of itself", body, err)
		case !refused && err != nil:
			t.Errorf("%s: %v", body, err)
		}
	}
}
