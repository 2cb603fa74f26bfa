package evidence_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// begun is the time of the first request of a test.
var begun = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const experiment = "projects/p/locations/l/policies/web/experiments/tighter"

// request is one of a test.
type request struct {
	method, path, principal string
	labels                  []authz.Label
	live, experiment        authz.Decision
	changed                 []string
	at                      time.Duration
}

var (
	allowed = authz.Decision{Effect: authz.Allow}
	denied  = authz.Decision{Rule: "auth", Reason: "no"}
)

// count counts a request.
func count(t *evidence.Tally, policyEtag string, r request) (explain bool) {
	return t.Count(policyEtag, comparison(t, r))
}

func comparison(t *evidence.Tally, r request) evidence.Comparison {
	r.live.Labels = r.labels
	asked := &authz.Request{
		ID: fmt.Sprintf("id-%d", r.at), Method: r.method, Path: r.path, Principal: r.principal, Time: begun.Add(r.at),
	}
	return evidence.Comparison{
		Request: asked, Pattern: t.Patterns().Of(evidence.Method(r.method), r.path),
		Outcome: evidence.NewOutcome(asked.Compare(r.live, r.experiment), r.live, r.experiment, r.changed),
	}
}

func newTally() *evidence.Tally {
	return evidence.NewTally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, nil, evidence.NewPatterns())
}

// requests is the number of requests compared.
func requests(c *evidencepb.Counts) int64 {
	return c.GetBothAllow() + c.GetBothDeny() + differing(c)
}

func differing(c *evidencepb.Counts) int64 {
	return c.GetNewlyDenied() + c.GetNewlyAllowed() + c.GetAllowedChanged() + c.GetDeniedChanged() + c.GetAllowedFailed() + c.GetDeniedFailed() + c.GetLiveFailed()
}

// pairs are all of evidence.
func pairs(e *evidencepb.Evidence) []*evidencepb.Pair {
	out := e.GetPairs()
	if e.GetEarlier() != nil {
		out = append(out[:len(out):len(out)], e.GetEarlier())
	}
	return out
}

// groupNamed returns the only group with a path pattern.
func groupNamed(t *testing.T, e *evidencepb.Evidence, pattern string) *evidencepb.Group {
	t.Helper()
	var found []*evidencepb.Group
	for _, p := range pairs(e) {
		for _, g := range p.GetGroups() {
			if g.GetPattern() == pattern {
				found = append(found, g)
			}
		}
	}
	if len(found) != 1 {
		t.Fatalf("there are %d groups of %s, want one", len(found), pattern)
	}
	return found[0]
}

// checkSums holds what is true of all evidence.
func checkSums(t *testing.T, e *evidencepb.Evidence) {
	t.Helper()
	for _, p := range pairs(e) {
		var grouped, asked int64
		for _, g := range p.GetGroups() {
			grouped += g.GetCount()
		}
		for _, n := range p.GetOther() {
			grouped += n
		}
		for _, at := range p.GetEndpoints() {
			asked += at.GetCount()
		}
		var drops int64
		for _, n := range p.GetDrops() {
			drops += n
		}
		if want := differing(p.GetCounts()); grouped != want {
			t.Errorf("pair %q: groups and other have %d requests, want %d", p.GetPolicyEtag(), grouped, want)
		}
		if want := requests(p.GetCounts()); asked+p.GetOtherEndpoints() != want {
			t.Errorf("pair %q: endpoints have %d requests, want %d", p.GetPolicyEtag(), asked+p.GetOtherEndpoints(), want)
		}
		if want := p.GetCounts().GetDropped(); drops != want {
			t.Errorf("pair %q: %d drops have a reason, want %d", p.GetPolicyEtag(), drops, want)
		}
		if len(p.GetGroups()) > 200 {
			t.Errorf("pair %q: %d groups, want at most 200", p.GetPolicyEtag(), len(p.GetGroups()))
		}
	}
}

// TestATallyCountsByKindGroupAndEndpoint counts one request of each kind.
func TestATallyCountsByKindGroupAndEndpoint(t *testing.T) {
	tally := newTally()
	other := authz.Decision{Effect: authz.Allow, Headers: []authz.Field{{Name: "x-role", Value: "a"}}}
	for i, r := range []request{
		{method: "GET", path: "/health/orders/17", live: allowed, experiment: allowed},
		{method: "GET", path: "/health/orders/18?q", principal: "spiffe://a", live: allowed, experiment: denied},
		{method: "GET", path: "/health/orders/19", principal: "spiffe://b", live: allowed, experiment: denied},
		{method: "POST", path: "/health", live: denied, experiment: allowed, labels: []authz.Label{{Name: "user", Value: "eve"}}},
		{method: "GET", path: "/health", live: allowed, experiment: other, changed: []string{"header x-role"}},
		{method: "GET", path: "/health", live: allowed, experiment: authz.Failed(authz.FailureDeadline, "slow")},
		{method: "GET", path: "/health", live: authz.Failed(authz.FailureDeadline, "slow"), experiment: allowed},
	} {
		r.at = time.Duration(i) * time.Second
		if got, want := count(tally, "live", r), i > 0; got != want {
			t.Errorf("request %d is to be explained: %v, want %v", i, got, want)
		}
	}
	tally.Drop("live", evidence.Drop{Reason: "queue_full", Time: begun})
	got := tally.Snapshot(begun.Add(time.Minute))
	checkSums(t, got)
	if len(got.GetPairs()) != 1 || got.GetEarlier() != nil {
		t.Fatalf("got %d pairs, want 1", len(got.GetPairs()))
	}
	p := got.GetPairs()[0]
	want := &evidencepb.Counts{BothAllow: 1, NewlyDenied: 2, NewlyAllowed: 1, AllowedChanged: 1, AllowedFailed: 1, LiveFailed: 1, Dropped: 1}
	if !proto.Equal(p.GetCounts(), want) {
		t.Errorf("got counts %v, want %v", p.GetCounts(), want)
	}
	first := groupNamed(t, got, "/health/orders/*")
	if first.GetPattern() != "/health/orders/*" || first.GetCount() != 2 || evidence.Callers(first.GetCallers()) != 2 || len(first.GetExamples()) != 2 {
		t.Errorf("got %v, want two requests of two callers on /health/orders/*", first)
	}
	if e := first.GetExamples()[0]; e.GetPath() != "/health/orders/18" || e.GetPrincipal() != "spiffe://a" || e.GetExperimentStatus() != 403 {
		t.Errorf("got the example %v", e)
	}
	endpoints := make(map[string]int64)
	for _, e := range p.GetEndpoints() {
		endpoints[e.GetMethod()+" "+e.GetPattern()] = e.GetCount()
	}
	if d := cmp.Diff(map[string]int64{"GET /health/orders/*": 3, "POST /health": 1, "GET /health": 3}, endpoints); d != "" {
		t.Errorf("endpoints (-want +got):\n%s", d)
	}
	if l := p.GetLabels(); len(l) != 1 || l[0].GetTotal() != 1 || l[0].GetValues()[0].GetValue() != "eve" {
		t.Errorf("got labels %v, want eve once", l)
	}
	if n := len(got.GetPoints()); n != 1 {
		t.Errorf("got %d points, want 1", n)
	}
}

// TestCausesThatAreNotFoundAreAskedForAgain: anyone who is asked may be too busy with others, and
// a group has few examples. As long as there are no causes the group is asked about each time
// that it has doubled.
func TestCausesThatAreNotFoundAreAskedForAgain(t *testing.T) {
	tally := newTally()
	r := request{method: "GET", path: "/orders", live: allowed, experiment: denied}
	var asked []int
	for i := 1; i <= 100; i++ {
		if count(tally, "live", r) {
			asked = append(asked, i)
		}
		if i == 50 {
			tally.Snapshot(begun) // what is published is counted no more
		}
	}
	if d := cmp.Diff([]int{1, 2, 4, 8, 16, 32, 64}, asked); d != "" {
		t.Errorf("asked at (-want +got):\n%s", d)
	}
	tally.Explain("live", comparison(tally, r), []*evidencepb.Cause{{File: "a.rego", Line: 1, Text: "x"}})
	for range 100 {
		if count(tally, "live", r) {
			t.Fatal("causes that are known are asked for")
		}
	}
}

// TestEachReasonIsExplainedOnce: requests of one group may differ by several causes, and each reason for which both
// policies have decided is asked about, until its causes were found.
func TestEachReasonIsExplainedOnce(t *testing.T) {
	tally := newTally()
	by := func(why uint64) evidence.Comparison {
		c := comparison(tally, request{method: "GET", path: "/orders", live: allowed, experiment: denied})
		c.Reasons = evidence.Reasons{why, 1}
		return c
	}
	cause := func(line int32) []*evidencepb.Cause {
		return []*evidencepb.Cause{{File: "a.rego", Line: line, Text: "x"}}
	}
	var asked []uint64
	for _, why := range []uint64{7, 7, 7, 8, 8, 7} {
		if tally.Count("live", by(why)) {
			asked = append(asked, why)
		}
	}
	if !slices.Equal(asked, []uint64{7, 8}) {
		t.Errorf("asked for the reasons %v, want each once", asked)
	}
	tally.Explain("live", by(7), cause(1))
	tally.Explain("live", by(8), nil) // nobody had time
	asked = nil
	for range 10 { // the group doubles with the 8th and the 16th
		for _, why := range []uint64{7, 8} {
			if tally.Count("live", by(why)) {
				asked = append(asked, why)
			}
		}
	}
	if !slices.Equal(asked, []uint64{8}) {
		t.Errorf("asked again for %v, want once for the one without causes", asked)
	}
	tally.Explain("live", by(8), cause(2))
	groups := tally.Snapshot(begun).GetPairs()[0].GetGroups()
	if len(groups) != 1 || len(groups[0].GetCauses()) != 2 || groups[0].GetCauses()[1].GetLine() != 2 {
		t.Errorf("the groups are %v, want one with both causes", groups)
	}
	n := 0
	for why := range uint64(1000) {
		if tally.Count("live", by(100+why)) {
			n++
		}
	}
	if n != 62 {
		t.Errorf("asked for %d more reasons, want 62: 64 in all", n)
	}
}

// TestFailuresOfTheLivePolicyAreOneGroup: whatever was asked, whatever the live policy said of its
// failure, and whatever the experiment did.
func TestFailuresOfTheLivePolicyAreOneGroup(t *testing.T) {
	tally := newTally()
	for i := range 6 {
		r := request{
			method: "GET", path: fmt.Sprintf("/orders%c", 'a'+i), principal: fmt.Sprint("user-", i%4), at: time.Duration(i) * time.Second,
			live: authz.Failed(authz.FailureDeadline, fmt.Sprint("it took more than ", i, "ms")), experiment: allowed,
		}
		if i%2 == 0 {
			r.method, r.live, r.experiment = "POST", authz.Failed(authz.FailureOverloaded, "it waited"), authz.Failed(authz.FailureError, "broken")
		}
		count(tally, "live", r)
	}
	got := tally.Snapshot(begun)
	checkSums(t, got)
	p := got.GetPairs()[0]
	if n := p.GetCounts(); n.GetLiveFailed() != 6 || differing(n) != 6 {
		t.Errorf("got counts %v, want 6 failures of the live policy and no other", n)
	}
	if len(p.GetGroups()) != 1 {
		t.Fatalf("got %d groups, want one", len(p.GetGroups()))
	}
	g := p.GetGroups()[0]
	if g.GetCount() != 6 || g.GetMethod() != "*" || g.GetPattern() != "/**" || g.GetRule() != "" || g.GetReason() != "" || evidence.Callers(g.GetCallers()) != 4 {
		t.Errorf("got %v, want 6 requests of 4 callers anywhere, with no reason", g)
	}
	if len(g.GetExamples()) != 3 || g.GetExamples()[1].GetPath() != "/ordersb" {
		t.Errorf("got the examples %v, want those of three requests", g.GetExamples())
	}
	if len(p.GetEndpoints()) != 6 {
		t.Errorf("got %d endpoints, want 6", len(p.GetEndpoints()))
	}
}
