package report

import (
	adminpb "understudy/admin/v1"
	evidencepb "understudy/authz/evidence/v1"
)

// maxReplayedDifferences is the bound that the API documents.
const maxReplayedDifferences = 50

// replayed is what was replayed for the present pair: nil if nothing was. It is kept apart
// from all that requirements are held against.
func replayed(e *evidencepb.Evidence, policyEtag string) *adminpb.Report_ReplayedReport {
	p := pairOf(e.GetReplayed(), policyEtag)
	if p.GetCounts() == nil {
		return nil
	}
	r := &adminpb.Report{}
	setDifferences(r, p)
	addOthers(r, make(map[adminpb.Report_Kind]int64), maxReplayedDifferences)
	counts, _, _ := countsOf(p)
	return &adminpb.Report_ReplayedReport{
		Counts: counts, Differences: r.Differences, OtherDifferences: r.OtherDifferences, Drops: drops(p),
		FirstTime: p.GetFirstTime(), LastTime: p.GetLastTime(),
	}
}
