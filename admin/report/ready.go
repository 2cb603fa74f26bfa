package report

import (
	"slices"
	"strings"

	adminpb "understudy/admin/v1"
)

// decisive are the requirements on differences that change who gets in, with how many
// requests of a report differ so and were not accepted. A response that changed lets nobody in and locks nobody
// out, and what failed in the live policy is not of the experiment.
var decisive = []struct {
	name  string
	count func(*adminpb.Report_ReportCounts) int64
}{
	{newlyDenied, (*adminpb.Report_ReportCounts).GetNewlyDeniedCount},
	{newlyAllowed, (*adminpb.Report_ReportCounts).GetNewlyAllowedCount},
	{failed, (*adminpb.Report_ReportCounts).GetFailedCount},
}

// Ready reports whether a report answers "should I commit?" with yes: all that is required is
// met, and nothing that changes who gets in was left unjudged. A report without requirements
// is ready; whether anything changes is for people to read.
func Ready(r *adminpb.Report) bool { return r.GetRequirementsMet() && len(Unjudged(r)) == 0 }

// Unjudged returns the names of the requirements that a list lacks for its report: there are
// requests that would be newly denied, be newly allowed or fail, and none of the results is
// about them. So "requests>=10000,newly-denied=0" says nothing about a stranger who gets in. A
// report without requirements has none: nothing of it was judged.
func Unjudged(r *adminpb.Report) (names []string) {
	if len(r.GetRequirements()) == 0 {
		return nil
	}
	counts := judged(r, Counts(r))
	for _, d := range decisive {
		about := func(q *adminpb.Report_RequirementResult) bool { return nameOf(q.GetRequirement()) == d.name }
		if d.count(counts) > 0 && !slices.ContainsFunc(r.Requirements, about) {
			names = append(names, d.name)
		}
	}
	return names
}

// nameOf is the name of a term, without its operator and its value.
func nameOf(term string) string {
	if at := strings.IndexAny(term, "<>="); at >= 0 {
		return term[:at]
	}
	return term
}
