package report

import (
	"math"

	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
)

// limits are the two limits on the requests of one kind: on their number, and on their share.
func limits(name string, kind adminpb.Report_Kind, fields func(*adminpb.CommitRequirements) (**int64, **float64)) []requirement {
	return []requirement{
		maxNumber(name, kind, func(r *adminpb.CommitRequirements) **int64 { f, _ := fields(r); return f }),
		maxShare(name, func(r *adminpb.CommitRequirements) **float64 { _, f := fields(r); return f }, func(m measured) (float64, string, bool) {
			share, have, known := m.share(kind)
			return share, have + apart(m.report, kind), known
		}),
	}
}

// maxNumber is a limit on the number of requests of a kind. A limit of 0 is held against what was counted, of which one
// is enough; it needs a limit on what was not compared next to it ([Unjudged]). Any other limit is held against the upper
// end of an estimate.
func maxNumber(name string, kind adminpb.Report_Kind, field func(*adminpb.CommitRequirements) **int64) requirement {
	q := maxCount(name, field, func(m measured) (int64, string) {
		n := m.part(kind).Count
		return n, Number(n) + apart(m.report, kind)
	})
	counted := q.judge
	q.judge = func(r *adminpb.CommitRequirements, m measured) judgement {
		v := counted(r, m)
		if limit := **field(r); v.met && limit > 0 {
			most, have, known := m.number(kind)
			v.have, v.met = m.scoped(have+apart(m.report, kind)), known && most <= limit
		}
		return v
	}
	return q
}

// number returns how many requests there are at most of a kind, which of an estimate is the upper end of its interval,
// and writes it for people, or says why it is not known. Where nothing was compared there are none.
func (m measured) number(kind adminpb.Report_Kind) (most int64, have string, known bool) {
	p := m.part(kind)
	have = Number(p.Count)
	if why := m.unknown(); why != "" && m.counts.GetRequestCount() > 0 {
		return p.Count, have + " counted; how many there are is " + why, false
	}
	switch {
	case p.Whole == 0 || !p.Estimated:
		return p.Count, have, true
	case p.Unsure():
		return p.Count, have + " counted; how many there are is not known: " + p.asPrecise() + ", " + Number(minEffective) + " are needed", false
	default:
		_, share := p.Interval()
		most = max(p.Count, int64(math.Ceil(share*p.ShareWhole)))
		return most, have + " counted, about " + Number(int64(math.Round(p.ShareCount))) + " in all, at most " + Number(most) + " with 95% confidence", true
	}
}

// share returns the share of a kind that limits are held against, which of an estimate is the upper end
// of its interval, and writes it for people, or says why it is not known.
func (m measured) share(kind adminpb.Report_Kind) (share float64, have string, known bool) {
	if why := m.unknown(); why != "" {
		return 0, why, false
	}
	switch p := m.part(kind); {
	case p.Whole == 0:
		return 0, "0 of 0 requests " + p.Words, true
	case p.Unsure():
		return 0, "not known: " + p.asPrecise() + ", " + Number(minEffective) + " are needed", false
	case p.Estimated:
		_, share = p.Interval()
		return share, "about " + roughly(p.Share(), math.Round) + " of the requests " + p.Words + " (" + p.Sureness() + ")", true
	default:
		share = p.Share()
		return share, Share(share) + " (" + Number(p.Count) + " of " + Number(p.Whole) + " requests " + p.Words + ")", true
	}
}

// unknown says why no share is known; empty if some may be.
func (m measured) unknown() string {
	n, all := lost(m.counts, m.estimate)
	switch {
	case m.counts.GetRequestCount() == 0:
		return nothingCompared
	case !overHundredth(n, all):
		return ""
	case waiting(m.report) > 0:
		return "not known yet: " + Number(waiting(m.report)) + " requests wait to be compared"
	default:
		return "not known: " + Share(float64(n)/float64(all)) + " was lost, not by chance (" + Number(n) + " of " + Number(all) + ")"
	}
}

// maxCount is a limit on a count. Counts only grow, so one that is exceeded stays so.
func maxCount(name string, field func(*adminpb.CommitRequirements) **int64, of func(measured) (n int64, have string)) requirement {
	set, value := optional(field, parseCount, formatCount)
	return requirement{
		name: name, operator: atMost, form: countForm, set: set, value: value,
		judge: func(r *adminpb.CommitRequirements, m measured) judgement {
			limit := **field(r)
			n, have := of(m)
			return judgement{have: m.scoped(have), need: "at most " + Number(limit), met: n <= limit, unreachable: n > limit}
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
		judge: func(r *adminpb.CommitRequirements, m measured) judgement {
			limit := **field(r)
			share, have, known := of(m)
			return judgement{have: m.scoped(have), need: "at most " + formatShare(limit), met: known && share <= limit}
		},
	}
}

// bounds are the two limits on what is excluded of a kind: of callers, which are not met where those are
// not known, and of requests. More traffic can always change that.
func bounds(name string, kind adminpb.Report_Kind, fields func(*adminpb.CommitRequirements) (**float64, **float64)) []requirement {
	return []requirement{
		maxBound(name, boundForm, kind, func(r *adminpb.CommitRequirements) **float64 { f, _ := fields(r); return f }),
		maxBound(name, requestBoundForm, kind, func(r *adminpb.CommitRequirements) **float64 { _, f := fields(r); return f }),
	}
}

func maxBound(name string, of form, kind adminpb.Report_Kind, field func(*adminpb.CommitRequirements) **float64) requirement {
	behind, need, unit := confidence, "", adminpb.Report_Bound_CALLERS
	if of == requestBoundForm {
		behind, need, unit = confidence+ofRequests, " of requests", adminpb.Report_Bound_REQUESTS
	}
	set, value := optional(field, boundParser(behind), func(share float64) string { return formatShare(share) + behind })
	return requirement{
		name: name, operator: atMost, form: of, set: set, value: value,
		judge: func(r *adminpb.CommitRequirements, m measured) judgement {
			limit := **field(r)
			share, have, known := m.bound(kind, unit)
			return judgement{have: m.scoped(have), need: "at most " + formatShare(limit) + need + " at 95%, however often one looks", met: known && share <= limit}
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
	q.judge = func(r *adminpb.CommitRequirements, m measured) judgement {
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
