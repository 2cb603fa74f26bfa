package report

import (
	"testing"

	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// TestCallersAreNoMoreThanRequests, whatever their sketch says.
func TestCallersAreNoMoreThanRequests(t *testing.T) {
	sketch := []byte{0} // a list of hashes
	for i := range byte(32) {
		sketch = append(sketch, i, 0, 0, 0)
	}
	if n := evidence.Callers(sketch); n != 32 {
		t.Fatalf("the sketch is of %d callers, want 32", n)
	}
	if got := difference(&evidencepb.Group{Count: 7, Callers: sketch}).CallerCount; got != 7 {
		t.Errorf("%d callers have made 7 requests", got)
	}
}
