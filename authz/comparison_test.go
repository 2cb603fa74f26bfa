package authz

import (
	"math"
	"testing"
)

// TestComparisonsAreBounded: however many comparisons a sidecar has made, no more than
// the bound are kept.
func TestComparisonsAreBounded(t *testing.T) {
	k := &comparisons{}
	fresh := func() *comparison {
		side := &candidate{}
		return k.of(&Request{}, side, side, Decision{rendering: &Rendering{}}, Decision{rendering: &Rendering{}})
	}
	for range maxComparisons + 10 {
		fresh()
	}
	k.size.Store(max(k.size.Load(), math.MaxInt32-5)) // after two thousand million others
	for range 10 {
		fresh()
	}
	kept := 0
	k.known.Range(func(any, any) bool { kept++; return true })
	if kept != maxComparisons {
		t.Errorf("%d comparisons are kept, want %d", kept, maxComparisons)
	}
}

// TestEqualDecisionsShareAComparison: it is made once for all requests on which both
// sides decide so.
func TestEqualDecisionsShareAComparison(t *testing.T) {
	k, side := &comparisons{}, &candidate{}
	live, other := Decision{rendering: &Rendering{}}, Decision{rendering: &Rendering{}}
	first := k.of(&Request{}, side, side, live, other)
	if k.of(&Request{}, side, side, live, other) != first {
		t.Error("it was made twice")
	}
	if k.of(&Request{}, side, side, other, live) == first {
		t.Error("two pairs share one")
	}
}
