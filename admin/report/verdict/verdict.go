// Package verdict says in sentences and numbers what a report comes to, the same on a terminal,
// in Markdown and on the page: the verdict first, then the kinds of differences, what was never
// exercised and what is not known.
//
// Its texts may quote what others wrote, such as the reason of a drop: whoever shows them escapes
// them for where they are shown.
package verdict

import (
	"strings"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// Verdict is the answer of a report to "should I commit?".
type Verdict struct {
	// Word is the answer in a word or two, and Why the reason. Together they are one
	// sentence: "Not yet: 1 of 2 requirements is not met; …".
	Word, Why string
	// Tone is how the word is coloured.
	Tone Tone
}

// Tone is what a verdict means for a commit. Nothing is said by its colour alone.
type Tone int

// The tones.
const (
	// Unknown: nothing is known that would answer.
	Unknown Tone = iota
	// Good: nothing speaks against it.
	Good
	// Look: it is for people to decide.
	Look
	// Bad: requirements are not met.
	Bad
)

// String is the whole sentence.
func (v Verdict) String() string { return v.Word + ": " + v.Why + "." }

// Of judges a report: by its requirements if there are any, else by whether
// there is any difference.
func Of(r *adminpb.Report) Verdict {
	var unmet, unreachable int64
	for _, q := range r.Requirements {
		if !q.Met {
			unmet++
			if q.Unreachable {
				unreachable++
			}
		}
	}
	of := int64(len(r.Requirements))
	switch {
	case unreachable > 0:
		return Verdict{"Do not commit", numberOf(unreachable, of) + " can no longer be met; " + changeOf(r), Bad}
	case report.OnlyAwaitsCommitter(r):
		return Verdict{"Not by you", "somebody else has to commit it; " + changeOf(r), Bad}
	case unmet == 2 && of == 2:
		return Verdict{"Not yet", "neither of the requirements is met; " + changeOf(r), Bad}
	case unmet > 1 && unmet == of:
		return Verdict{"Not yet", "none of the " + report.Number(of) + " requirements is met; " + changeOf(r), Bad}
	case unmet > 0:
		return Verdict{"Not yet", numberOf(unmet, of) + areOf(unmet) + " not met; " + changeOf(r), Bad}
	case r.RequestCount == 0:
		return Verdict{"Not known yet", changeOf(r), Unknown}
	case of > 0 && Unjudged(r) != "":
		return Verdict{"Look first", allMet(of) + ", but " + Unjudged(r) + "; " + changeOf(r), Look}
	case of > 0:
		return Verdict{"Ready", allMet(of) + "; " + changeOf(r), Good}
	case differing(r) > 0:
		return Verdict{"Look first", changeOf(r), Look}
	case Unseen(r) != "":
		return Verdict{"Look first", changeOf(r) + ", but " + Unseen(r), Look}
	case report.Incomplete(r):
		return Verdict{"Look first", changeOf(r), Look}
	default:
		return Verdict{"No difference", changeOf(r), Good}
	}
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

// Unjudged says about what no requirement is that decides ([report.Unjudged]); it is empty if
// there is one about each.
func Unjudged(r *adminpb.Report) string {
	names := report.Unjudged(r)
	if len(names) == 0 {
		return ""
	}
	return "no requirement is about " + strings.Join(names, " or ")
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

// changeOf says in one clause what the experiment changes, of which requests, where most, and what is
// left out.
func changeOf(r *adminpb.Report) string {
	text := differences(r) + ofThemAccepted(r)
	if worst := worstEndpoint(r); worst != "" {
		text += "; " + worst
	}
	if left := notCompared(r); left != "" {
		text += "; " + left
	}
	return text
}

// differences says how the requests compared are decided.
func differences(r *adminpb.Report) string {
	switch {
	case r.RequestCount == 0:
		return "no request has been compared"
	case differing(r) <= 0 && r.RequestCount == 1:
		return "the one request compared is decided alike"
	case differing(r) <= 0:
		return "all " + report.Number(r.RequestCount) + " requests compared are decided alike" + whose(r)
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
	last := parts[len(parts)-1]
	if len(parts) > 1 {
		last = strings.Join(parts[:len(parts)-1], ", ") + " and " + last
	}
	return last
}

// whose says of requests that are all decided alike how many are allowed, and whose those are: what
// both policies deny shows little.
func whose(r *adminpb.Report) string {
	allowed := report.Allowed(report.Counts(r))
	switch {
	case allowed == r.RequestCount:
		return ", of " + from(r)
	case allowed > 0:
		return ", " + report.Number(allowed) + " of them allowed, of " + from(r)
	case r.PolicyDenies.GetRequestCount() > 0:
		return ", and both policies deny"
	default:
		return ""
	}
}

// unknown stands for a share of what leans.
const unknown = "unknown"

// ShareOf writes the share that requests of a kind are of what they are a part of. Where it is
// made of what chance chose, it says so; it is "unknown" if too much was lost, or if chance chose too
// little.
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

// Unseen says how much of the change was never exercised, or is not known to have been; it is
// empty if all of it was.
func Unseen(r *adminpb.Report) string {
	rules := int64(len(r.ChangedRules))
	pending, left := r.PendingRequestCount, r.UnexaminedRequestCount
	n := int64(len(NeverExercised(r)))
	some := report.Number(n) + " of " + Counted(rules, "changed rule") + wereOf(n)
	switch {
	case rules == 0 && pending > 0:
		return "which rules differ is still being examined"
	case rules == 0 && left > 0:
		return "which rules differ could not be examined"
	case n == 0:
		return ""
	case pending > 0:
		return some + " not exercised yet, and " + Counted(pending, "request") + areOf(pending) + " still being examined"
	case left > 0:
		return some + " not exercised by what was examined, and " + Counted(left, "request") + " could not be"
	default:
		return some + " never exercised"
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

// NeverExercised are the rules that differ and were not evaluated for any request.
func NeverExercised(r *adminpb.Report) (rules []*adminpb.Report_ChangedRule) {
	for _, c := range r.ChangedRules {
		if !c.EvaluatedTrue && !c.EvaluatedFalse {
			rules = append(rules, c)
		}
	}
	return rules
}

// Summary is the numbers of a report on one line, for lists and progress.
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
