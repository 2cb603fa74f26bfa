package report

import (
	"slices"

	evidencepb "understudy/authz/evidence/v1"
)

// merge adds evidence of one content to other evidence of it.
func merge(into, from *evidencepb.Evidence) {
	for _, p := range from.GetPairs() {
		i := slices.IndexFunc(into.Pairs, func(q *evidencepb.Pair) bool { return q.GetPolicyEtag() == p.GetPolicyEtag() })
		if i < 0 {
			into.Pairs = append(into.Pairs, p)
			continue
		}
		mergePair(into.Pairs[i], p)
	}
	if into.Earlier == nil {
		into.Earlier = from.GetEarlier()
	} else {
		mergePair(into.Earlier, from.GetEarlier())
	}
	into.Points = append(into.Points, from.GetPoints()...)
}

// mergePair adds what was compared with one live policy.
func mergePair(into, from *evidencepb.Pair) {
	a, b := into.Counts, from.GetCounts()
	into.Counts = &evidencepb.Counts{
		Unchanged: a.GetUnchanged() + b.GetUnchanged(), NewlyDenied: a.GetNewlyDenied() + b.GetNewlyDenied(),
		NewlyAllowed: a.GetNewlyAllowed() + b.GetNewlyAllowed(), ResponseChanged: a.GetResponseChanged() + b.GetResponseChanged(),
		Failed: a.GetFailed() + b.GetFailed(), LiveFailed: a.GetLiveFailed() + b.GetLiveFailed(), Dropped: a.GetDropped() + b.GetDropped(),
	}
	into.Active = append(into.Active, from.GetActive()...)
	into.Groups = append(into.Groups, from.GetGroups()...)
	into.Endpoints = append(into.Endpoints, from.GetEndpoints()...)
}
