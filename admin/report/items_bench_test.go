package report_test

import (
	"fmt"
	"testing"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// BenchmarkManyItems makes a report of as many items as are examined, half of which were seen, with an acceptance of
// each of the first hundred, and finds the sentences of all of them.
func BenchmarkManyItems(b *testing.B) {
	list := &change.List{Digest: []byte("d")}
	shown := make([]int32, change.MaxItems)
	for i := range shown {
		id := fmt.Sprintf("%020x", i)
		list.Items = append(list.Items, change.Item{
			ID: id, Kind: change.Data, Path: fmt.Sprintf("data.users.u%d", i), Table: fmt.Sprintf("data.users%d", i%64), Live: "1", Candidate: "2",
		})
		shown[i] = int32(i % 2)
	}
	in := report.Input{
		PolicyEtag: "p", ExperimentEtag: "e", Change: list,
		Evidence: &evidencepb.Evidence{ExperimentEtag: "e", Pairs: []*evidencepb.Pair{{
			PolicyEtag: "p", Items: []*evidencepb.Items{{Digest: list.Digest, Shown: shown, Untrue: make([]int32, len(shown))}},
		}}},
	}
	for b.Loop() {
		r := report.Build(in)
		var acceptances []*adminpb.Acceptance
		for i := range 100 {
			acceptances = append(acceptances, &adminpb.Acceptance{
				Name: fmt.Sprint("a", i), PolicyEtag: "p", ExperimentEtag: "e", Target: &adminpb.Acceptance_ItemId{ItemId: list.Items[2*i].ID},
			})
		}
		report.SetAcceptances(r, acceptances, report.AcceptanceContext{Change: list})
		if n := r.GetAcceptedItemCount(); n != 100 {
			b.Fatalf("%d items are accepted", n)
		}
		for _, item := range verdict.NotSeen(r) {
			_ = verdict.Item(item)
		}
	}
}
