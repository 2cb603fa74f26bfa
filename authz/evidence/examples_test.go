package evidence_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	evidencepb "understudy/authz/evidence/v1"
)

// examplesOf are who asked for what in the examples of the one group of evidence.
func examplesOf(t *testing.T, e *evidencepb.Evidence) (out []string) {
	t.Helper()
	groups := e.GetPairs()[0].GetGroups()
	if len(groups) != 1 {
		t.Fatalf("got %d groups, want one", len(groups))
	}
	for _, e := range groups[0].GetExamples() {
		out = append(out, e.GetPrincipal()+" "+e.GetPath())
	}
	return out
}

// TestExamplesAreOfDifferentCallers: anyone who asks first for many paths does not hide who asks later.
func TestExamplesAreOfDifferentCallers(t *testing.T) {
	tally := newTally()
	at := time.Duration(0)
	ask := func(principal string, number int) {
		at += time.Second
		count(tally, "live", request{method: "GET", path: fmt.Sprintf("/orders/%d", number), principal: principal, live: allowed, experiment: denied, at: at})
	}
	for i := range 9 {
		ask("scanner", i)
	}
	ask("ann", 41)
	ask("scanner", 10)
	ask("ann", 42)
	if got, want := examplesOf(t, tally.Snapshot(begun)), []string{"scanner /orders/0", "scanner /orders/1", "ann /orders/41"}; !slices.Equal(got, want) {
		t.Errorf("got the examples %q, want %q", got, want)
	}
	ask("bob", 43)
	ask("eve", 44)
	if got, want := examplesOf(t, tally.Snapshot(begun)), []string{"scanner /orders/0", "ann /orders/41", "bob /orders/43"}; !slices.Equal(got, want) {
		t.Errorf("got the examples %q, want %q", got, want)
	}
}

// TestExamplesMergeInAnyOrder: a sum has the first example of each caller, whichever sidecar's
// evidence is added first, and in however many steps.
func TestExamplesMergeInAnyOrder(t *testing.T) {
	var parts []*evidencepb.Evidence
	for node, callers := range [][]string{{"scanner", "scanner", "scanner"}, {"scanner", "scanner", "ann"}, {"scanner", "scanner", "bob"}} {
		tally := newTally()
		for i, principal := range callers {
			count(tally, "live", request{
				method: "GET", path: fmt.Sprintf("/orders/%d%d", node, i), principal: principal, live: allowed, experiment: denied,
				at: time.Duration(i) * time.Minute,
			})
		}
		parts = append(parts, tally.Snapshot(begun))
	}
	want := []string{"scanner /orders/00", "ann /orders/12", "bob /orders/22"}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		sum := &evidencepb.Evidence{}
		for _, i := range order {
			merge(sum, parts[i])
		}
		if got := examplesOf(t, sum); !slices.Equal(got, want) {
			t.Errorf("added in the order %v, the examples are %q, want %q", order, got, want)
		}
	}
}
