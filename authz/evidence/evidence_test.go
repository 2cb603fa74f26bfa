package evidence_test

import (
	"fmt"
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
	allowed = authz.Decision{Effect: authz.Allow}.WithRulePath("authz/allow")
	denied  = authz.Decision{Rule: "auth", Reason: "no"}.WithRulePath("authz/allow")
)

// count counts a request.
func count(t *evidence.Tally, policyEtag string, r request) (ask evidence.Unexplained, explain bool) {
	return t.Count(policyEtag, comparison(t, r))
}

// explained counts a request, and explains it if that is asked for.
func explained(t *evidence.Tally, policyEtag string, r request, causes ...*evidencepb.Cause) {
	if ask, explain := count(t, policyEtag, r); explain {
		t.Explain(policyEtag, ask, evidence.Found, causes)
	}
}

func comparison(t *evidence.Tally, r request) evidence.Comparison {
	r.live.Labels = r.labels
	asked := &authz.Request{
		ID: fmt.Sprintf("id-%d", r.at), Method: r.method, Path: r.path, Principal: r.principal, Time: begun.Add(r.at),
	}
	return evidence.Comparison{
		Reasons: evidence.Reasons{1}, Request: asked, Pattern: t.Patterns().Of(evidence.Method(r.method), r.path),
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
	other := authz.Decision{Effect: authz.Allow, Headers: []authz.Field{{Name: "x-role", Value: "a"}}}.WithRulePath("authz/allow")
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
		if _, got := count(tally, "live", r); got != (i == 1 || i == 3 || i == 4) { // the third is for the reasons of the second, and no expression explains a failure
			t.Errorf("request %d is to be explained: %v", i, got)
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
