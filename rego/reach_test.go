package rego_test

import "testing"

// TestMayRead: what a rule may read is what it and the rules that it can come to name, at, above and below.
func TestMayRead(t *testing.T) {
	for module, want := range map[string]bool{
		`x if input.b`:                               false,
		`x if input.a`:                               true,
		`x if input.a.b.c`:                           true,
		`x if input`:                                 true,
		"x if {\ny := input\ny.b\n}":                 false,
		`x if input[data.name]`:                      true,
		`x if object.get(input, "b", 1) == 2`:        false,
		`x if object.get(input, ["b", "a"], 1) == 2`: false,
		`x if object.get(input, ["a", "c"], 1) == 2`: false,
		`x if object.get(input, ["a", "b"], 1) == 2`: true,
		`x if object.get(input, "a", 1) == 2`:        true,
		`x if object.get(input, [input.c], 1) == 2`:  true,
		`x if object.get(input, "b", input.a) == 2`:  true,
		"x if {\ny := input\ny.c == 1\n}":            false,
		"x if {\ny := input\ny.c == y\n}":            true,
		"x if {\ny := input\nobject.get(y, \"c\", 1) == object.get(y, \"a\", 1)\n}": true,
		"x if {\ny := input\n[z | z := y]\n}":                                       true,
		"x if {\ny := input\n[z | z := y.c]\n}":                                     false,
		"x if f(input)\nf(y) if y.c":                                                true,
		"x if {\ny := input with input as {}\ny.c\n}":                               true,
		"x if f(1)\nf(y) if input.a == y":                                           true,
		"x if data.a.y\ny if input.a":                                               true,
		"x if data.a[\"y\"]\ny if input.a":                                          true,
		"x if not y\ny if input.a":                                                  true,
		"x if input.b\nelse := 1 if input.a":                                        true,
		"x if data.a.y with data.b as input.a\ny := 1":                              true,
		"x if input.b\nunrelated if input.a":                                        false,
	} {
		p := compile(t, "package a\n"+module, nil, "a/x")
		if got := p.MayRead("a/x", "a", "b"); got != want {
			t.Errorf("%s: got %v, want %v", module, got, want)
		}
		if !p.MayRead("a/unknown", "a") {
			t.Error("a path that is not there is said to read nothing")
		}
	}
}
