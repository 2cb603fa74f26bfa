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
// anything changes.
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
		return Verdict{"Not known yet", "no request has been compared", Unknown}
	case of > 0 && Unjudged(r) != "":
		return Verdict{"Look first", allMet(of) + ", but " + Unjudged(r) + "; " + changeOf(r), Look}
	case of > 0:
		return Verdict{"Ready", allMet(of) + "; " + changeOf(r), Good}
	case differing(r) > 0:
		return Verdict{"Look first", changeOf(r), Look}
	case Unseen(r) != "":
		return Verdict{"Look first", changeOf(r) + ", but " + Unseen(r), Look}
	default:
		return Verdict{"Nothing changes", changeOf(r), Good}
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

// Unjudged says which differences that change who gets in no requirement is about; it is empty
// if each of them has one.
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

// changeOf says in one clause what the experiment changes.
func changeOf(r *adminpb.Report) string {
	if r.RequestCount == 0 {
		return "no request has been compared"
	}
	if differing(r) <= 0 {
		if r.RequestCount == 1 {
			return "the one request compared is decided alike"
		}
		return "all " + report.Number(r.RequestCount) + " requests compared are decided alike"
	}
	var parts []string
	for _, k := range Kinds {
		if n := k.Count(r); n > 0 {
			clause := k.Clause
			if len(parts) > 0 {
				clause = strings.TrimPrefix(clause, "would be ")
			}
			parts = append(parts, report.Number(n)+" "+clause)
		}
	}
	last := parts[len(parts)-1]
	if len(parts) > 1 {
		last = strings.Join(parts[:len(parts)-1], ", ") + " and " + last
	}
	return "of " + Counted(r.RequestCount, "request") + ", " + last + " (" + Share(differing(r), r.RequestCount) + ")"
}

// Unseen says how much of the change was never exercised, or is not known to have been; it is
// empty if all of it was.
func Unseen(r *adminpb.Report) string {
	rules := int64(len(r.ChangedRules))
	pending, left := r.PendingRequestCount, r.UnexaminedRequestCount
	n := int64(len(NeverExercised(r)))
	verb := " were"
	if n == 1 {
		verb = " was"
	}
	some := report.Number(n) + " of " + Counted(rules, "changed rule") + verb
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
	for _, k := range Kinds {
		if n := k.Count(r); n > 0 {
			text += ", " + report.Number(n) + " " + k.Name
		}
	}
	if differing(r) <= 0 {
		text += ", none differs"
	}
	return text
}

// Differing is the number of requests of a report that are not decided alike, with the
// gravest kind: "25 newly denied", "31 (25 newly denied)", or "0".
func Differing(r *adminpb.Report) string {
	all := differing(r)
	for _, k := range Kinds {
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
