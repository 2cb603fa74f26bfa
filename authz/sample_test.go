package authz_test

import (
	"fmt"
	"testing"

	"understudy/authz"
)

// TestSampled: a larger part has all that a smaller one has, and the parts are about as large as
// they say.
func TestSampled(t *testing.T) {
	const all = 20_000
	counts := make(map[float64]int)
	parts := []float64{0, 0.01, 0.5, 0.99, 1}
	for i := range all {
		before := false
		for _, part := range parts {
			kept := authz.Sampled(fmt.Sprint("d", i), part)
			if before && !kept {
				t.Fatalf("d%d is in a smaller part, and not in %v", i, part)
			}
			if before = kept; kept {
				counts[part]++
			}
		}
	}
	for _, part := range parts {
		if got := float64(counts[part]) / all; got < part-0.02 || got > part+0.02 || part == 0 && got != 0 || part == 1 && got != 1 {
			t.Errorf("%v of the requests are in a sample of %v", got, part)
		}
	}
}
