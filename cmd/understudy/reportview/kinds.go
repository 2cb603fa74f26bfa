package reportview

import (
	"fmt"
	"strings"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
)

// partOf is the number of requests of a group, of all of its endpoint.
//
// "19 of 19" says that the endpoint is closed, where "19 of 5,000" says that one kind of caller is.
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
	return report.Callers(d.CallerCount)
}

// widestAnswer is the most columns of what changed in a response: names of headers can be
// long.
const widestAnswer = 18

// answersOf is what the callers get before and after, such as allowed → 403, or, if that is
// the same, what else changed: header x-plan.
//
// Names of headers are those that a policy sets, so they are cut; statuses never are.
func answersOf(d *adminpb.Report_Difference) string {
	before, after := verdict.Answers(d)
	if before == after && len(d.Changes) > 0 {
		return terminal.Cut(terminal.Line(strings.Join(d.Changes, ", ")), widestAnswer)
	}
	if before == after {
		return before
	}
	return before + " → " + after
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

// groupOf is the ID of a group as `understudy accept` takes it, by which expectation it is covered, and who has accepted it. A report
// of what no server has, as of a replay, has nothing to accept.
//
// For example: "group 4835fd23, accepted by ann: a scanner (1 of at most 2 requests, 1 of at most 2 callers)".
func groupOf(r *adminpb.Report, d *adminpb.Report_Difference) string {
	if d.GroupId == "" || r.ExperimentEtag == "" {
		return ""
	}
	text := "group " + report.ShortID(d.GroupId)
	if expected := verdict.ExpectedAs(r, d); expected != "" {
		text += ", " + terminal.Line(expected)
	}
	if accepted := verdict.Accepted(report.AcceptanceOf(r, d)); accepted != "" {
		text += ", " + terminal.Line(accepted)
	}
	return text
}

// placeOf is where an expression is.
func placeOf(file string, line int32) string {
	return terminal.Line(file) + ":" + fmt.Sprint(line)
}
