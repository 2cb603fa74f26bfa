package report

import (
	"bytes"
	"testing"

	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// TestCallersAreNoMoreThanRequests, whatever their sketch says.
func TestCallersAreNoMoreThanRequests(t *testing.T) {
	sketch := append([]byte{5}, bytes.Repeat([]byte{9}, 32)...)
	if n := evidence.Callers(sketch); n < 1000 {
		t.Fatalf("the sketch is of %d callers, want many", n)
	}
	if got := difference(&evidencepb.Group{Count: 7, Callers: sketch}).CallerCount; got != 7 {
		t.Errorf("%d callers have made 7 requests", got)
	}
}
