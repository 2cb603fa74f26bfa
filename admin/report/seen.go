package report

import (
	"slices"

	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// Seen is what was seen of a group with all live policies that the present content of an
// experiment was compared with: acceptances are held against it, so that a change of the live
// policy lets nobody begin anew.
type Seen struct {
	RequestCount int64
	// callers are the stored sets of all pairs.
	callers [][]byte
}

// SeenOf returns what was seen of each group, by the ID of the group. The input is that of [Build].
func SeenOf(in Input) map[string]Seen {
	out := make(map[string]Seen)
	if in.Evidence.GetExperimentEtag() != in.ExperimentEtag {
		return out
	}
	for _, p := range pairs(in.Evidence) {
		for _, g := range p.GetGroups() {
			id := GroupID(g)
			seen := out[id]
			seen.RequestCount += g.GetCount()
			seen.callers = append(seen.callers, g.GetCallers())
			out[id] = seen
		}
	}
	return out
}

// identity is a difference with all that makes a group that group.
func identity(g *evidencepb.Group) *adminpb.Report_Difference {
	return &adminpb.Report_Difference{
		Kind: adminpb.Report_Kind(g.GetKind()), Method: g.GetMethod(), Path: g.GetPattern(), Rule: g.GetRule(), Reason: g.GetReason(),
		PolicyStatus: g.GetPolicyStatus(), ExperimentStatus: g.GetExperimentStatus(), Changes: slices.Clone(g.GetChanges()),
		Expectation: g.GetExpectation(), CauseUnknown: evidence.CauseOf(g) == "" && g.GetKind() != int32(adminpb.Report_LIVE_FAILED),
	}
}

// Callers returns the stored set of all callers, and about how many they are.
func (s Seen) Callers() (stored []byte, n int64) {
	stored = evidence.JoinCallers(s.callers...)
	return stored, min(evidence.Callers(stored), s.RequestCount)
}

// callersWith returns about how many callers there are, together with those of an acceptance,
// which are stored in known and were at most so many. Where only an estimate has grown, there is
// no other caller; where there is one, no estimate hides it.
func (s Seen) callersWith(known []byte, most int64) int64 {
	before := evidence.Callers(known)
	if !evidence.OtherCallers(known, s.callers...) {
		return min(before, most)
	}
	return max(before+1, evidence.Callers(append([][]byte{known}, s.callers...)...))
}
