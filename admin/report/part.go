package report

import (
	"math"

	adminpb "understudy/admin/v1"
)

// Part is how many requests of a kind there are, and what they are a share of. Who is only ever denied
// adds nothing to what newly denied requests are a part of; who is allowed does, and makes the share
// smaller.
type Part struct {
	// Count and Whole were counted.
	Count, Whole int64
	// Words says behind "requests" which ones Whole are: "that the live policy allows".
	Words string
	// ShareCount and ShareWhole are what the share is made of. They are the same as Count and
	// Whole, unless those stand for more: see Estimated.
	ShareCount, ShareWhole float64
	// Estimated says that chance chose what was compared, so that the share is an estimate.
	Estimated bool
	// Effective is how many requests of equal weight an estimate is as precise as.
	Effective float64
}

// Share returns the share, from 0 to 1; 0 if it is one of nothing.
func (p Part) Share() float64 {
	if p.ShareWhole <= 0 {
		return 0
	}
	return p.ShareCount / p.ShareWhole
}

// Interval returns the ends of the 95 % interval of an estimate.
func (p Part) Interval() (low, high float64) { return interval(p.Share(), p.Effective) }

// Unsure reports whether a share is an estimate by too few requests to be known. That nothing is part of
// nothing is no estimate.
func (p Part) Unsure() bool { return p.Estimated && p.Whole > 0 && p.Effective < minEffective }

// Sureness says how sure an estimate is: "95% confidence: 0.2% to 3.9%; as precise as 48 requests". The ends are
// rounded outwards, so that what is over a limit is not written as the limit.
func (p Part) Sureness() string {
	low, high := p.Interval()
	return "95% confidence: " + roughly(low, math.Floor) + " to " + roughly(high, math.Ceil) + "; " + p.asPrecise()
}

// asPrecise is "as precise as 48 requests".
func (p Part) asPrecise() string {
	return "as precise as " + Counted(int64(p.Effective), "request")
}

// whole is what the requests of a kind are a part of.
type whole struct {
	words string
	count func(*adminpb.Report_ReportCounts) int64
}

// wholes :: kind → what its requests are a part of.
var wholes = map[adminpb.Report_Kind]whole{
	adminpb.Report_NEWLY_DENIED: {
		"that the live policy allows", func(c *adminpb.Report_ReportCounts) int64 { return c.GetPolicyAllows().GetRequestCount() },
	},
	adminpb.Report_NEWLY_ALLOWED: {
		"that the live policy denies", func(c *adminpb.Report_ReportCounts) int64 { return c.GetPolicyDenies().GetRequestCount() },
	},
	adminpb.Report_RESPONSE_CHANGED: {
		"with the same result", func(c *adminpb.Report_ReportCounts) int64 { return c.GetUnchangedCount() + c.GetResponseChangedCount() },
	},
	adminpb.Report_FAILED: {"compared", (*adminpb.Report_ReportCounts).GetRequestCount},
}

// countOf returns the requests of a kind; KIND_UNSPECIFIED is those that are decided alike.
func countOf(c *adminpb.Report_ReportCounts, kind adminpb.Report_Kind) int64 {
	switch kind {
	case adminpb.Report_NEWLY_DENIED:
		return c.GetNewlyDeniedCount()
	case adminpb.Report_NEWLY_ALLOWED:
		return c.GetNewlyAllowedCount()
	case adminpb.Report_RESPONSE_CHANGED:
		return c.GetResponseChangedCount()
	case adminpb.Report_FAILED:
		return c.GetFailedCount()
	case adminpb.Report_LIVE_FAILED:
		return c.GetLiveFailedCount()
	default:
		return c.GetUnchangedCount()
	}
}

// PartOf returns the requests of a kind among those of a report's present pair.
func PartOf(r *adminpb.Report, kind adminpb.Report_Kind) Part {
	return partOf(Counts(r), r.GetEstimate(), r.GetEstimatedShares(), kind)
}

// partOf returns the requests of a kind among counts. estimate is what they stand for; nil if
// they stand for themselves. shares say how sure it is.
func partOf(counts, estimate *adminpb.Report_ReportCounts, shares []*adminpb.Report_EstimatedShare, kind adminpb.Report_Kind) Part {
	whole := kind
	if _, known := wholes[whole]; !known {
		whole = adminpb.Report_FAILED // of all that was compared
	}
	of := wholes[whole]
	p := Part{Count: countOf(counts, kind), Whole: of.count(counts), Words: of.words, Estimated: estimate != nil}
	p.ShareCount, p.ShareWhole = float64(p.Count), float64(p.Whole)
	if p.Estimated {
		p.ShareCount, p.ShareWhole = float64(countOf(estimate, kind)), float64(of.count(estimate))
		for _, s := range shares {
			if s.GetKind() == whole {
				p.Effective = s.GetEffectiveRequestCount()
			}
		}
	}
	return p
}

// estimatedShares says how sure the shares are that are made of an estimate, which is the sum of the
// weights of requests; squares are the sums of the squares of these.
func estimatedShares(counts, estimate, squares *adminpb.Report_ReportCounts) (out []*adminpb.Report_EstimatedShare) {
	for _, kind := range kinds {
		of, limited := wholes[kind]
		if !limited {
			continue
		}
		s := &adminpb.Report_EstimatedShare{Kind: kind}
		if square := float64(of.count(squares)); square > 0 {
			weight := float64(of.count(estimate))
			s.EffectiveRequestCount = weight * weight / square
		}
		p := partOf(counts, estimate, []*adminpb.Report_EstimatedShare{s}, kind)
		s.Ratio = p.Share()
		s.LowerRatio, s.UpperRatio = p.Interval()
		out = append(out, s)
	}
	return out
}

// without returns a part that leaves out so many requests.
func (p Part) without(n int64) Part {
	left := max(0, p.Count-n)
	if p.Count > 0 {
		p.ShareCount *= float64(left) / float64(p.Count)
	}
	p.Count = left
	return p
}

// accepted returns how many requests of a kind were accepted.
func accepted(r *adminpb.Report, kind adminpb.Report_Kind) int64 {
	return ofKind(r.GetAcceptedDifferences(), kind)
}

// Allowed returns how many requests were compared that one of the two policies allows. Those that
// both deny are evidence of nothing: anybody can send them.
func Allowed(c *adminpb.Report_ReportCounts) int64 {
	return c.GetPolicyAllows().GetRequestCount() + c.GetNewlyAllowedCount()
}

// NotCompared returns how many requests were not compared, by chance or not, or because the live
// policy failed to decide them, and how many there were in all.
func NotCompared(c *adminpb.Report_ReportCounts) (n, all int64) {
	n = c.GetDroppedCount() + c.GetLiveFailedCount()
	return n, c.GetRequestCount() + n
}

// Incomplete reports whether more than a hundredth of the requests of a report was not compared.
func Incomplete(r *adminpb.Report) bool {
	n, all := NotCompared(Counts(r))
	return overHundredth(n, all)
}

// Lossy reports whether so much of a report was lost, and not by chance, that its shares are not
// known.
func Lossy(r *adminpb.Report) bool { return lossy(Counts(r), r.GetEstimate()) }

func lossy(counts, estimate *adminpb.Report_ReportCounts) bool {
	n, all := lost(counts, estimate)
	return overHundredth(n, all)
}

// lost returns how many requests were lost that were to be compared, and how many those were.
func lost(counts, estimate *adminpb.Report_ReportCounts) (n, all int64) {
	if estimate != nil {
		counts = estimate
	}
	return counts.GetLostCount(), counts.GetRequestCount() + counts.GetLiveFailedCount() + counts.GetLostCount()
}

// overHundredth reports whether a part is more than 1 % of a whole.
func overHundredth(part, whole int64) bool { return float64(part) > float64(whole)/100 }
