package report

import (
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

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
)

// requirements are all there are, in the order in which they are written and judged.
var requirements = slices.Concat(
	[]requirement{minRequests(), minDuration()},
	limits(newlyDenied,
		func(r *adminpb.CommitRequirements) (**int64, **float64) {
			return &r.MaxNewlyDeniedCount, &r.MaxNewlyDeniedRatio
		},
		func(c *adminpb.Report_ReportCounts) (int64, int64) { return c.NewlyDeniedCount, c.RequestCount }),
	limits(newlyAllowed,
		func(r *adminpb.CommitRequirements) (**int64, **float64) {
			return &r.MaxNewlyAllowedCount, &r.MaxNewlyAllowedRatio
		},
		func(c *adminpb.Report_ReportCounts) (int64, int64) { return c.NewlyAllowedCount, c.RequestCount }),
	limits("response-changed",
		func(r *adminpb.CommitRequirements) (**int64, **float64) {
			return &r.MaxResponseChangedCount, &r.MaxResponseChangedRatio
		},
		func(c *adminpb.Report_ReportCounts) (int64, int64) { return c.ResponseChangedCount, c.RequestCount }),
	limits(failed,
		func(r *adminpb.CommitRequirements) (**int64, **float64) { return &r.MaxFailedCount, &r.MaxFailedRatio },
		func(c *adminpb.Report_ReportCounts) (int64, int64) {
			return c.FailedCount + c.LiveFailedCount, c.RequestCount
		}),
	limits("dropped",
		func(r *adminpb.CommitRequirements) (**int64, **float64) {
			return &r.MaxDroppedCount, &r.MaxDroppedRatio
		},
		func(c *adminpb.Report_ReportCounts) (int64, int64) {
			return c.DroppedCount, c.RequestCount + c.DroppedCount
		}),
	[]requirement{minCoverage(), allNodes(), differentCommitter(), scope()},
)

// minRequests is the number of requests compared.
func minRequests() requirement {
	return requirement{
		name: "requests", operator: atLeast, form: countForm,
		set: func(r *adminpb.CommitRequirements, value string) (err error) {
			r.MinRequestCount, err = parseCount(value)
			return err
		},
		value: func(r *adminpb.CommitRequirements) (string, bool) {
			return formatCount(r.GetMinRequestCount()), r.GetMinRequestCount() != 0
		},
		judge: func(r *adminpb.CommitRequirements, m measured) verdict {
			have := m.counts.RequestCount
			return verdict{have: m.scoped(Number(have)), need: "at least " + Number(r.MinRequestCount), met: have >= r.MinRequestCount}
		},
	}
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

// limits are the two limits on one count: on itself, and on its share. of returns the
// count, and what it is a share of.
func limits(
	name string, fields func(*adminpb.CommitRequirements) (**int64, **float64),
	of func(*adminpb.Report_ReportCounts) (count, total int64),
) []requirement {
	return []requirement{
		maxCount(name, func(r *adminpb.CommitRequirements) **int64 { f, _ := fields(r); return f }, of),
		maxShare(name, func(r *adminpb.CommitRequirements) **float64 { _, f := fields(r); return f }, of),
	}
}

// maxCount is a limit on a count. Counts only grow, so one that is exceeded stays so.
func maxCount(
	name string, field func(*adminpb.CommitRequirements) **int64,
	of func(*adminpb.Report_ReportCounts) (count, total int64),
) requirement {
	set, value := optional(field, parseCount, formatCount)
	return requirement{
		name: name, operator: atMost, form: countForm, set: set, value: value,
		judge: func(r *adminpb.CommitRequirements, m measured) verdict {
			limit := **field(r)
			have, _ := of(m.counts)
			return verdict{
				have: m.scoped(Number(have)), need: "at most " + Number(limit), met: have <= limit, unreachable: have > limit,
			}
		},
	}
}

// maxShare is a limit on a share.
func maxShare(
	name string, field func(*adminpb.CommitRequirements) **float64,
	of func(*adminpb.Report_ReportCounts) (count, total int64),
) requirement {
	set, value := optional(field, parseShare, formatShare)
	return requirement{
		name: name, operator: atMost, form: shareForm, set: set, value: value,
		judge: func(r *adminpb.CommitRequirements, m measured) verdict {
			limit, need := **field(r), "at most "+formatShare(**field(r))
			count, total := of(m.counts)
			if total == 0 {
				return verdict{have: m.scoped("no requests"), need: need}
			}
			share, have := shareOf(count, total)
			return verdict{have: m.scoped(have), need: need, met: share <= limit}
		},
	}
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
				v.have = "nothing compared"
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
		return ", " + Number(left) + " could not be examined"
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
