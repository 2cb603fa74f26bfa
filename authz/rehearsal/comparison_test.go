package rehearsal

import (
	"math"
	"testing"

	"understudy/authz"
	"understudy/authz/rehearsal/decisionrequest"
)

// interned is a decision that no other shares.
func interned() authz.Decision { return authz.Decision{}.WithRendering(&authz.Rendering{}) }

// TestComparisonsAreBounded: however many comparisons a sidecar has made, no more than
// the bound are kept.
func TestComparisonsAreBounded(t *testing.T) {
	k := &comparisons{}
	fresh := func() *comparison {
		return k.of(&authz.Request{}, &decisionrequest.Live{}, &Experiment{}, interned(), interned())
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
	k, policy, experiment := &comparisons{}, &decisionrequest.Live{}, &Experiment{}
	live, other := interned(), interned()
	first := k.of(&authz.Request{}, policy, experiment, live, other)
	if k.of(&authz.Request{}, policy, experiment, live, other) != first {
		t.Error("it was made twice")
	}
	if k.of(&authz.Request{}, policy, experiment, other, live) == first {
		t.Error("two pairs share one")
	}
}
