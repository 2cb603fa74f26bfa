package report

import (
	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// setExpectations writes what was seen of each expectation, and which requests are expected. The differences of
// the report are those of the present pair.
func setExpectations(r *adminpb.Report, in Input, kept *evidencepb.Evidence) {
	for i, e := range in.Expects {
		s := &adminpb.Report_ExpectationSummary{Number: int32(i + 1), Expectation: e} // there are at most 32
		anonymous := seenOf(s, kept)
		for _, d := range r.GetDifferences() {
			if d.GetExpectation() == s.Number {
				s.RequestCount += d.GetRequestCount()
			}
		}
		switch most := e.GetMaxCallerCount(); {
		case most == 0:
		case s.CallerCount > most:
			s.ExceededReason = Counted(s.CallerCount, "caller") + ", expected are at most " + Number(most)
		case anonymous > 0:
			s.ExceededReason = "the callers of " + Counted(anonymous, "request") + " are not known"
		}
		r.Expectations = append(r.Expectations, s)
	}
	counts := make(map[adminpb.Report_Kind]int64)
	for _, d := range r.GetDifferences() {
		if IsExpected(r, d) {
			counts[d.GetKind()] += d.GetRequestCount()
		}
	}
	r.ExpectedDifferences = kindCounts(counts)
}

// seenOf writes how many callers an expectation has with all live policies, and returns how many of its requests
// have no caller that is known.
func seenOf(s *adminpb.Report_ExpectationSummary, kept *evidencepb.Evidence) (anonymous int64) {
	var callers [][]byte
	for _, p := range pairs(kept) {
		for _, g := range p.GetGroups() {
			if g.GetExpectation() == s.GetNumber() {
				callers = append(callers, g.GetCallers())
				anonymous += g.GetUnknownCallers()
			}
		}
	}
	s.CallerCount = evidence.Callers(callers...)
	return anonymous
}

// ExpectationOf returns the expectation that covers a difference of a report; nil if none does.
func ExpectationOf(r *adminpb.Report, d *adminpb.Report_Difference) *adminpb.Report_ExpectationSummary {
	for _, e := range r.GetExpectations() {
		if e.GetNumber() == d.GetExpectation() {
			return e
		}
	}
	return nil
}

// IsExpected reports whether an expectation covers a difference, and is not exceeded.
func IsExpected(r *adminpb.Report, d *adminpb.Report_Difference) bool {
	e := ExpectationOf(r, d)
	return e != nil && e.GetExceededReason() == ""
}

// IsLeftOut reports whether requirements leave out a difference: it is expected, or its acceptance is in force.
func IsLeftOut(r *adminpb.Report, d *adminpb.Report_Difference) bool {
	return IsExpected(r, d) || AcceptanceOf(r, d).GetState() == adminpb.Acceptance_IN_FORCE
}

// Expected returns how many requests of a kind are expected.
func Expected(r *adminpb.Report, kind adminpb.Report_Kind) int64 {
	return ofKind(r.GetExpectedDifferences(), kind)
}

// ofKind returns how many requests there are of a kind.
func ofKind(counts []*adminpb.Report_KindCount, kind adminpb.Report_Kind) (n int64) {
	for _, c := range counts {
		if c.GetKind() == kind {
			n += c.GetRequestCount()
		}
	}
	return n
}

// apart says how many requests of a kind a limit leaves out: ", apart from 3 accepted and 2 expected requests". It
// is empty if there are none.
func apart(r *adminpb.Report, kind adminpb.Report_Kind) string {
	switch a, e := accepted(r, kind), Expected(r, kind); {
	case a > 0 && e > 0:
		return ", apart from " + Number(a) + " accepted and " + Counted(e, "expected request")
	case a > 0:
		return ", apart from " + Counted(a, "accepted request")
	case e > 0:
		return ", apart from " + Counted(e, "expected request")
	default:
		return ""
	}
}
