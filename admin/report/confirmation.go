package report

import (
	"slices"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

const (
	// Confirmed is the name of the requirement that what was accepted is confirmed by somebody else, who commits.
	Confirmed = "confirmed"
	// acceptedName is that of the limit on how much is accepted or expected.
	acceptedName = "accepted"
)

// isAboutCommitter reports whether a requirement is about who commits, and not about what was compared.
func isAboutCommitter(term string) bool { return term == DifferentCommitter || term == Confirmed }

// confirmed demands that what is accepted or expected is confirmed by somebody else than its author: anyone who
// commits has made none of the acceptances in force, nor set what is expected. More traffic does not help; another
// committer may.
func confirmed() requirement {
	return requirement{
		name: Confirmed, operator: none, form: noForm,
		set: func(r *adminpb.CommitRequirements, _ string) error {
			r.RequireConfirmation = true
			return nil
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) { return "", r.GetRequireConfirmation() },
		judge: func(_ *adminpb.CommitRequirements, m measured) judgement {
			v := judgement{need: "somebody who has neither accepted nor set what is expected"}
			by, authors := m.committer, authorsOf(m)
			switch name := aip.Shown(by.Member); {
			case len(authors) == 0:
				v.have, v.met = "nothing is accepted or expected", true
			case by.Member == "":
				v.have, v.unreachable = "nobody: the server does not authenticate its callers", true
			case slices.Contains(authors, ""):
				v.have, v.unreachable = "not known who has accepted it, or has set what is expected: take that back, and do it again", true
			case slices.Contains(authors, by.Member):
				v.have = name + ", who has accepted it, or has set what is expected"
			default:
				v.have, v.met = name, true
			}
			return v
		},
	}
}

// authorsOf are who has made the acceptances in force, and who may have set what requests were expected by; empty
// texts for those who are not known.
func authorsOf(m measured) (authors []string) {
	for _, a := range m.report.GetAcceptances() {
		if a.GetState() == adminpb.Acceptance_IN_FORCE {
			authors = append(authors, a.GetCreator())
		}
	}
	if len(m.report.GetExpectedDifferences()) == 0 {
		return authors
	}
	if len(m.committer.Editors) == 0 {
		return append(authors, "")
	}
	return append(authors, m.committer.Editors...)
}

// maxAccepted is a limit on how many of the requests that differ are accepted or expected: an acceptance of
// anything, or an expectation of all paths, judges nothing. It is about the present pair, whatever the scope.
func maxAccepted() requirement {
	q := maxCount(acceptedName, func(r *adminpb.CommitRequirements) **int64 { return &r.MaxAcceptedCount }, func(m measured) (n int64, have string) {
		for _, c := range slices.Concat(m.report.GetAcceptedDifferences(), m.report.GetExpectedDifferences()) {
			n += c.GetRequestCount()
		}
		return n, Counted(n, "request")
	})
	judge := q.judge
	q.judge = func(r *adminpb.CommitRequirements, m measured) judgement {
		m.scope = adminpb.CommitRequirements_PRESENT_PAIR
		return judge(r, m)
	}
	return q
}
