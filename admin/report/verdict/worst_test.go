package verdict_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
)

// TestTheWorstEndpointIsNamed: requests for what both policies allow make a share small, and hide
// nobody who is locked out.
func TestTheWorstEndpointIsNamed(t *testing.T) {
	group := func(kind adminpb.Report_Kind, path string, n, of int64) *adminpb.Report_Difference {
		return &adminpb.Report_Difference{Kind: kind, Method: "GET", Path: path, RequestCount: n, EndpointRequestCount: of}
	}
	denied, allowed := adminpb.Report_NEWLY_DENIED, adminpb.Report_NEWLY_ALLOWED
	ofAllowed := func(n, of, allowed int64) *adminpb.Report_Difference {
		d := group(denied, "/a", n, of)
		d.EndpointAllowedCount = allowed
		return d
	}
	accepted := group(denied, "/orders/list", 90, 90)
	accepted.Acceptance = "a"
	for name, c := range map[string]struct {
		groups []*adminpb.Report_Difference
		want   string
	}{
		"in whole":                   {[]*adminpb.Report_Difference{group(denied, "/orders/list", 90, 90)}, "90 of 90 requests of GET /orders/list would be newly denied"},
		"for two reasons":            {[]*adminpb.Report_Difference{group(denied, "/a", 20, 80), group(denied, "/a", 20, 80)}, "40 of 80 requests of GET /a would be newly denied"},
		"the one with most":          {[]*adminpb.Report_Difference{group(denied, "/a", 10, 10), group(denied, "/b", 30, 60)}, "30 of 60 requests of GET /b would be newly denied"},
		"denied before allowed":      {[]*adminpb.Report_Difference{group(allowed, "/a", 50, 50), group(denied, "/b", 10, 10)}, "10 of 10 requests of GET /b would be newly denied"},
		"allowed":                    {[]*adminpb.Report_Difference{group(allowed, "/a", 50, 50)}, "50 of 50 requests of GET /a would be newly allowed"},
		"under a half":               {[]*adminpb.Report_Difference{group(denied, "/a", 39, 80)}, ""},
		"a tenth of what is allowed": {[]*adminpb.Report_Difference{ofAllowed(39, 400, 80)}, "39 of 80 requests of GET /a that the live policy allows would be newly denied"},
		"less than that":             {[]*adminpb.Report_Difference{ofAllowed(19, 400, 200)}, ""},
		"of few":                     {[]*adminpb.Report_Difference{group(denied, "/a", 9, 9)}, ""},
		"accepted":                   {[]*adminpb.Report_Difference{accepted}, ""},
		"another kind of a request":  {[]*adminpb.Report_Difference{group(adminpb.Report_FAILED, "/a", 90, 90)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := report.WithCounts(&adminpb.Report_ReportCounts{
				RequestCount: 10090, UnchangedCount: 10000, NewlyDeniedCount: 90,
				PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 10090, UnchangedCount: 10000, ResultChangedCount: 90},
			})
			r.Acceptances = []*adminpb.Acceptance{{Name: "a", State: adminpb.Acceptance_IN_FORCE}}
			r.Differences, r.UnjudgedItemCount = c.groups, proto.Int64(0)
			r.Requirements = []*adminpb.Report_RequirementResult{{Requirement: "newly-denied<=1%", Met: true}}
			got := verdict.Of(r).String()
			if c.want != "" && !strings.HasSuffix(got, "; "+c.want+".") {
				t.Errorf("got %q, want it to end with %q", got, c.want)
			}
			if c.want == "" && strings.Contains(got, " of GET ") {
				t.Errorf("got %q, want no endpoint in it", got)
			}
		})
	}
	all := report.WithCounts(&adminpb.Report_ReportCounts{
		RequestCount: 90, NewlyDeniedCount: 90, PolicyAllows: &adminpb.Report_ResultCounts{RequestCount: 90, ResultChangedCount: 90},
	})
	all.Differences, all.UnjudgedItemCount = []*adminpb.Report_Difference{group(denied, "/orders/list", 90, 90)}, proto.Int64(0)
	if got, want := verdict.Of(all).Why, "90 of 90 requests that the live policy allows would be newly denied (100%)"; got != want {
		t.Errorf("got %q, want it said once: %q", got, want)
	}
}
