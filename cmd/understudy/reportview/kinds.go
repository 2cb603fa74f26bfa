package reportview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// kind is a way in which decisions differ, as people read it.
type kind struct {
	value adminpb.Report_Kind
	// name is that of a row, clause what the verdict says of a number of requests.
	name, clause string
	// count is how many requests of a report differ so.
	count func(*adminpb.Report) int64
}

// kinds has all kinds, the gravest first: who is locked out, who is let in, and what is
// not decided at all come before what is answered in another way.
var kinds = []kind{
	{adminpb.Report_NEWLY_DENIED, "newly denied", "would be newly denied", (*adminpb.Report).GetNewlyDeniedCount},
	{adminpb.Report_NEWLY_ALLOWED, "newly allowed", "would be newly allowed", (*adminpb.Report).GetNewlyAllowedCount},
	{adminpb.Report_FAILED, "failed", "would fail", (*adminpb.Report).GetFailedCount},
	{adminpb.Report_RESPONSE_CHANGED, "response changed", "would be answered differently", (*adminpb.Report).GetResponseChangedCount},
	{adminpb.Report_LIVE_FAILED, "live failed", "failed in the live policy", (*adminpb.Report).GetLiveFailedCount},
}

// rankOf is the place of a kind in kinds.
func rankOf(value adminpb.Report_Kind) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.value == value })
}

// nameOfKind is a kind as people read it.
func nameOfKind(value adminpb.Report_Kind) string {
	if i := rankOf(value); i >= 0 {
		return kinds[i].name
	}
	return value.String()
}

// groupsOf returns the differences, the gravest kind first, and those that the live
// policy has with itself last; within a kind the most frequent first, as the report has
// them.
func groupsOf(r *adminpb.Report) []*adminpb.Report_Difference {
	groups := slices.Clone(r.Differences)
	slices.SortStableFunc(groups, func(a, b *adminpb.Report_Difference) int {
		noise := 0
		switch {
		case a.Noise && !b.Noise:
			noise = 1
		case b.Noise && !a.Noise:
			noise = -1
		}
		return cmp.Or(noise, cmp.Compare(rankOf(a.Kind), rankOf(b.Kind)), cmp.Compare(b.RequestCount, a.RequestCount))
	})
	return groups
}

// partOf is the number of requests of a group, of all of its endpoint.
func partOf(d *adminpb.Report_Difference) string {
	if d.EndpointRequestCount == 0 {
		return report.Number(d.RequestCount)
	}
	return report.Number(d.RequestCount) + " of " + report.Number(d.EndpointRequestCount)
}

// endpointOf is the method and the path pattern of a group.
func endpointOf(d *adminpb.Report_Difference) string { return terminal.Line(d.Method + " " + d.Path) }

// callersOf is how many callers a group has, or who it is if there is one alone.
func callersOf(d *adminpb.Report_Difference) string {
	if d.CallerCount == 0 {
		return "-"
	}
	return report.Number(d.CallerCount)
}

// widestAnswer is the most columns of what changed in a response: names of headers can be
// long.
const widestAnswer = 18

// answersOf is what the callers get before and after, such as allowed → 403, or, if that is
// the same, what else changed: header x-plan.
func answersOf(d *adminpb.Report_Difference) string {
	before, after := answer(d.PolicyStatus), answer(d.ExperimentStatus)
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
	if before == after && len(d.Changes) > 0 {
		return terminal.Cut(terminal.Line(strings.Join(d.Changes, ", ")), widestAnswer)
	}
	if before == after {
		return before
	}
	return before + " → " + after
}

// answer is an HTTP status; 0 is that of an answer that allows.
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

// reasonOf is what the side that denies says, with its rule: "orders: the scope is
// missing".
func reasonOf(d *adminpb.Report_Difference) string {
	switch {
	case d.Rule == "":
		return terminal.Line(d.Reason)
	case d.Reason == "":
		return "rule " + terminal.Line(d.Rule)
	default:
		return "rule " + terminal.Line(d.Rule) + ": " + terminal.Line(d.Reason)
	}
}

// placeOf is where an expression is.
func placeOf(file string, line int32) string {
	return terminal.Line(file) + ":" + fmt.Sprint(line)
}
