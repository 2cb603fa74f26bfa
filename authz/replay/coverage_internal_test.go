package replay

import (
	"testing"

	"understudy/rego/coverage"
)

// TestRequestsOfOneLeafAreCoveredOnce evaluates for coverage once what the policy learns the same of.
func TestRequestsOfOneLeafAreCoveredOnce(t *testing.T) {
	w := workerOf(t, `allow if { input.a == 1; input.b.x == 1 }`)
	w.coverage = newCovering(w.live, w.candidate, coverage.Changes{Candidate: []coverage.Target{{Name: "never"}}})
	of := w.coverage.sides[1]
	for _, test := range []struct {
		document map[string]any
		leaves   int
	}{
		{map[string]any{"a": 2, "b": 1}, 1},
		{map[string]any{"a": 2, "b": 2}, 1},
		{map[string]any{"a": 1, "b": map[string]any{"x": 1}}, 2},
	} {
		w.entry(t.Context(), entryOf(t, test.document, nil, nil))
		if len(of.leaves) != test.leaves {
			t.Errorf("with %v there are %d leaves; want %d", test.document, len(of.leaves), test.leaves)
		}
	}
}
