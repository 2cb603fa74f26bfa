package verdict_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// TestSampledShares: an estimate says how sure it is, and is unknown if it is hardly that.
func TestSampledShares(t *testing.T) {
	counts := func(all, denied int64) *adminpb.Report_ReportCounts {
		return &adminpb.Report_ReportCounts{
			RequestCount: all, UnchangedCount: all - denied, NewlyDeniedCount: denied,
			PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: all, UnchangedCount: all - denied, ResultChangedCount: denied},
		}
	}
	r := report.WithCounts(counts(100, 10))
	r.Estimate, r.UnjudgedItemCount = counts(800, 80), proto.Int64(0)
	for _, c := range []struct {
		effective             float64
		share, words, verdict string
	}{
		{
			30, "about 10%", "about 10% of 800 requests that the live policy allows (95% confidence: 2.1% to 27%; as precise as 30 requests)",
			"10 of 100 requests that the live policy allows would be newly denied (about 10%; 95% confidence: 2.1% to 27%; as precise as 30 requests)",
		},
		{
			29.9, "unknown", "unknown share of 800 requests that the live policy allows",
			"10 of 100 requests that the live policy allows would be newly denied (share unknown)",
		},
	} {
		r.EstimatedShares = []*adminpb.Report_EstimatedShare{{Kind: adminpb.Report_NEWLY_DENIED, EffectiveRequestCount: c.effective}}
		denied := verdict.Kinds[0]
		if share, words, why := verdict.ShareOf(r, denied), verdict.ShareInWords(r, denied), verdict.Of(r).Why; share != c.share || words != c.words || why != c.verdict {
			t.Errorf("as precise as %v requests, it is\n%q\n%q\n%q, want\n%q\n%q\n%q", c.effective, share, words, why, c.share, c.words, c.verdict)
		}
	}
}
