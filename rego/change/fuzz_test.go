package change_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/rego/change"
)

// FuzzCompare: two policies that are given are compared without a panic, twice alike; a policy does not differ
// from itself, and what one has beyond the other is found from both sides.
func FuzzCompare(f *testing.F) {
	f.Add("package a\nallow if input.x", "package a\nallow if { input.x; input.y < 3 }", `{"a": [1, 2]}`, `{"a": [2, {"b": 1}]}`)
	f.Add("package a\nimport data.r as x\nf(a) := b if { some b in x[a] } else := 1", "package a\nf(y) := c if { every i, c in data.r[y] { i > c } }", `{}`, `{"r": {"a": {"b": {"c": null}}}}`)
	f.Add("package a\ndefault allow := false\nallow if { 22 > h with input.h as 3 }", "package a\np contains x if { x := [y | y := data[z]; not y == {1, \"a\": 2}][_] }", `{"a": 1}`, `{"a": "1"}`)
	f.Fuzz(func(t *testing.T, live, candidate, liveData, candidateData string) {
		source := func(module, data string) change.Source {
			s := change.Source{Modules: map[string]string{"a.rego": module}, Data: &structpb.Struct{}, Paths: []string{"a/allow", "a/f", "a/p"}}
			if protojson.Unmarshal([]byte(data), s.Data) != nil {
				t.Skip("no JSON object")
			}
			return s
		}
		l, c := source(live, liveData), source(candidate, candidateData)
		there, err := change.Compare(t.Context(), l, c)
		if err != nil {
			t.Skip("no Rego")
		}
		again, err := change.Compare(t.Context(), l, c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(there.List, again.List); diff != "" {
			t.Errorf("the second time the items are others:\n%s", diff)
		}
		back, err := change.Compare(t.Context(), c, l)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := len(there.List.Items), len(back.List.Items); a == 0 != (b == 0) {
			t.Errorf("there are %d items, and %d the other way round", a, b)
		}
		for _, s := range []change.Source{l, c} {
			same, err := change.Compare(t.Context(), s, s)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(same.List.Items); n > 0 {
				t.Errorf("a policy differs from itself in %d items, such as %+v", n, same.List.Items[0])
			}
		}
	})
}
