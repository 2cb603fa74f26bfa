package replay

import (
	"testing"

	"understudy/rego/change"
)

// TestRequestsOfOneLeafAreExaminedOnce: of those of which the policies learn the same, one is.
func TestRequestsOfOneLeafAreExaminedOnce(t *testing.T) {
	w := workerOf(t, `allow if { input.a == 1; input.b.x == 1 }`)
	w.items = newExamining(&change.List{Items: []change.Item{{Kind: change.Rule}}})
	for _, test := range []struct {
		document map[string]any
		leaves   int
	}{
		{map[string]any{"a": 2, "b": 1}, 1},
		{map[string]any{"a": 2, "b": 2}, 1},
		{map[string]any{"a": 1, "b": map[string]any{"x": 1}}, 2},
	} {
		w.entry(t.Context(), entryOf(t, test.document, nil, nil))
		if n := len(w.items.leaves); n != test.leaves {
			t.Errorf("with %v there are %d leaves; want %d", test.document, n, test.leaves)
		}
	}
}
