package verdict

import (
	"slices"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
)

// Expectations are what the author of an experiment expects, one in a text, with what was seen of it:
//
//	newly allowed GET /api/reports, role support: support may read reports (284 requests by 5 callers)
//	newly denied /internal/**: internal tools move (no such request was compared)
func Expectations(r *adminpb.Report) (texts []string) {
	for _, s := range r.GetExpectations() {
		texts = append(texts, Expectation(s.GetExpectation())+": "+s.GetExpectation().GetReason()+" ("+seenOfExpectation(s)+")")
	}
	return texts
}

// Expectation says what is expected: "newly allowed GET /api/reports, role support, at most 5 callers".
func Expectation(e *adminpb.Expectation) string {
	text := NameOf(e.GetKind()) + " "
	if e.GetMethod() != "" {
		text += e.GetMethod() + " "
	}
	text += e.GetPath()
	names := make([]string, 0, len(e.GetLabels()))
	for name := range e.GetLabels() {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		text += ", " + name + " " + e.GetLabels()[name]
	}
	if most := e.GetMaxCallerCount(); most > 0 {
		text += ", at most " + Counted(most, "caller")
	}
	return text
}

// seenOfExpectation says how many requests fit an expectation, and why it covers none of them if so.
func seenOfExpectation(s *adminpb.Report_ExpectationSummary) string {
	text := "no such request was compared"
	if s.GetRequestCount() > 0 {
		text = Counted(s.GetRequestCount(), "request")
		if s.GetCallerCount() > 0 {
			text += " by " + report.CountedCallers(s.GetCallerCount())
		}
	}
	if why := s.GetExceededReason(); why != "" {
		text += "; exceeded: " + why
	}
	return text
}

// ExpectedAs says by which expectation a difference is covered: "expected: support may read reports". It is empty
// if none covers it, and says so first if that one is exceeded.
func ExpectedAs(r *adminpb.Report, d *adminpb.Report_Difference) string {
	s := report.ExpectationOf(r, d)
	switch {
	case s == nil:
		return ""
	case s.GetExceededReason() != "":
		return "not expected any more (" + s.GetExceededReason() + "); it was: " + s.GetExpectation().GetReason()
	default:
		return "expected: " + s.GetExpectation().GetReason()
	}
}
