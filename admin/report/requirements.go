package report

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"understudy/admin/aip"
	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
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
	judge func(r *adminpb.CommitRequirements, m measured) verdict
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
	durationForm
	choiceForm
	noForm
)

// allPairs and presentPair are the values of scope.
const (
	allPairs    = "all-pairs"
	presentPair = "present-pair"
)

// The names of limits that [Unjudged] asks for.
const (
	newlyDenied  = "newly-denied"
	newlyAllowed = "newly-allowed"
	failed       = "failed"
	dropped      = "dropped"
)

// nothingCompared is what there is of a share before anything was compared.
const nothingCompared = "nothing compared"

// requirements are all there are, in the order in which they are written and judged.
var requirements = slices.Concat(
	[]requirement{minRequests(), minCallers(), minEndpoints(), minDuration()},
	limits(newlyDenied, adminpb.Report_NEWLY_DENIED, func(r *adminpb.CommitRequirements) (**int64, **float64) {
		return &r.MaxNewlyDeniedCount, &r.MaxNewlyDeniedRatio
	}),
	limits(newlyAllowed, adminpb.Report_NEWLY_ALLOWED, func(r *adminpb.CommitRequirements) (**int64, **float64) {
		return &r.MaxNewlyAllowedCount, &r.MaxNewlyAllowedRatio
	}),
	limits("response-changed", adminpb.Report_RESPONSE_CHANGED, func(r *adminpb.CommitRequirements) (**int64, **float64) {
		return &r.MaxResponseChangedCount, &r.MaxResponseChangedRatio
	}),
	limits(failed, adminpb.Report_FAILED, func(r *adminpb.CommitRequirements) (**int64, **float64) {
		return &r.MaxFailedCount, &r.MaxFailedRatio
	}),
	[]requirement{maxDroppedCount(), maxDroppedShare(), minCoverage(), allNodes(), differentCommitter(), scope()},
)

// minimum is a limit on a number from below. More traffic can always meet it.
func minimum(
	name string, field func(*adminpb.CommitRequirements) *int64, judge func(m measured) (have int64, text string),
) requirement {
	return requirement{
		name: name, operator: atLeast, form: countForm,
		set: func(r *adminpb.CommitRequirements, value string) (err error) {
			*field(r), err = parseCount(value)
			return err
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) {
			return formatCount(*field(r)), *field(r) != 0
		},
		judge: func(r *adminpb.CommitRequirements, m measured) verdict {
			need := *field(r)
			have, text := judge(m)
			return verdict{have: m.scoped(text), need: "at least " + Number(need), met: have >= need}
		},
	}
}

// minRequests is the number of requests compared that one side allows.
func minRequests() requirement {
	field := func(r *adminpb.CommitRequirements) *int64 { return &r.MinRequestCount }
	return minimum("requests", field, func(m measured) (int64, string) {
		have := Allowed(m.counts)
		text := Number(have)
		if rest := m.counts.GetRequestCount() - have; rest > 0 {
			text += " (" + Number(rest) + " more that both deny do not count)"
		}
		return have, text
	})
}

// minCallers is the number of distinct callers of those.
func minCallers() requirement {
	field := func(r *adminpb.CommitRequirements) *int64 { return &r.MinCallerCount }
	return minimum("callers", field, func(m measured) (int64, string) { return distinct(m, m.counts.GetCallerCount()) })
}

// minEndpoints is the number of distinct methods and paths of those.
func minEndpoints() requirement {
	field := func(r *adminpb.CommitRequirements) *int64 { return &r.MinEndpointCount }
	return minimum("endpoints", field, func(m measured) (int64, string) { return distinct(m, m.counts.GetEndpointCount()) })
}

// distinct writes how many distinct callers or endpoints the requests have that one side allows.
// If there are such requests, and nobody was told apart, it is not known.
func distinct(m measured, n int64) (int64, string) {
	if n == 0 && Allowed(m.counts) > 0 {
		return 0, "not known"
	}
	return n, Number(n)
}

// minDuration is the time in which the experiment was ACTIVE.
func minDuration() requirement {
	return requirement{
		name: "duration", operator: atLeast, form: durationForm,
		set: func(r *adminpb.CommitRequirements, value string) error {
			d, err := parseDuration(value)
			r.MinDuration = durationpb.New(d)
			return err
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) {
			return Duration(r.GetMinDuration().AsDuration()), r.GetMinDuration() != nil
		},
		judge: func(r *adminpb.CommitRequirements, m measured) verdict {
			need, have := r.MinDuration.AsDuration(), m.duration
			shown := have
			if have > time.Second {
				shown = have.Truncate(time.Second)
			}
			return verdict{have: m.scoped(Duration(shown)), need: "at least " + Duration(need), met: have >= need}
		},
	}
}

// optional returns how a field that may be absent is set and read.
func optional[T any](
	field func(*adminpb.CommitRequirements) **T, parse func(string) (T, error), format func(T) string,
) (set func(*adminpb.CommitRequirements, string) error, value func(*adminpb.CommitRequirements) (string, bool)) {
	set = func(r *adminpb.CommitRequirements, text string) error {
		v, err := parse(text)
		*field(r) = &v
		return err
	}
	value = func(r *adminpb.CommitRequirements) (string, bool) {
		v := *field(r)
		if v == nil {
			return "", false
		}
		return format(*v), true
	}
	return set, value
}

// limits are the two limits on the requests of one kind: on their number, and on their share.
func limits(name string, kind adminpb.Report_Kind, fields func(*adminpb.CommitRequirements) (**int64, **float64)) []requirement {
	return []requirement{
		maxCount(name, func(r *adminpb.CommitRequirements) **int64 { f, _ := fields(r); return f }, func(m measured) (int64, string) {
			have := m.part(kind).Count
			return have, Number(have) + acceptedText(m, kind)
		}),
		maxShare(name, func(r *adminpb.CommitRequirements) **float64 { _, f := fields(r); return f }, func(m measured) (float64, string, bool) {
			share, have, known := m.share(kind)
			return share, have + acceptedText(m, kind), known
		}),
	}
}

// share returns the share of a kind that limits are held against, which of an estimate is the upper end
// of its interval, and writes it for people, or says why it is not known.
func (m measured) share(kind adminpb.Report_Kind) (share float64, have string, known bool) {
	p := m.part(kind)
	n, all := lost(m.counts, m.estimate)
	switch {
	case m.counts.GetRequestCount() == 0:
		return 0, nothingCompared, false
	case overHundredth(n, all) && waiting(m.report) > 0:
		return 0, "not known yet: " + Number(waiting(m.report)) + " requests wait to be compared", false
	case overHundredth(n, all):
		return 0, "not known: " + Share(float64(n)/float64(all)) + " was lost, not by chance (" + Number(n) + " of " + Number(all) + ")", false
	case p.Whole == 0:
		return 0, "0 of 0 requests " + p.Words, true
	case p.Unsure():
		return 0, "not known: " + p.asSure() + ", " + Number(minEffective) + " are needed", false
	case p.Estimated:
		_, share = p.Interval()
		return share, "about " + roughly(p.Share(), math.Round) + " of the requests " + p.Words + " (" + p.Sureness() + ")", true
	default:
		share = p.Share()
		return share, Share(share) + " (" + Number(p.Count) + " of " + Number(p.Whole) + " requests " + p.Words + ")", true
	}
}

// acceptedText says how many requests of a kind were left out of a limit; empty if none were.
func acceptedText(m measured, kind adminpb.Report_Kind) string {
	if n := accepted(m.report, kind); n > 0 {
		return ", " + Number(n) + " accepted ones apart"
	}
	return ""
}

// maxCount is a limit on a count. Counts only grow, so one that is exceeded stays so.
func maxCount(name string, field func(*adminpb.CommitRequirements) **int64, of func(measured) (n int64, have string)) requirement {
	set, value := optional(field, parseCount, formatCount)
	return requirement{
		name: name, operator: atMost, form: countForm, set: set, value: value,
		judge: func(r *adminpb.CommitRequirements, m measured) verdict {
			limit := **field(r)
			n, have := of(m)
			return verdict{have: m.scoped(have), need: "at most " + Number(limit), met: n <= limit, unreachable: n > limit}
		},
	}
}

// maxShare is a limit on a share, which more traffic can always change.
func maxShare(
	name string, field func(*adminpb.CommitRequirements) **float64, of func(measured) (share float64, have string, known bool),
) requirement {
	set, value := optional(field, parseShare, formatShare)
	return requirement{
		name: name, operator: atMost, form: shareForm, set: set, value: value,
		judge: func(r *adminpb.CommitRequirements, m measured) verdict {
			limit := **field(r)
			share, have, known := of(m)
			return verdict{have: m.scoped(have), need: "at most " + formatShare(limit), met: known && share <= limit}
		},
	}
}

// maxDroppedCount is a limit on how many requests were not compared, by chance or not. Those that wait
// may be yet.
func maxDroppedCount() requirement {
	field := func(r *adminpb.CommitRequirements) **int64 { return &r.MaxDroppedCount }
	q := maxCount(dropped, field, func(m measured) (int64, string) {
		n, _ := NotCompared(m.counts)
		return n, Number(n) + liveFailedText(m) + waitingText(m)
	})
	judge := q.judge
	q.judge = func(r *adminpb.CommitRequirements, m measured) verdict {
		v := judge(r, m)
		n, _ := NotCompared(m.counts)
		v.unreachable = n-waiting(m.report) > **field(r)
		return v
	}
	return q
}

// waiting is how many requests of a report wait to be compared.
func waiting(r *adminpb.Report) int64 {
	for _, d := range r.GetDrops() {
		if d.GetReason() == evidence.Waiting {
			return d.GetRequestCount()
		}
	}
	return 0
}

// waitingText says how many requests wait to be compared; empty if none do.
func waitingText(m measured) string {
	if n := waiting(m.report); n > 0 {
		return ", " + Number(n) + " of them wait to be compared"
	}
	return ""
}

// maxDroppedShare is a limit on their share of all requests. Both are counted, and never
// estimated.
func maxDroppedShare() requirement {
	field := func(r *adminpb.CommitRequirements) **float64 { return &r.MaxDroppedRatio }
	return maxShare(dropped, field, func(m measured) (float64, string, bool) {
		n, all := NotCompared(m.counts)
		if all == 0 {
			return 0, nothingCompared, false
		}
		share, have := shareOf(n, all)
		return share, have + liveFailedText(m) + waitingText(m), true
	})
}

// liveFailedText says how many of those the live policy failed to decide; empty if none.
func liveFailedText(m measured) string {
	if n := m.counts.GetLiveFailedCount(); n > 0 {
		return ", " + Number(n) + " failed in the live policy"
	}
	return ""
}

// shareOf returns a share of what is not 0, and writes it for people.
func shareOf(part, all int64) (share float64, text string) {
	share = float64(part) / float64(all)
	return share, Share(share) + " (" + Number(part) + " of " + Number(all) + ")"
}

// minCoverage is the share of the rules that differ and were evaluated. Rules are those of
// the present pair, whatever the scope.
func minCoverage() requirement {
	field := func(r *adminpb.CommitRequirements) **float64 { return &r.MinChangedRuleCoverage }
	set, value := optional(field, parseShare, formatShare)
	return requirement{
		name: "changed-rules", operator: atLeast, form: shareForm, set: set, value: value,
		judge: func(r *adminpb.CommitRequirements, m measured) verdict {
			v := verdict{need: "at least " + formatShare(*r.MinChangedRuleCoverage)}
			seen, all := evaluated(m.report)
			switch {
			case all > 0:
				var share float64
				share, v.have = shareOf(seen, all)
				v.met = share >= *r.MinChangedRuleCoverage
				if !v.met {
					v.have += unexamined(m.report)
				}
			case m.report.GetRequestCount() > 0 && !Examined(m.report):
				v.have = "not known" + unexamined(m.report)
			case m.report.GetRequestCount() > 0:
				v.have, v.met = "no rule differs", true
			default:
				v.have = nothingCompared
			}
			return v
		},
	}
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
		judge: func(_ *adminpb.CommitRequirements, m measured) verdict {
			all, reporting := m.report.GetNodeCount(), m.report.GetReportingNodeCount()
			have := Number(int64(reporting)) + " of " + Number(int64(all)) + " nodes"
			if all == 0 {
				have = "no live node with the policy"
			}
			return verdict{have: have, need: "all nodes", met: all > 0 && reporting >= all}
		},
	}
}

// DifferentCommitter is the name of the requirement that is about who commits, and not about
// what was compared.
const DifferentCommitter = "different-committer"

// differentCommitter demands that whoever commits is known, and has never set the policy of
// the experiment (four eyes). More traffic does not help; another committer may.
func differentCommitter() requirement {
	return requirement{
		name: DifferentCommitter, operator: none, form: noForm,
		set: func(r *adminpb.CommitRequirements, _ string) error {
			r.RequireDifferentCommitter = true
			return nil
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) { return "", r.GetRequireDifferentCommitter() },
		judge: func(_ *adminpb.CommitRequirements, m measured) verdict {
			v := verdict{need: "somebody who has never set the policy"}
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
