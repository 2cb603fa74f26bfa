// Package verdict says in sentences and numbers what a report comes to, the same on a terminal,
// in Markdown and on the page: the verdict first, then the kinds of differences, which items of the
// change no request has shown, and what is not known.
//
// Its texts may quote what others wrote, such as the reason of a drop: anyone who shows them escapes
// them for where they are shown.
package verdict

import (
	"slices"
	"strings"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// Verdict is the answer of a report to "should I commit?".
type Verdict struct {
	// Word is the answer in a word or two, and Why the reason. Together they are one
	// sentence: "Not yet: 1 of 2 requirements is not met; …", "No difference in 40 requests …".
	Word, Why string
	// Tone is how the word is coloured.
	Tone Tone
}

// Tone is what a verdict means for a commit. Nothing is said by its colour alone.
type Tone int

// The tones.
const (
	// Unknown: nothing is known that would answer, or nobody has said what would.
	Unknown Tone = iota
	// Good: all that decides was required, and is met.
	Good
	// Look: it is for people to decide.
	Look
	// Bad: requirements are not met.
	Bad
)

// noDifference is the word of a report that has nothing to look at, and no requirements.
const noDifference = "No difference"

// String is the whole sentence.
func (v Verdict) String() string {
	if v.Word == noDifference {
		return v.Word + " " + v.Why + "."
	}
	return v.Word + ": " + v.Why + "."
}

// Of judges a report: by its requirements if there are any, else by whether there is any difference, and
// by whether requests have shown all items of the change.
//
// The first case that applies is the verdict:
//
//	Do not commit    it takes back a change of the live policy that it was not made from
//	Do not commit    a requirement can be met neither by more traffic nor by people who accept what there is
//	Not by you       all is met but that somebody else commits
//	Look first       nothing is missing but the judgement of people
//	Not yet          more traffic is needed
//	Not known yet    nothing was compared
//	Look first       something differs, or is unjudged, and no requirement judged that
//	Ready            requirements judged all that decides, and are met
//	No difference    nothing differs and all items were seen, without requirements
//
// "Ready" is good only where somebody said beforehand what is enough, and where no item of the change is
// unjudged. Without requirements nothing is good: the report then says what it saw, and leaves the rest to people.
func Of(r *adminpb.Report) Verdict {
	if undone := TakesBack(r); undone != "" && !report.MayTakeBack(r) {
		return Verdict{"Do not commit", undone + "; " + changeOf(r), Bad}
	}
	if v := hindrance(r); v.Word != "" {
		v.Why += "; " + changeOf(r)
		return v
	}
	of := int64(len(r.Requirements))
	switch {
	case r.RequestCount == 0:
		return Verdict{"Not known yet", changeOf(r), Unknown}
	case of > 0 && Missing(r) != "":
		return Verdict{"Look first", allMet(of) + ", but " + Missing(r) + "; " + changeOf(r), Look}
	case of > 0:
		return Verdict{"Ready", byAcceptance(r) + allMet(of) + "; " + changeOf(r) + noDenials(r), Good}
	case differing(r) > 0, report.Unjudged(r) > 0, !report.ChangeKnown(r), report.Incomplete(r):
		return Verdict{"Look first", changeOf(r), Look}
	default:
		return Verdict{noDifference, strings.TrimPrefix(changeOf(r), "no difference "), Unknown}
	}
}

// noDenials says that a requirement on newly allowed requests is met by 0 of 0; empty if it is not.
//
// Where the live policy has denied no request, the report shows nothing of who would get in.
func noDenials(r *adminpb.Report) string {
	if !report.MetByNoDenials(r) {
		return ""
	}
	return "; no request that the live policy denies was compared"
}

// hindrance is the verdict on a report that does not meet its requirements; without a word if it meets all.
//
// A limit on a share can come back within reach with more traffic; one on a count cannot, unless an
// acceptance takes requests out of it.
func hindrance(r *adminpb.Report) Verdict {
	unmet, hopeless := unmetOf(r)
	of := int64(len(r.Requirements))
	switch {
	case hopeless > 0:
		return Verdict{"Do not commit", numberOf(hopeless, of) + " can no longer be met", Bad}
	case report.OnlyAwaitsCommitter(r):
		return Verdict{"Not by you", "somebody else has to commit it", Bad}
	case report.AwaitsPeople(r):
		return Verdict{"Look first", numberOf(unmet, of) + areOf(unmet) + " for people to judge", Look}
	case unmet > 0:
		return Verdict{"Not yet", notMet(unmet, of), Bad}
	default:
		return Verdict{}
	}
}

// notMet says that so many requirements are not met.
func notMet(unmet, of int64) string {
	switch {
	case unmet == 2 && of == 2:
		return "neither of the requirements is met"
	case unmet > 1 && unmet == of:
		return "none of the " + report.Number(of) + " requirements is met"
	default:
		return numberOf(unmet, of) + areOf(unmet) + " not met"
	}
}

// unmetOf is how many requirements are not met, and how many of these neither traffic nor people can meet.
func unmetOf(r *adminpb.Report) (unmet, hopeless int64) {
	for _, q := range report.Unmet(r) {
		unmet++
		if report.IsHopeless(r, q) {
			hopeless++
		}
	}
	return unmet, hopeless
}

// allMet says that all of so many requirements are met.
func allMet(of int64) string {
	switch of {
	case 1:
		return "the requirement is met"
	case 2:
		return "both requirements are met"
	default:
		return "all " + report.Number(of) + " requirements are met"
	}
}

// Missing says why a report is not ready that meets its requirements: about what no requirement is that decides
// ([report.Missing]), or that items are unjudged; it is empty if all is judged.
//
// What decides is who is newly denied, who is newly allowed, what failed, what was dropped, and which
// items were seen. A list of requirements that is silent on one of them has not judged the change.
func Missing(r *adminpb.Report) string {
	switch names := report.Missing(r); {
	case len(names) > 0:
		return "no requirement is about " + strings.Join(names, " or ")
	case report.AllJudged(r):
		return ""
	default:
		return Counted(report.Unjudged(r), "item") + areOf(report.Unjudged(r)) + " unjudged"
	}
}

// numberOf is "1 of 2 requirements".
func numberOf(n, of int64) string {
	if of == 1 {
		return "the requirement"
	}
	return report.Number(n) + " of " + report.Number(of) + " requirements"
}

// differing is the number of requests that are not decided alike.
func differing(r *adminpb.Report) int64 { return r.RequestCount - r.UnchangedCount }

// changeOf says in one clause what the experiment changes, of which requests, where most, what is left
// out, and of how much of the change nothing is known.
//
// For example: "25 of 500 requests that the live policy allows would be newly denied (5%); 90 of 90
// requests of GET /orders/list would be newly denied; 2 of 15 items were not seen".
func changeOf(r *adminpb.Report) string {
	clauses := []string{differences(r) + leftOut(r)}
	if r.RequestCount > 0 {
		clauses = append(clauses, Excludes(r), worstEndpoint(r), notCompared(r), Unseen(r))
	} else {
		clauses = append(clauses, notCompared(r))
	}
	return strings.Join(slices.DeleteFunc(clauses, func(c string) bool { return c == "" }), "; ")
}

// differences says how the requests compared are decided.
//
// Only kinds that occur are named, and only the first with "would be".
func differences(r *adminpb.Report) string {
	switch {
	case r.RequestCount == 0:
		return "no request has been compared"
	case differing(r) <= 0:
		return "no difference in " + Counted(r.RequestCount, "request") + whose(r)
	}
	var parts []string
	for _, k := range Changes {
		p := report.PartOf(r, k.Value)
		if p.Count == 0 {
			continue
		}
		whole, clause := Counted(p.Whole, "request"), k.Clause
		if len(parts) > 0 {
			whole, clause = report.Number(p.Whole), strings.TrimPrefix(clause, "would be ")
		}
		share := ShareOf(r, k)
		switch {
		case share == unknown:
			share = "share " + unknown
		case p.Estimated:
			share += "; " + p.Sureness()
		}
		parts = append(parts, report.Number(p.Count)+" of "+whole+" "+p.Words+" "+clause+" ("+share+")")
	}
	return enumerated(parts)
}

// enumerated joins texts as a sentence does: "a, b and c".
func enumerated(parts []string) string {
	last := parts[len(parts)-1]
	if len(parts) > 1 {
		last = strings.Join(parts[:len(parts)-1], ", ") + " and " + last
	}
	return last
}

// whose says of requests that are all decided alike how many are allowed, and whose those are: what
// both policies deny shows little.
//
// Requests that both policies deny are no evidence for a change of what is allowed.
func whose(r *adminpb.Report) string {
	allowed := report.Allowed(report.Counts(r))
	switch {
	case allowed == r.RequestCount:
		return " by " + from(r)
	case allowed > 0:
		return ", " + report.Number(allowed) + " of them allowed, by " + from(r)
	case r.PolicyDenies.GetRequestCount() > 0:
		return ", which both policies deny"
	default:
		return ""
	}
}

// unknown stands for a share of what leans.
const unknown = "unknown"

// ShareOf writes the share that requests of a kind are of what they are a part of. Where it is
// made of what chance chose, it says so; it is "unknown" if too much was lost, or if chance chose too
// little.
//
// Evidence leans if more than 1 % was lost and not by chance: what was lost may be just what differs.
func ShareOf(r *adminpb.Report, k Kind) string {
	p := report.PartOf(r, k.Value)
	switch {
	case report.Lossy(r), p.Unsure():
		return unknown
	case p.Estimated:
		return "about " + Share(int64(p.ShareCount), int64(p.ShareWhole))
	default:
		return Share(p.Count, p.Whole)
	}
}

// Unchanged writes the share of the requests compared that are decided alike, as [ShareOf] does.
func Unchanged(r *adminpb.Report) string { return ShareOf(r, Kind{}) }

// ShareInWords is that with what it is a share of: "1.4% of 6,212 requests that the live policy
// allows".
func ShareInWords(r *adminpb.Report, k Kind) string {
	p := report.PartOf(r, k.Value)
	of := "of " + Counted(int64(p.ShareWhole), "request") + " " + p.Words
	switch {
	case p.Whole == 0:
		return of
	case report.Lossy(r), p.Unsure():
		return unknown + " share " + of
	case p.Estimated:
		return ShareOf(r, k) + " " + of + " (" + p.Sureness() + ")"
	default:
		return ShareOf(r, k) + " " + of
	}
}

// areOf agrees with a number of things.
func areOf(n int64) string {
	if n == 1 {
		return " is"
	}
	return " are"
}

// wereOf is that in the past.
func wereOf(n int64) string {
	if n == 1 {
		return " was"
	}
	return " were"
}

// Summary is the numbers of a report on one line, for lists and progress.
//
// For example: "295 requests compared, 19 newly denied, 5 newly allowed".
func Summary(r *adminpb.Report) string {
	if r.RequestCount == 0 {
		return "no request compared"
	}
	text := Counted(r.RequestCount, "request") + " compared"
	for _, k := range Changes {
		if n := k.Count(r); n > 0 {
			text += ", " + report.Number(n) + " " + k.Name
		}
	}
	if differing(r) <= 0 {
		text += ", none differs"
	}
	if n, all := report.NotCompared(report.Counts(r)); report.Incomplete(r) {
		text += ", " + report.Number(n) + " not compared (" + Share(n, all) + ")"
	}
	return text
}

// Differing is the number of requests of a report that are not decided alike, with the
// gravest kind: "25 newly denied", "31 (25 newly denied)", or "0".
func Differing(r *adminpb.Report) string {
	all := differing(r)
	for _, k := range Changes {
		switch n := k.Count(r); n {
		case 0:
		case all:
			return report.Number(n) + " " + k.Name
		default:
			return report.Number(all) + " (" + report.Number(n) + " " + k.Name + ")"
		}
	}
	return "0"
}
