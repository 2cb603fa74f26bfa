package report_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// TestReplayedIsNoEvidence builds a report with and without what was replayed: all else is the
// same, and requirements that the replayed requests alone would meet are not met.
func TestReplayedIsNoEvidence(t *testing.T) {
	replayed := proto.CloneOf(evidence().Pairs[0])
	replayed.Counts = &evidencepb.Counts{BothAllow: 99_000, NewlyDenied: 900, Dropped: 1}
	replayed.Drops = map[string]int64{"queue_bytes": 1}
	for i := range 60 {
		replayed.Groups = append(replayed.Groups, &evidencepb.Group{
			Kind: int32(adminpb.Report_FAILED), Method: "GET", Pattern: "/x", Rule: fmt.Sprint(i), Count: 1,
		})
	}
	earlier := &evidencepb.Pair{PolicyEtag: "p1", Counts: &evidencepb.Counts{BothAllow: 5}}
	both := evidence()
	both.Replayed = []*evidencepb.Pair{earlier, replayed}
	want := report.Build(report.Input{Name: reportName, PolicyEtag: "p2", ExperimentEtag: "e", Evidence: evidence()})
	got := report.Build(report.Input{Name: reportName, PolicyEtag: "p2", ExperimentEtag: "e", Evidence: both})
	part := got.Replayed
	got.Replayed = nil
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("what was replayed changes the rest of the report:\n%s", diff)
	}
	if c := part.GetCounts(); c.GetRequestCount() != 99_900 || c.GetNewlyDeniedCount() != 900 || c.GetDroppedCount() != 1 {
		t.Errorf("got the counts %v", c)
	}
	var others int64
	for _, k := range part.GetOtherDifferences() {
		others += k.GetRequestCount()
	}
	// 13 groups are left out, of 14 requests, and a request was in no group before.
	if n := len(part.GetDifferences()); n != 50 || others != 15 || part.GetDifferences()[0].GetKind() != adminpb.Report_NEWLY_DENIED {
		t.Errorf("got %d differences and %d requests of others; want 50 and 15", n, others)
	}
	if !proto.Equal(part.GetFirstTime(), at(50)) || !proto.Equal(part.GetLastTime(), at(99)) || len(part.GetDrops()) != 1 {
		t.Errorf("got %v to %v, and %v", part.GetFirstTime(), part.GetLastTime(), part.GetDrops())
	}
	for _, e := range part.GetDifferences()[0].GetExamples() {
		if e.GetPath() == "/a/1?token=secret" {
			t.Error("an example has a query")
		}
	}

	alone := &evidencepb.Evidence{ExperimentEtag: "e", Replayed: []*evidencepb.Pair{replayed}}
	r := report.Build(report.Input{Name: reportName, PolicyEtag: "p2", ExperimentEtag: "e", Evidence: alone})
	required := &adminpb.CommitRequirements{MinRequestCount: 1, MaxUnjudgedCount: proto.Int64(9)}
	report.SetResults(r, nil, required, report.Committer{})
	if len(report.Unmet(r)) != 2 {
		t.Errorf("got %v, want that neither requirement is met", r.GetRequirements())
	}
}
