package report

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// several stands for methods and paths of which there is more than one.
const several = "*"

// liveFailures makes one difference of all that the live policy failed to decide. It is no
// difference that the experiment makes, and a busy machine fails at any path: the most frequent
// group gives it its reason and examples.
func liveFailures(groups []*evidencepb.Group) *adminpb.Report_Difference {
	most := slices.MaxFunc(groups, func(a, b *evidencepb.Group) int { return cmp.Compare(a.GetCount(), b.GetCount()) })
	d := difference(most)
	d.RequestCount = 0
	var callers [][]byte
	for _, g := range groups {
		d.RequestCount += g.GetCount()
		callers = append(callers, g.GetCallers())
		if g.GetMethod() != d.Method {
			d.Method = several
		}
		if g.GetPattern() != d.Path {
			d.Path = several
		}
		d.FirstTime, d.LastTime = earliest(d.FirstTime, g.GetFirstTime()), latest(d.LastTime, g.GetLastTime())
	}
	d.CallerCount = min(evidence.Callers(callers...), d.RequestCount)
	if d.CallerCount != 1 {
		d.Principal = ""
	}
	return d
}

// earliest and latest return one of two times, either of which may be absent.
func earliest(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if a == nil || b != nil && b.AsTime().Before(a.AsTime()) {
		return b
	}
	return a
}

func latest(a, b *timestamppb.Timestamp) *timestamppb.Timestamp {
	if a == nil || b != nil && b.AsTime().After(a.AsTime()) {
		return b
	}
	return a
}
