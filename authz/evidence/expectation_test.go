package evidence_test

import (
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
)

// TestExpectationsCover: an expectation covers the requests that fit all of its fields, and no path that a server
// behind the proxy may read as another one.
func TestExpectationsCover(t *testing.T) {
	expects := evidence.NewExpectations([]*adminpb.Expectation{
		{Kind: adminpb.Report_NEWLY_ALLOWED, Method: "GET", Path: "/api/reports", Labels: map[string]string{"role": "support"}},
		{Kind: adminpb.Report_NEWLY_DENIED, Path: "/orders/*/items"},
		{Kind: adminpb.Report_NEWLY_DENIED, Path: "/internal/**"},
		{Kind: adminpb.Report_NEWLY_DENIED, Path: "/v1/*:commit"},
		{Kind: adminpb.Report_NEWLY_DENIED, Path: "/internal/first"},
		{Kind: adminpb.Report_RESPONSE_CHANGED, Path: "/"},
	})
	support := []authz.Label{{Name: "role", Value: "support"}, {Name: "tenant", Value: "a"}}
	for _, c := range []struct {
		kind         authz.Difference
		method, path string
		labels       []authz.Label
		want         int32
	}{
		{authz.NewlyAllowed, "GET", "/api/reports", support, 1},
		{authz.NewlyAllowed, "GET", "/api/reports?month=1", support, 1},
		{authz.NewlyAllowed, "PUT", "/api/reports", support, 0},
		{authz.NewlyDenied, "GET", "/api/reports", support, 0},
		{authz.ExperimentFailed, "GET", "/api/reports", support, 0},
		{authz.NewlyAllowed, "GET", "/api/reports", nil, 0},
		{authz.NewlyAllowed, "GET", "/api/reports", []authz.Label{{Name: "role", Value: "admin"}}, 0},
		{authz.NewlyAllowed, "GET", "/api/reports/", support, 0},
		{authz.NewlyAllowed, "GET", "/api/reports/x", support, 0},
		{authz.NewlyAllowed, "GET", "/api", support, 0},
		{authz.NewlyDenied, "GET", "/orders/7/items", nil, 2},
		{authz.NewlyDenied, "GET", "/orders/a%20b/items", nil, 2},
		{authz.NewlyDenied, "GET", "/orders//items", nil, 0},
		{authz.NewlyDenied, "GET", "/orders/../items", nil, 0},
		{authz.NewlyDenied, "GET", "/orders/..;x/items", nil, 0},
		{authz.NewlyDenied, "GET", "/orders/%2e%2E/items", nil, 0},
		{authz.NewlyDenied, "GET", "/orders/a%2fb/items", nil, 0},
		{authz.NewlyDenied, "GET", "/orders/a%5Cb/items", nil, 0},
		{authz.NewlyDenied, "GET", `/orders/a\b/items`, nil, 0},
		{authz.NewlyDenied, "GET", "/orders/%252f/items", nil, 0},
		{authz.NewlyDenied, "GET", "/orders/7/items/1", nil, 0},
		{authz.NewlyDenied, "PUT", "/internal/stock/7", nil, 3},
		{authz.NewlyDenied, "PUT", "/internal/first", nil, 3},
		{authz.NewlyDenied, "PUT", "/internal", nil, 0},
		{authz.NewlyDenied, "PUT", "/internal/", nil, 0},
		{authz.NewlyDenied, "PUT", "/internal/x/../../api", nil, 0},
		{authz.NewlyDenied, "PUT", "/v1/web:commit", nil, 4},
		{authz.NewlyDenied, "PUT", "/v1/:commit", nil, 0},
		{authz.NewlyDenied, "PUT", "/v1/web:delete", nil, 0},
		{authz.ResponseChanged, "GET", "/", nil, 6},
		{authz.ResponseChanged, "GET", "", nil, 0},
	} {
		live, experiment := authz.Decision{Effect: authz.Allow, Labels: c.labels}, authz.Decision{Effect: authz.Deny}
		o := evidence.NewOutcome(c.kind, live, experiment, nil)
		if got := expects.Covering(&authz.Request{Method: c.method, Path: c.path}, o); got != c.want {
			t.Errorf("%v %s %s %v: the expectation is %d, want %d", c.kind, c.method, c.path, c.labels, got, c.want)
		}
	}
}

// TestExpectedRequestsAreAGroup: requests that are expected share no group with others, also where their paths are
// folded to the same pattern.
func TestExpectedRequestsAreAGroup(t *testing.T) {
	expects := evidence.NewExpectations([]*adminpb.Expectation{{Kind: adminpb.Report_NEWLY_DENIED, Path: "/orders/7"}})
	tally := evidence.NewTally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, expects, evidence.NewPatterns())
	o := evidence.NewOutcome(authz.NewlyDenied, authz.Decision{Effect: authz.Allow}, authz.Decision{Effect: authz.Deny}, nil)
	for i, path := range []string{"/orders/7", "/orders/8", "/orders/7", "/orders/9"} {
		r := &authz.Request{Method: "GET", Path: path, Time: time.UnixMilli(int64(i + 1))}
		if path == "/orders/9" || i == 2 {
			r.Principal = "spiffe://a"
		}
		tally.Count("live", evidence.Comparison{
			Request: r, Pattern: tally.Patterns().Of("GET", path), Outcome: o, Expectation: tally.Expectations().Covering(r, o),
		})
	}
	type counted struct{ count, unknown int64 }
	sum := evidence.NewSum(tally.Content(), nil)
	sum.Add(tally.Snapshot(time.UnixMilli(9)))
	sum.Add(tally.Snapshot(time.UnixMilli(9)))
	got := make(map[int32]counted)
	for _, g := range sum.Evidence().GetPairs()[0].GetGroups() {
		if g.GetPattern() != "/orders/*" {
			t.Errorf("a group is of %s", g.GetPattern())
		}
		got[g.GetExpectation()] = counted{g.GetCount(), g.GetUnknownCallers()}
	}
	// Without an expectation nobody asks how many have no caller.
	if len(got) != 2 || got[1] != (counted{4, 2}) || got[0] != (counted{4, 0}) {
		t.Errorf("the groups of two such tallies are %v", got)
	}
}
