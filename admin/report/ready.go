package report

import (
	"slices"
	"strings"

	adminpb "understudy/admin/v1"
)

// decisive are the requirements on what decides whether a report can be trusted and what those get who are let
// in, with how many requests of a report are such, or items. A response is among them: what a header says to the
// service behind may be a role. Of up to a hundredth that was not compared nobody has to say anything. Where it
// cannot be found out in what the policies differ, that is one item that nobody has seen.
var decisive = []struct {
	name  string
	count func(*adminpb.Report) int64
}{
	{newlyDenied, notAccepted(adminpb.Report_NEWLY_DENIED)},
	{newlyAllowed, notAccepted(adminpb.Report_NEWLY_ALLOWED)},
	{responseChanged, notAccepted(adminpb.Report_RESPONSE_CHANGED)},
	{failed, notAccepted(adminpb.Report_FAILED)},
	{dropped, func(r *adminpb.Report) int64 {
		if !Incomplete(r) {
			return 0
		}
		n, _ := NotCompared(Counts(r))
		return n
	}},
	{changed, func(r *adminpb.Report) int64 {
		if !ChangeKnown(r) {
			return 1
		}
		return Unseen(r)
	}},
}

// notAccepted counts the requests of a kind that nobody has accepted.
func notAccepted(kind adminpb.Report_Kind) func(*adminpb.Report) int64 {
	return func(r *adminpb.Report) int64 { return PartOf(r, kind).without(accepted(r, kind)).Count }
}

// Ready reports whether a report answers "should I commit?" with yes: all that is required is
// met, and nothing that decides was left unjudged. A report without requirements
// is ready; whether anything changes is for people to read.
func Ready(r *adminpb.Report) bool { return r.GetRequirementsMet() && len(Unjudged(r)) == 0 }

// Unjudged returns the names of the requirements that a list lacks for its report: there are
// requests that would be newly denied, newly allowed or answered differently, or fail, or more than 1 % that were not
// compared, or items that no request has shown, and none of the results is about them. So
// "requests>=10000,newly-denied=0" says nothing about a stranger who gets in. And one of the results has to be about
// evidence, which "all-nodes" or a duration is not. A report without requirements has none: nothing of it was judged.
func Unjudged(r *adminpb.Report) (names []string) {
	if len(r.GetRequirements()) == 0 {
		return nil
	}
	isAbout := func(of ...string) bool {
		return slices.ContainsFunc(r.Requirements, func(q *adminpb.Report_RequirementResult) bool {
			return slices.Contains(of, nameOf(q.GetRequirement()))
		})
	}
	for _, d := range decisive {
		if d.count(r) > 0 && !isAbout(d.name) {
			names = append(names, d.name)
		}
	}
	if len(names) == 0 && !isAbout(minRequestsName, newlyDenied, newlyAllowed) {
		names = append(names, minRequestsName)
	}
	return names
}

// MetByNoDenials reports whether a requirement on newly allowed requests is met because the live policy denied none of
// the requests compared.
func MetByNoDenials(r *adminpb.Report) bool {
	return r.GetPolicyDenies().GetRequestCount() == 0 && slices.ContainsFunc(r.GetRequirements(), func(q *adminpb.Report_RequirementResult) bool {
		return q.GetMet() && nameOf(q.GetRequirement()) == newlyAllowed
	})
}

// nameOf is the name of a term, without its operator and its value.
func nameOf(term string) string {
	if at := strings.IndexAny(term, "<>="); at >= 0 {
		return term[:at]
	}
	return term
}

// IsAboutItems reports whether a requirement, or its name, is about the items of the change.
func IsAboutItems(term string) bool { return nameOf(term) == changed }
