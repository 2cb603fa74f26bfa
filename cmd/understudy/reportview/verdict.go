package reportview

import (
	"strings"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/terminal"
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

// VerdictOf judges a report: by its requirements if there are any, else by whether
// anything changes.
func VerdictOf(r *adminpb.Report) Verdict {
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
	case unmet == 2 && of == 2:
		return Verdict{"Not yet", "neither of the requirements is met; " + changeOf(r), Bad}
	case unmet > 1 && unmet == of:
		return Verdict{"Not yet", "none of the " + report.Number(of) + " requirements is met; " + changeOf(r), Bad}
	case unmet > 0:
		return Verdict{"Not yet", numberOf(unmet, of) + areOf(unmet) + " not met; " + changeOf(r), Bad}
	case r.RequestCount == 0:
		return Verdict{"Not known yet", "no request has been compared", Unknown}
	case of == 1:
		return Verdict{"Ready", "the requirement is met; " + changeOf(r), Good}
	case of == 2:
		return Verdict{"Ready", "both requirements are met; " + changeOf(r), Good}
	case of > 2:
		return Verdict{"Ready", "all " + report.Number(of) + " requirements are met; " + changeOf(r), Good}
	case differing(r) > 0:
		return Verdict{"Look first", changeOf(r), Look}
	case unseen(r) != "":
		return Verdict{"Look first", changeOf(r) + ", but " + unseen(r), Look}
	default:
		return Verdict{"Nothing changes", changeOf(r), Good}
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
	for _, k := range kinds {
		if n := k.count(r); n > 0 {
			clause := k.clause
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
	return "of " + counted(r.RequestCount, "request") + ", " + last + " (" + share(differing(r), r.RequestCount) + ")"
}

// unseen says how much of the change was never exercised, or is not known to have been; it is
// empty if all of it was.
func unseen(r *adminpb.Report) string {
	rules := int64(len(r.ChangedRules))
	pending, left := r.PendingRequestCount, r.UnexaminedRequestCount
	n := int64(len(neverExercised(r)))
	verb := " were"
	if n == 1 {
		verb = " was"
	}
	some := report.Number(n) + " of " + counted(rules, "changed rule") + verb
	switch {
	case rules == 0 && pending > 0:
		return "which rules differ is still being examined"
	case rules == 0 && left > 0:
		return "which rules differ could not be examined"
	case n == 0:
		return ""
	case pending > 0:
		return some + " not exercised yet, and " + counted(pending, "request") + areOf(pending) + " still being examined"
	case left > 0:
		return some + " not exercised by what was examined, and " + counted(left, "request") + " could not be"
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

// neverExercised are the rules that differ and were not evaluated for any request.
func neverExercised(r *adminpb.Report) (rules []*adminpb.Report_ChangedRule) {
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
	text := counted(r.RequestCount, "request") + " compared"
	for _, k := range kinds {
		if n := k.count(r); n > 0 {
			text += ", " + report.Number(n) + " " + k.name
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
	for _, k := range kinds {
		switch n := k.count(r); n {
		case 0:
		case all:
			return report.Number(n) + " " + k.name
		default:
			return report.Number(all) + " (" + report.Number(n) + " " + k.name + ")"
		}
	}
	return "0"
}

// Progress is what somebody sees who waits for requirements: the verdict, and what each of
// them has.
func Progress(r *adminpb.Report, o Options) []string {
	p := &page{r: r, o: o, d: details[0]}
	p.verdict()
	p.d.examples = false
	p.requirements()
	return p.lines
}

// Unmet names the requirements that are not met, each with what there is and what is
// needed, on one line.
func Unmet(r *adminpb.Report) string {
	var parts []string
	for _, q := range r.Requirements {
		if !q.Met {
			parts = append(parts, terminal.Line(q.Requirement)+" has "+haveNeed(q))
		}
	}
	return strings.Join(parts, "; ")
}
