package verdict_test

import (
	"slices"
	"testing"

	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// TestGroups: what has to be looked at comes before what is expected or accepted, and that before noise.
func TestGroups(t *testing.T) {
	group := func(path string, kind adminpb.Report_Kind) *adminpb.Report_Difference {
		return &adminpb.Report_Difference{Path: path, Kind: kind}
	}
	accepted, exceeded, noise := group("accepted", adminpb.Report_NEWLY_DENIED), group("exceeded", adminpb.Report_NEWLY_DENIED), group("noise", adminpb.Report_NEWLY_DENIED)
	expected := group("expected", adminpb.Report_NEWLY_DENIED)
	accepted.Acceptance, expected.Expectation, exceeded.Expectation, noise.Noise = "a", 1, 2, true
	r := &adminpb.Report{
		Differences:  []*adminpb.Report_Difference{accepted, expected, noise, exceeded, group("changed", adminpb.Report_RESPONSE_CHANGED)},
		Acceptances:  []*adminpb.Acceptance{{Name: "a", State: adminpb.Acceptance_IN_FORCE}},
		Expectations: []*adminpb.Report_ExpectationSummary{{Number: 1}, {Number: 2, ExceededReason: "3 callers, expected are at most 2"}},
	}
	var got []string
	for _, d := range verdict.Groups(r) {
		got = append(got, d.Path)
	}
	if want := []string{"exceeded", "changed", "accepted", "expected", "noise"}; !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
}
