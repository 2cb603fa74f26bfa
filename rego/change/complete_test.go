package change_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/cmd/testkit"
	"understudy/rego/change"
)

// compareTexts compares two modules.
func compareTexts(t *testing.T, live, candidate string) *change.Comparison {
	t.Helper()
	source := func(text string) change.Source {
		return change.Source{Modules: map[string]string{"a.rego": "package a\n" + text}, Paths: []string{"a/allow"}}
	}
	c, err := change.Compare(t.Context(), source(live), source(candidate))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEachDifferenceIsAnItem: constants that differ are an item where data cannot tell them apart, and where Rego takes
// them for equal.
func TestEachDifferenceIsAnItem(t *testing.T) {
	for _, c := range []struct{ live, candidate string }{
		{"allow if input.n in [9007199254740993]", "allow if input.n in [9007199254740992]"},
		{`allow if {"a": 9007199254740993}[input.k] == input.n`, `allow if {"a": 9007199254740992}[input.k] == input.n`},
		{"allow if input.n in {1, 9007199254740993}", "allow if input.n in {1, 9007199254740992}"},
		{"allow if input.n in [1.0]", "allow if input.n in [1]"},
		{"allow if input.n == 1.0", "allow if input.n == 1"},
		{"allow := [1e0] if input.n", "allow := [1] if input.n"},
		{"default allow := [9007199254740993]", "default allow := [9007199254740992]"},
		{"allow if input.x == input.y", "allow if input.x == input.x"},
		{"allow if { x := input.a; y := input.b; x < y }", "allow if { x := input.a; y := input.b; y < x }"},
		{"allow if { some x in input.a; some y in input.b; x == y }", "allow if { some x in input.a; some y in input.b; x == x }"},
		{"import rego.v2\nallow if not input.a < f(input.b)\nf(x) := x", "allow if not input.a < f(input.b)\nf(x) := x"},
		{"allow := 1 if input.a else := 2 if input.b", "allow := 2 if input.b else := 1 if input.a"},
	} {
		for _, texts := range [][2]string{{c.live, c.candidate}, {c.candidate, c.live}} {
			if got := compareTexts(t, texts[0], texts[1]).List; got.None() {
				t.Errorf("%q and %q have no item", texts[0], texts[1])
			}
		}
	}
}

// randomValue returns a value of JSON that often resembles others.
func randomValue(r *rand.Rand, depth int) any {
	n := r.IntN(8)
	if depth == 0 {
		n = r.IntN(5)
	}
	switch {
	case n == 0:
		return nil
	case n == 1:
		return r.IntN(2) == 0
	case n < 4:
		return float64(r.IntN(3))
	case n == 4:
		return fmt.Sprint(r.IntN(3))
	case n < 7:
		out := map[string]any{}
		for range r.IntN(4) {
			out[string(rune('a'+r.IntN(4)))] = randomValue(r, depth-1)
		}
		return out
	}
	var out []any
	for range r.IntN(4) {
		out = append(out, randomValue(r, depth-1))
	}
	return out
}

// TestEachDifferenceOfDataIsAnItem compares random documents: there is an item exactly if they differ.
func TestEachDifferenceOfDataIsAnItem(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	document := func() *structpb.Struct {
		s, err := structpb.NewStruct(map[string]any{"d": randomValue(r, 3)})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	source := func(data *structpb.Struct) change.Source {
		return change.Source{Modules: map[string]string{"a.rego": "package a\nallow if data.d == input.d"}, Data: data, Paths: []string{"a/allow"}}
	}
	differ := 0
	for range max(2000, testkit.Cases(20_000)) {
		live, candidate := document(), document()
		c, err := change.Compare(t.Context(), source(live), source(candidate))
		if err != nil {
			t.Fatal(err)
		}
		if equal := proto.Equal(live, candidate); equal != c.List.None() {
			t.Fatalf("%v and %v: equal %t, items %v", live, candidate, equal, c.List.Items)
		} else if !equal {
			differ++
		}
	}
	if differ < 1000 {
		t.Errorf("only %d pairs differ", differ)
	}
}
