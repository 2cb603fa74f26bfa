package verdict_test

import (
	"strings"
	"testing"

	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// bound is one of a kind and a unit, with the upper bound for one look.
func bound(kind adminpb.Report_Kind, unit adminpb.Report_Bound_Unit, differing, of int64, upper float64) *adminpb.Report_Bound {
	return &adminpb.Report_Bound{Kind: kind, Unit: unit, DifferingCount: differing, Count: of, UpperRatio: upper}
}

const (
	denied, allowed   = adminpb.Report_NEWLY_DENIED, adminpb.Report_NEWLY_ALLOWED
	callers, requests = adminpb.Report_Bound_CALLERS, adminpb.Report_Bound_REQUESTS
)

// TestExcludes: what no difference excludes is said of callers, if they are known; what differs is not
// excluded.
func TestExcludes(t *testing.T) {
	sampled := bound(denied, requests, 0, 32, 0.0894)
	sampled.Estimated = true
	for _, c := range []struct {
		differing int64
		bounds    []*adminpb.Report_Bound
		want      string
		rows      []string
	}{
		{0, nil, "", nil},
		{
			0, []*adminpb.Report_Bound{bound(denied, callers, 0, 6, 0.393), bound(denied, requests, 0, 40, 0.0722), bound(allowed, requests, 0, 1234, 0.00242)},
			"that excludes more than 39% of callers", []string{
				"newly denied: at most 39% of callers (0 of 6), 7.2% of requests if they are independent (0 of 40)",
				"newly allowed: at most 0.24% of requests if they are independent (0 of 1,234)",
			},
		},
		{
			0, []*adminpb.Report_Bound{sampled}, "that excludes more than 8.9% of requests if they are independent",
			[]string{"newly denied: at most 8.9% of requests if they are independent (as precise as 0 of 32)"},
		},
		{
			0, []*adminpb.Report_Bound{bound(allowed, callers, 0, 6, 0.393)}, "that excludes more than 39% of callers that the live policy denies",
			[]string{"newly allowed: at most 39% of callers (0 of 6)"},
		},
		{
			1, []*adminpb.Report_Bound{bound(denied, callers, 1, 6, 0.582)}, "",
			[]string{"newly denied: at most 58% of callers (1 of 6)"},
		},
	} {
		r := &adminpb.Report{RequestCount: 40, UnchangedCount: 40 - c.differing, NewlyDeniedCount: c.differing, Bounds: c.bounds}
		if got := verdict.Excludes(r); got != c.want {
			t.Errorf("of %v: %q, want %q", c.bounds, got, c.want)
		}
		if got, want := strings.Join(verdict.Bounds(r), "\n"), strings.Join(c.rows, "\n"); got != want {
			t.Errorf("the rows of %v are\n%s, want\n%s", c.bounds, got, want)
		}
	}
}

// TestHours writes the hours of a week as people say them, as long as these are a few parts.
func TestHours(t *testing.T) {
	hours := func(days []int32, of ...int32) (out []int32) {
		for _, day := range days {
			for _, hour := range of {
				out = append(out, 24*day+hour)
			}
		}
		return out
	}
	all := []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}
	for _, c := range []struct {
		hours []int32
		want  string
	}{
		{nil, ""},
		{hours([]int32{0, 1, 2, 3, 4}, 6, 7, 8, 9, 10, 11), "hours of the week seen: 30 of 168, Monday to Friday 06:00 to 12:00 UTC"},
		{hours([]int32{6}, 23), "hours of the week seen: 1 of 168, Sunday 23:00 to 24:00 UTC"},
		{
			append(hours([]int32{0, 1}, 8, 9, 14), hours([]int32{3}, 8, 9, 14)...),
			"hours of the week seen: 9 of 168, Monday to Tuesday 08:00 to 10:00 and 14:00 to 15:00, Thursday 08:00 to 10:00 and 14:00 to 15:00 UTC",
		},
		{hours([]int32{5, 6}, all...), "hours of the week seen: 48 of 168, Saturday to Sunday 00:00 to 24:00 UTC"},
		{append(append(hours([]int32{0}, 1), hours([]int32{2}, 1)...), append(hours([]int32{4}, 1), hours([]int32{6}, 1)...)...), "hours of the week seen: 4 of 168"},
		{hours([]int32{0, 1, 2, 3, 4, 5, 6}, all...), ""},
	} {
		r := &adminpb.Report{WeekHours: c.hours}
		if got := verdict.Hours(r); got != c.want {
			t.Errorf("the hours %v are %q, want %q", c.hours, got, c.want)
		}
		if known := strings.Join(verdict.NotKnown(r), "\n"); c.want != "" && !strings.Contains(known, c.want) {
			t.Errorf("what is not known is %q, want it to say: %s", known, c.want)
		}
	}
}
