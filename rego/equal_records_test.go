package rego_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"understudy/rego"
)

// computed :: what is made of the request → a policy that compares it with a value of which nothing else
// is known.
var computed = map[string]string{
	"a comprehension": `out if { c := [v | v := input.x]; c == input.y }`,
	"a part":          `out if { some _, v in input.o; v == input.y }`,
	"an output":       `out if sprintf("a text: %v", [input.x]) == input.y`,
	"one of outputs":  `out if { walk(input.o, [_, v]); v == input.y }`,
	"a package":       `out if data.q == input.y`,
	"an object":       "a[k] := v if some k, v in input.o\nout if a == input.y",
	"a set":           "a contains v if some v in input.o\nout if a == input.y",
	"an array":        `out if [input.x, 1] == input.y`,
	"an element of a set": `s := {["1"]}
out if { c := [v | v := s[input.o.k]]; c == input.y }`,
	"an element of a set, by what was computed": `s := {[1]}
out if { k := [v | v := input.x]; e := s[k]; e == input.y }`,
	"a position in a long array": `long := numbers.range(0, 599)
out if { input.y; some i, _ in long; i > 598; input.x + i == 600 }`,
}

// TestEqualRequestsHaveEqualRecords: what was made of one request is no part of a question, which another
// would not be asked.
func TestEqualRequestsHaveEqualRecords(t *testing.T) {
	for name, rules := range computed {
		t.Run(name, func(t *testing.T) {
			p, err := rego.Compile(context.Background(), rego.Source{Modules: map[string]string{
				"a.rego": "package p\n" + rules, "b.rego": "package q\nx := input.x",
			}, Paths: []string{"p/out"}})
			if err != nil || !p.Evaluates("p/out") {
				t.Fatal("it is not evaluated by ours", err)
			}
			record := func() []rego.Entry {
				in, err := rego.NewInput(map[string]any{"x": 1, "y": "1", "o": map[string]any{"k": []any{"1"}, "l": "2"}})
				if err != nil {
					t.Fatal(err)
				}
				a := p.Ask(context.Background(), rego.RequestOf(in), time.Unix(epoch, 0), true)
				defer a.End()
				if _, err := a.Eval("p/out"); err != nil || a.Record().Once {
					t.Fatal(err, a.Record().Once)
				}
				return slices.Clone(a.Record().Entries)
			}
			if first := record(); len(first) < 2 || !slices.EqualFunc(first, record(), func(a, b rego.Entry) bool { return a.Answer == b.Answer && a.Question.Same(b.Question) }) {
				t.Errorf("an equal request is asked for something else than %v", first)
			}
		})
	}
}
