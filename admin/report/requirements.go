package report

import (
	"slices"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
)

// requirement is one field of CommitRequirements, as commands write it and as a report is
// held against it.
type requirement struct {
	// name is what commands write. A limit on a count and one on a share have the same.
	name string
	// operator is what stands behind the name; empty if nothing does.
	operator operator
	// form is what the value looks like.
	form form
	// set parses a value of that form into its field. Its error says the rule and the fix.
	set func(r *adminpb.CommitRequirements, value string) error
	// value returns the field as set reads it, and whether the field is set.
	value func(r *adminpb.CommitRequirements) (string, bool)
	// judge holds a report against the field, which is set. Nil if it is no requirement by
	// itself.
	judge func(r *adminpb.CommitRequirements, m measured) judgement
}

// operator stands between the name of a requirement and its value.
type operator string

const (
	atLeast operator = ">="
	atMost  operator = "<="
	equals  operator = "="
	none    operator = ""
)

// form is what a value looks like. A name with two forms has them told apart by the %.
type form int

const (
	countForm form = iota
	shareForm
	boundForm
	requestBoundForm
	durationForm
	choiceForm
	noForm
)

// allPairs and presentPair are the values of scope.
const (
	allPairs    = "all-pairs"
	presentPair = "present-pair"
)

// The names of limits that [Missing] asks for.
const (
	newlyDenied     = "newly-denied"
	responseChanged = "response-changed"
	newlyAllowed    = "newly-allowed"
	failed          = "failed"
	dropped         = "dropped"
	unjudged        = "unjudged"
	takenBack       = "taken-back"
	minRequestsName = "requests"
)

// The names of the other requirements on how much traffic there was.
const (
	minCallersName   = "callers"
	minEndpointsName = "endpoints"
	minDurationName  = "duration"
)

// nothingCompared is what there is of a share before anything was compared.
const nothingCompared = "nothing compared"

// requirements are all there are, in the order in which they are written and judged.
var requirements = slices.Concat(
	[]requirement{minRequests(), minCallers(), minEndpoints(), minDuration()},
	limits(newlyDenied, adminpb.Report_NEWLY_DENIED, func(r *adminpb.CommitRequirements) (**int64, **float64) {
		return &r.MaxNewlyDeniedCount, &r.MaxNewlyDeniedRatio
	}),
	bounds(newlyDenied, adminpb.Report_NEWLY_DENIED, func(r *adminpb.CommitRequirements) (**float64, **float64) {
		return &r.MaxNewlyDeniedBound, &r.MaxNewlyDeniedRequestBound
	}),
	limits(newlyAllowed, adminpb.Report_NEWLY_ALLOWED, func(r *adminpb.CommitRequirements) (**int64, **float64) {
		return &r.MaxNewlyAllowedCount, &r.MaxNewlyAllowedRatio
	}),
	bounds(newlyAllowed, adminpb.Report_NEWLY_ALLOWED, func(r *adminpb.CommitRequirements) (**float64, **float64) {
		return &r.MaxNewlyAllowedBound, &r.MaxNewlyAllowedRequestBound
	}),
	limits(responseChanged, adminpb.Report_RESPONSE_CHANGED, func(r *adminpb.CommitRequirements) (**int64, **float64) {
		return &r.MaxResponseChangedCount, &r.MaxResponseChangedRatio
	}),
	limits(failed, adminpb.Report_FAILED, func(r *adminpb.CommitRequirements) (**int64, **float64) {
		return &r.MaxFailedCount, &r.MaxFailedRatio
	}),
	[]requirement{maxDroppedCount(), maxDroppedShare(), maxUnjudgedCount(), maxTakenBackCount(), maxAccepted(), allNodes(), differentCommitter(), confirmed(), scope()},
)

// maxUnjudgedCount is a limit on the items in which the policies differ that are unjudged. They are those of the
// present pair, whatever the scope. More traffic may show them; an acceptance does it, too.
func maxUnjudgedCount() requirement {
	q := maxCount(unjudged, func(r *adminpb.CommitRequirements) **int64 { return &r.MaxUnjudgedCount }, func(m measured) (int64, string) {
		n := Unjudged(m.report)
		return n, Number(n) + " of " + Counted(m.report.GetItemCount(), "item")
	})
	judge := q.judge
	q.judge = func(r *adminpb.CommitRequirements, m measured) judgement {
		v := judge(r, m)
		v.unreachable = false
		switch {
		case !ChangeKnown(m.report):
			v.have, v.met, v.unreachable = "not known: it cannot be found out in what the policies differ", false, true
		case m.report.GetItemCount() == 0:
			v.have = "nothing differs"
		case !v.met:
			v.have += unexamined(m.report)
		}
		return v
	}
	return q
}

// unexamined says what is missing of the examination of requests; empty if nothing is.
func unexamined(r *adminpb.Report) string {
	switch pending, left := r.GetPendingRequestCount(), r.GetUnexaminedRequestCount(); {
	case pending > 0:
		return ", " + Number(pending) + " still being examined"
	case left > 0:
		return ", " + Number(left) + " could not be examined: only more traffic shows more"
	default:
		return ""
	}
}

// allNodes demands that every live node with the policy reports.
func allNodes() requirement {
	return requirement{
		name: "all-nodes", operator: none, form: noForm,
		set: func(r *adminpb.CommitRequirements, _ string) error {
			r.RequireAllNodes = true
			return nil
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) { return "", r.GetRequireAllNodes() },
		judge: func(_ *adminpb.CommitRequirements, m measured) judgement {
			all, reporting := m.report.GetNodeCount(), m.report.GetReportingNodeCount()
			have := Number(int64(reporting)) + " of " + Number(int64(all)) + " nodes"
			if all == 0 {
				have = "no live node with the policy"
			}
			return judgement{have: have, need: "all nodes", met: all > 0 && reporting >= all}
		},
	}
}

// DifferentCommitter is the name of the requirement that is about who commits, and not about
// what was compared.
const DifferentCommitter = "different-committer"

// differentCommitter demands that anyone who commits is known, and has never set the policy of
// the experiment (four eyes). More traffic does not help; another committer may.
func differentCommitter() requirement {
	return requirement{
		name: DifferentCommitter, operator: none, form: noForm,
		set: func(r *adminpb.CommitRequirements, _ string) error {
			r.RequireDifferentCommitter = true
			return nil
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) { return "", r.GetRequireDifferentCommitter() },
		judge: func(_ *adminpb.CommitRequirements, m measured) judgement {
			v := judgement{need: "somebody who has never set the policy"}
			by, name := m.committer, aip.Shown(m.committer.Member)
			switch {
			case by.Member == "":
				v.have, v.unreachable = "nobody: the server does not authenticate its callers", true
			case len(by.Editors) == 0:
				v.have, v.unreachable = "not known who has set the policy: create the experiment again", true
			case slices.Contains(by.Editors, by.Member):
				v.have = name + ", who has set the policy"
			default:
				v.have, v.met = name, true
			}
			return v
		},
	}
}

// scope says which counts the others are about.
func scope() requirement {
	return requirement{
		name: "scope", operator: equals, form: choiceForm,
		set: func(r *adminpb.CommitRequirements, value string) (err error) {
			r.Scope, err = parseScope(value)
			return err
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) {
			switch r.GetScope() {
			case adminpb.CommitRequirements_ALL_PAIRS:
				return allPairs, true
			case adminpb.CommitRequirements_PRESENT_PAIR:
				return presentPair, true
			default:
				return "", false
			}
		},
	}
}
