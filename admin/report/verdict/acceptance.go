package verdict

import (
	"cmp"

	"understudy/admin/access"
	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// StateOf says whether an acceptance holds, and why not: "in force", "exceeded: 3 requests,
// accepted were 2".
func StateOf(a *adminpb.Acceptance) string {
	state := map[adminpb.Acceptance_State]string{
		adminpb.Acceptance_IN_FORCE: "in force", adminpb.Acceptance_EXCEEDED: "exceeded", adminpb.Acceptance_VOID: "void",
		adminpb.Acceptance_REPLACED: "replaced",
	}[a.GetState()]
	state = cmp.Or(state, "not known")
	if why := a.GetStateReason(); why != "" {
		state += ": " + why
	}
	return state
}

// AccepterOf is who has accepted, for people.
func AccepterOf(a *adminpb.Acceptance) string {
	return cmp.Or(access.Principal{Member: a.GetCreator(), Display: a.GetCreatorDisplay()}.Named(), "somebody")
}

// Accepted says of an acceptance, which may be nil, who has accepted what and why, and how far
// its limits are used: "accepted by ann: a scanner (1 of at most 2 requests, 1 of at most 2
// callers)". An item has no limits. One that does not hold says so first.
func Accepted(a *adminpb.Acceptance) string {
	if a == nil {
		return ""
	}
	text := "accepted"
	if a.State != adminpb.Acceptance_IN_FORCE {
		text = "not accepted any more (" + StateOf(a) + "); it was"
	}
	text += " by " + AccepterOf(a) + ": " + a.GetReason()
	if a.GetItemId() != "" {
		return text
	}
	return text + " (" +
		report.Number(a.GetRequestCount()) + " of at most " + Counted(a.GetMaxRequestCount(), "request") + ", " +
		report.Callers(a.GetCallerCount()) + " of at most " + Counted(a.GetMaxCallerCount(), "caller") + ")"
}

// Target says what was accepted: "newly denied GET /orders", or in what the policies differ.
func Target(a *adminpb.Acceptance) Phrase {
	if a.GetItemId() != "" {
		return What(a.GetItem())
	}
	d := a.GetDifference()
	cause := ""
	if d.GetCauseUnknown() {
		cause = " (cause not known)"
	}
	return Phrase{{Text: NameOf(d.GetKind()) + " "}, {Text: d.GetMethod() + " " + d.GetPath()}, {Text: cause}}
}

// LimitsOf says for what an acceptance holds: "at most 39 requests of these 2 callers".
//
// An acceptance holds for what was there when it was made: more requests or other callers than these end
// it, and the difference counts again.
func LimitsOf(a *adminpb.Acceptance) string {
	text := "at most " + Counted(a.GetMaxRequestCount(), "request")
	switch n := a.GetMaxCallerCount(); {
	case n > a.GetCallerCount():
		return text + " of at most " + Counted(n, "caller")
	case n == 0:
		return text + " of no known caller"
	case n == 1:
		return text + " of this caller"
	default:
		return text + " of these " + Counted(n, "caller")
	}
}

// leftOut says how many of the requests that differ were accepted, and how many are expected: ", 3 of them
// accepted, 2 expected". It is empty if there are neither.
//
// They stay in the counts that one reads; requirements leave them out.
func leftOut(r *adminpb.Report) (text string) {
	ofThem, kinds := " of them", 0
	for _, k := range Changes {
		if k.Count(r) > 0 {
			kinds++
		}
	}
	if kinds > 1 {
		ofThem = " of all these"
	}
	for _, part := range []struct {
		counts []*adminpb.Report_KindCount
		word   string
	}{{r.GetAcceptedDifferences(), " accepted"}, {r.GetExpectedDifferences(), " expected"}} {
		var n int64
		for _, c := range part.counts {
			n += c.GetRequestCount()
		}
		if n > 0 {
			text += ", " + report.Number(n) + ofThem + part.word
			ofThem = ""
		}
	}
	return text
}

// byAcceptance says of a report that is ready who has accepted what of it: "by acceptance of 4 newly denied requests
// (ann: a scanner) and 2 unseen items (bob: for the night), ". It is empty if nothing was.
//
// Who reads "Ready" should know first that not traffic alone has said so.
func byAcceptance(r *adminpb.Report) string {
	var parts []string
	for _, a := range r.GetAcceptances() {
		if a.GetState() == adminpb.Acceptance_IN_FORCE {
			parts = append(parts, acceptedOf(r, a)+" ("+AccepterOf(a)+": "+a.GetReason()+")")
		}
	}
	const named = 2
	if more := int64(len(parts) - named); more > 0 {
		parts = append(parts[:named:named], Counted(more, "other acceptance"))
	}
	if len(parts) == 0 {
		return ""
	}
	return "by acceptance of " + enumerated(parts) + ", "
}

// acceptedOf says how much an acceptance covers.
func acceptedOf(r *adminpb.Report, a *adminpb.Acceptance) string {
	if a.GetItemId() == "" {
		return Counted(a.GetRequestCount(), NameOf(a.GetDifference().GetKind())+" request")
	}
	n := a.GetItem().GetItemCount() - a.GetItem().GetSeenCount()
	if a.GetItemId() == r.GetChangeId() {
		n = r.GetAcceptedItemCount()
	}
	return Counted(max(1, n), "unseen item")
}
