package report

import (
	"time"

	adminpb "understudy/admin/v1"
)

// judgement is what comes of holding a report against one requirement.
type judgement struct {
	// have and need are texts for people.
	have, need string
	met        bool
	// unreachable says that more traffic cannot help.
	unreachable bool
}

// measured is what of a report requirements are about.
type measured struct {
	report *adminpb.Report
	// counts and duration are those of the scope, and estimate is what the counts stand for; nil
	// if they stand for themselves.
	counts, estimate *adminpb.Report_ReportCounts
	// shares say how sure the estimate is.
	shares []*adminpb.Report_EstimatedShare
	// bounds are what they exclude.
	bounds   []*adminpb.Report_Bound
	duration time.Duration
	scope    adminpb.CommitRequirements_Scope
	// committer is who would commit.
	committer Committer
}

// Committer is who would commit an experiment, and who may not where another one has to.
type Committer struct {
	// Member is its name in bindings; empty if nobody is authenticated.
	Member string
	// Editors are all who set the experiment's policy; empty if somebody is not known.
	Editors []string
}

// measure takes of a report what is of a scope.
func measure(r *adminpb.Report, scope adminpb.CommitRequirements_Scope) measured {
	if scope != adminpb.CommitRequirements_ALL_PAIRS {
		return measured{
			report: r, counts: Counts(r), estimate: r.GetEstimate(), shares: r.GetEstimatedShares(),
			bounds: r.GetBounds(), duration: r.GetActiveDuration().AsDuration(),
		}
	}
	return measured{
		report: r, counts: r.GetAllPairs(), estimate: r.GetAllPairsEstimate(), shares: r.GetAllPairsEstimatedShares(),
		bounds: r.GetAllPairsBounds(), duration: r.GetAllPairsActiveDuration().AsDuration(), scope: scope,
	}
}

// part returns the requests of a kind, without those that were accepted or are expected: the place where an
// acceptance and an expectation count.
func (m measured) part(kind adminpb.Report_Kind) Part {
	return partOf(m.counts, m.estimate, m.shares, kind).without(accepted(m.report, kind) + Expected(m.report, kind))
}

// scoped says of a text what it is about, if it is not the present pair.
func (m measured) scoped(text string) string {
	if m.scope == adminpb.CommitRequirements_ALL_PAIRS {
		return text + " over all pairs"
	}
	return text
}

// Judge holds a report against requirements, which may be nil. There is one result for each
// field that is set but the scope, in the order of [Format]. Of the report it reads the
// counts, what they stand for and how sure that is, the bounds, the durations, the numbers of items and those of nodes. by is
// who would commit.
func Judge(
	r *adminpb.CommitRequirements, source adminpb.Report_RequirementResult_Source, report *adminpb.Report, by Committer,
) []*adminpb.Report_RequirementResult {
	if r == nil {
		return nil
	}
	var out []*adminpb.Report_RequirementResult
	m := measure(report, r.GetScope())
	m.committer = by
	for _, q := range requirements {
		value, set := q.value(r)
		if !set || q.judge == nil {
			continue
		}
		v := q.judge(r, m)
		out = append(out, &adminpb.Report_RequirementResult{
			Requirement: q.term(value), Have: v.have, Need: v.need, Met: v.met, Unreachable: v.unreachable, Source: source,
		})
	}
	return out
}

// SetResults judges a report by the requirements of its location and of the call, either of
// which may be nil, and writes the results into it.
func SetResults(report *adminpb.Report, location, call *adminpb.CommitRequirements, by Committer) {
	report.Requirements = append(
		Judge(location, adminpb.Report_RequirementResult_LOCATION, report, by),
		Judge(call, adminpb.Report_RequirementResult_CALL, report, by)...)
	if implied := impliedResult(report); implied != nil {
		report.Requirements = append(report.Requirements, implied)
	}
	report.RequirementsMet = len(Unmet(report)) == 0
}

// Unmet returns the results of a report that are not met.
func Unmet(report *adminpb.Report) []*adminpb.Report_RequirementResult {
	var out []*adminpb.Report_RequirementResult
	for _, result := range report.GetRequirements() {
		if !result.GetMet() {
			out = append(out, result)
		}
	}
	return out
}

// OnlyAwaitsCommitter reports whether a report shows all that is required, and only the caller
// may not commit: somebody else can.
func OnlyAwaitsCommitter(report *adminpb.Report) bool {
	unmet := Unmet(report)
	for _, result := range unmet {
		if !isAboutCommitter(result.GetRequirement()) || result.GetUnreachable() {
			return false
		}
	}
	return len(unmet) > 0
}

// DemandsItems reports whether requirements, which may be nil, are about the items in which the
// policies differ.
func DemandsItems(r *adminpb.CommitRequirements) bool { return r != nil && r.MaxUnjudgedCount != nil }

// Demands reports whether requirements demand anything: those that are nil, or have a scope
// alone, do not.
func Demands(r *adminpb.CommitRequirements) bool {
	if r == nil {
		return false
	}
	for _, q := range requirements {
		if _, set := q.value(r); set && q.judge != nil {
			return true
		}
	}
	return false
}
