package report_test

import (
	"testing"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// TestWhatWaitsIsWaitedFor: requests in a queue are not compared yet, so that nothing is known of shares, and a
// limit on what was not compared may be met in a moment.
func TestWhatWaitsIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		dropped, waiting   int64
		unreachable        bool
		share, count       string
		shareOfNewlyDenied string
	}{
		"many wait":               {dropped: 500, waiting: 500, share: "33.3% (500 of 1,500), 500 of them wait to be compared", count: "500, 500 of them wait to be compared", shareOfNewlyDenied: "not known yet: 500 requests wait to be compared"},
		"few wait, some are lost": {dropped: 7, waiting: 5, unreachable: true, share: "0.695% (7 of 1,007), 5 of them wait to be compared", count: "7, 5 of them wait to be compared", shareOfNewlyDenied: "0% (0 of 1,000 requests that the live policy allows)"},
	} {
		e := &evidencepb.Evidence{ExperimentEtag: "e", Pairs: []*evidencepb.Pair{{
			PolicyEtag: "p", Counts: &evidencepb.Counts{BothAllow: 1000, Dropped: c.dropped},
			Drops: map[string]int64{"waiting": c.waiting, "queue_full": c.dropped - c.waiting},
		}}}
		r := report.Build(report.Input{PolicyEtag: "p", ExperimentEtag: "e", Evidence: e})
		zero, hundredth := int64(0), 0.01
		results := report.Judge(&adminpb.CommitRequirements{MaxDroppedCount: &zero, MaxDroppedRatio: &hundredth, MaxNewlyDeniedRatio: &hundredth},
			adminpb.Report_RequirementResult_CALL, r, report.Committer{})
		for _, result := range results {
			want := map[string]string{"dropped=0": c.count, "dropped<=1%": c.share, "newly-denied<=1%": c.shareOfNewlyDenied}[result.GetRequirement()]
			if result.GetHave() != want {
				t.Errorf("%s: %s has %q, want %q", name, result.GetRequirement(), result.GetHave(), want)
			}
			if result.GetRequirement() == "dropped=0" && result.GetUnreachable() != c.unreachable {
				t.Errorf("%s: unreachable is %v, want %v", name, result.GetUnreachable(), c.unreachable)
			}
		}
		if len(results) != 3 {
			t.Errorf("%s: %d results", name, len(results))
		}
	}
}
