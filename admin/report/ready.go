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
	{unjudged, func(r *adminpb.Report) int64 {
		if !ChangeKnown(r) {
			return 1
		}
		return Unjudged(r)
	}},
}

// notAccepted counts the requests of a kind that nobody has accepted.
func notAccepted(kind adminpb.Report_Kind) func(*adminpb.Report) int64 {
	return func(r *adminpb.Report) int64 { return PartOf(r, kind).without(accepted(r, kind)).Count }
}

// Ready reports whether a report answers "should I commit?" with yes: all that is required is met, what is required is
// about all that decides, and no item of the change is unjudged. A report without requirements is ready; whether
// anything changes is for people to read.
func Ready(r *adminpb.Report) bool {
	return r.GetRequirementsMet() && (len(r.GetRequirements()) == 0 || AllJudged(r))
}

// AllJudged reports whether what is required of a report is about all that decides, and no item of the change is
// unjudged.
func AllJudged(r *adminpb.Report) bool { return len(Missing(r)) == 0 && Unjudged(r) == 0 }

// Missing returns the names of the requirements that a list lacks for its report: there are
// requests that would be newly denied, newly allowed or answered differently, or fail, or more than 1 % that were not
// compared, or items that no request has shown, and none of the results is about them. So
// "requests>=10000,newly-denied=0" says nothing about a stranger who gets in. And one of the results has to be about
// evidence, which "all-nodes" or a duration is not. A report without requirements has none: nothing of it was judged.
func Missing(r *adminpb.Report) (names []string) {
	if len(r.GetRequirements()) == 0 {
		return nil
	}
	for _, d := range decisive {
		if d.count(r) > 0 && !isAbout(r, d.name) {
			names = append(names, d.name)
		}
	}
	if len(names) == 0 && !isAbout(r, minRequestsName, newlyDenied, newlyAllowed) {
		names = append(names, minRequestsName)
	}
	return names
}

// isAbout reports whether one of the requirements of a report has one of these names.
func isAbout(r *adminpb.Report, names ...string) bool {
	return slices.ContainsFunc(r.GetRequirements(), func(q *adminpb.Report_RequirementResult) bool {
		return slices.Contains(names, nameOf(q.GetRequirement()))
	})
}

// AwaitsPeople reports whether nothing is missing of what a report requires but the judgement of people: all that is
// not met is a count over its limit, which people may accept, or an item that no request has shown, though there
// was as much traffic as is required and all of it was examined.
func AwaitsPeople(r *adminpb.Report) bool {
	unmet := Unmet(r)
	for _, q := range unmet {
		if !IsForPeople(r, q) {
			return false
		}
	}
	return len(unmet) > 0
}

// IsHopeless reports whether a requirement that is not met can be met neither by more traffic nor by people who accept
// what there is.
func IsHopeless(r *adminpb.Report, q *adminpb.Report_RequirementResult) bool {
	return !q.GetMet() && q.GetUnreachable() && !IsForPeople(r, q)
}

// IsForPeople reports whether it is for people to accept what a requirement has that is not met: more traffic cannot
// change it.
func IsForPeople(r *adminpb.Report, q *adminpb.Report_RequirementResult) bool {
	if q.GetMet() {
		return false
	}
	switch nameOf(q.GetRequirement()) {
	case newlyDenied, newlyAllowed, responseChanged, failed, acceptedName:
		return q.GetUnreachable()
	case unjudged:
		return ChangeKnown(r) && r.GetRequestCount() > 0 && r.GetPendingRequestCount() == 0 && isAbout(r, minRequestsName, minCallersName, minEndpointsName, minDurationName)
	case DifferentCommitter, Confirmed:
		return !q.GetUnreachable()
	default:
		return false
	}
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
func IsAboutItems(term string) bool { return nameOf(term) == unjudged }
