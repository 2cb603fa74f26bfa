package verdict_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"understudy/admin/report"
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

// TestStateOfRequirement: what is met is met, and what is not says whether traffic or people can change that.
func TestStateOfRequirement(t *testing.T) {
	r := &adminpb.Report{RequestCount: 9, UnjudgedItemCount: proto.Int64(1), ItemCount: 1, Requirements: []*adminpb.Report_RequirementResult{{Requirement: "requests>=1", Met: true}}}
	for want, q := range map[string]*adminpb.Report_RequirementResult{
		"met":                    {Requirement: "unjudged=0", Met: true},
		"not met":                {Requirement: "newly-denied<=1%"},
		"not met: people decide": {Requirement: "newly-denied=0", Unreachable: true},
		"can no longer be met":   {Requirement: "taken-back=0", Unreachable: true},
	} {
		if got := verdict.StateOfRequirement(r, q); got != want {
			t.Errorf("%v: got %q, want %q", q, got, want)
		}
	}
	for _, met := range []string{"unjudged=0", "different-committer", "confirmed", "newly-denied=0"} {
		if report.IsForPeople(r, &adminpb.Report_RequirementResult{Requirement: met, Met: true}) {
			t.Errorf("%s is met, and for people", met)
		}
	}
}
