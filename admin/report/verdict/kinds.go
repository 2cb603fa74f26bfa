package verdict

import (
	"cmp"
	"fmt"
	"slices"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// Kind is a way in which decisions differ, as people read it.
type Kind struct {
	Value adminpb.Report_Kind
	// Name is that of a row, Clause what the verdict says of a number of requests.
	Name, Clause string
	// Count is how many requests of a report differ so.
	Count func(*adminpb.Report) int64
}

// Kinds has all kinds, the gravest first: who is locked out, who is let in, and what is
// not decided at all come before what is answered in another way. What the live policy failed to
// decide is last: groups have it, and it is no difference that the experiment makes.
var Kinds = []Kind{
	{adminpb.Report_NEWLY_DENIED, "newly denied", "would be newly denied", (*adminpb.Report).GetNewlyDeniedCount},
	{adminpb.Report_NEWLY_ALLOWED, "newly allowed", "would be newly allowed", (*adminpb.Report).GetNewlyAllowedCount},
	{adminpb.Report_FAILED, "failed", "would fail", (*adminpb.Report).GetFailedCount},
	{adminpb.Report_RESPONSE_CHANGED, "response changed", "would be answered differently", (*adminpb.Report).GetResponseChangedCount},
	{adminpb.Report_LIVE_FAILED, "live failed", "failed in the live policy", (*adminpb.Report).GetLiveFailedCount},
}

// Changes are the kinds of difference that an experiment makes.
var Changes = Kinds[:len(Kinds)-1]

// rankOf is the place of a kind in Kinds.
func rankOf(value adminpb.Report_Kind) int {
	return slices.IndexFunc(Kinds, func(k Kind) bool { return k.Value == value })
}

// NameOf is a kind as people read it.
//
// A kind that this version does not know, of a newer control plane, has the name of the API.
func NameOf(value adminpb.Report_Kind) string {
	if i := rankOf(value); i >= 0 {
		return Kinds[i].Name
	}
	return value.String()
}

// Groups returns the differences, the gravest kind first, and within a kind those of most callers, as the report has
// them. Behind these are those that are expected or accepted, and last those that the live policy has with itself.
//
// The order is that of what one has to look at: a group that the live policy makes without any
// experiment (noise) says least about the change, however often it comes.
func Groups(r *adminpb.Report) []*adminpb.Report_Difference {
	groups := slices.Clone(r.Differences)
	slices.SortStableFunc(groups, func(a, b *adminpb.Report_Difference) int {
		return cmp.Or(cmp.Compare(urgency(r, a), urgency(r, b)), cmp.Compare(rankOf(a.Kind), rankOf(b.Kind)))
	})
	return groups
}

// urgency is the less, the more a difference has to be looked at.
func urgency(r *adminpb.Report, d *adminpb.Report_Difference) int {
	switch {
	case d.Noise:
		return 2
	case report.IsLeftOut(r, d):
		return 1
	default:
		return 0
	}
}

// Answers are what the callers get before and after, such as allowed and 403. They are the
// same if something else of the answer changed: see Difference.changes.
func Answers(d *adminpb.Report_Difference) (before, after string) {
	before, after = answer(d.PolicyStatus), answer(d.ExperimentStatus)
	switch d.Kind {
	case adminpb.Report_FAILED:
		after = "failed"
	case adminpb.Report_LIVE_FAILED:
		before = "failed"
	case adminpb.Report_NEWLY_DENIED:
		after = denial(d.ExperimentStatus)
	case adminpb.Report_NEWLY_ALLOWED:
		before = denial(d.PolicyStatus)
	}
	return before, after
}

// answer is an HTTP status; 0 is that of an answer that allows.
//
// Records keep a status for denials alone: what the upstream answers is not known here.
func answer(status int32) string {
	if status == 0 {
		return "allowed"
	}
	return fmt.Sprint(status)
}

// denial is an HTTP status of a denial, which a reservation call does not have.
func denial(status int32) string {
	if status == 0 {
		return "denied"
	}
	return fmt.Sprint(status)
}
