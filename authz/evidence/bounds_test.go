package evidence_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// hostile is a request of which all that a client, or a policy, chooses is another one each
// time, and long.
func hostile(r *rand.Rand) request {
	text := func(n int) string { return strings.Repeat(fmt.Sprintf("é%x", r.Uint64()), n) }
	d := authz.Decision{Rule: text(40), Reason: text(40), HTTPStatus: 400 + r.IntN(100)}
	one := request{method: text(3), path: hostilePath(r), principal: text(100), live: allowed, experiment: d, at: time.Duration(r.IntN(7200)) * time.Second}
	if r.IntN(2) == 0 {
		one.method = string(rune('A'+r.IntN(26))) + string(rune('A'+r.IntN(26)))
	}
	switch r.IntN(4) {
	case 0:
		one.live, one.experiment = d, allowed
	case 1:
		one.live, one.changed = authz.Decision{HTTPStatus: 499}, []string{"header " + text(2), text(3)}
	}
	for range r.IntN(9) {
		one.labels = append(one.labels, authz.Label{Name: fmt.Sprintf("l%x", r.Uint64()), Value: text(12)[:128]})
	}
	return one
}

// TestHostileTrafficIsBounded: memory, records and sums stay within their limits, and every
// request is counted.
func TestHostileTrafficIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	nodes, each := int64(3), int64(12_000)
	if testing.Short() {
		nodes, each = 2, 2000
	}
	before := heap()
	var tallies []*evidence.Tally
	var all []*evidencepb.Evidence
	for range nodes {
		tally := newTally()
		for i := range each {
			etag := fmt.Sprint("live", r.IntN(8))
			one := hostile(r)
			if ask, explain := count(tally, etag, one); explain && i%100 == 0 {
				tally.Explain(etag, ask, evidence.Found, hostileCauses())
			}
			if i%1500 == 0 {
				tally.Refresh(func(s *evidence.Sum) { s.SetItems(etag, hostileItems(r)) })
				e := tally.Snapshot(begun)
				checkSums(t, e)
				checkSize(t, e, evidence.MaxRecord)
			}
		}
		tallies = append(tallies, tally)
		all = append(all, tally.Snapshot(begun))
	}
	if grown := int64(heap()-before) / nodes; grown > 20<<20 {
		t.Errorf("a tally has %d bytes, want at most 20 MB", grown)
	}
	sum := &evidencepb.Evidence{}
	merge(sum, all...)
	checkSums(t, sum)
	checkSize(t, sum, evidence.MaxSum)
	got := totalsOf(sum)
	if n := requests(got.Counts); n != nodes*each {
		t.Errorf("%d requests are counted, want %d", n, nodes*each)
	}
	var other int64
	for _, p := range pairs(sum) {
		for _, n := range p.GetOther() {
			other += n
		}
	}
	if other < nodes*each/2 {
		t.Errorf("%d requests are counted as other, want most of them", other)
	}
	runtime.KeepAlive(tallies)
}

func checkSize(t *testing.T, e *evidencepb.Evidence, limit int) {
	t.Helper()
	if n := proto.Size(e); n > limit {
		t.Errorf("evidence has %d bytes, want at most %d", n, limit)
	}
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func hostileCauses() []*evidencepb.Cause {
	c := &evidencepb.Cause{File: strings.Repeat("f", 5000), Line: 1, Text: strings.Repeat("t", 5000)}
	return []*evidencepb.Cause{c, c, c, c}
}

func hostileItems(r *rand.Rand) *evidencepb.Items {
	m := &evidencepb.Items{Digest: []byte(fmt.Sprint(r.IntN(3)))}
	for range 2 * change.MaxItems {
		m.Shown, m.Untrue = append(m.Shown, r.Int32()), append(m.Untrue, -r.Int32())
	}
	return m
}

// TestAnOrdinaryRecordKeepsItsDetail: 40 groups with examples, callers and two labels fit.
func TestAnOrdinaryRecordKeepsItsDetail(t *testing.T) {
	tally := newTally()
	for i := range 40 * 20 {
		count(tally, "live", request{
			method: "GET", path: fmt.Sprintf("/api/v1/place%c/part%c/%d", 'a'+i%10, 'a'+i/10%4, i), principal: fmt.Sprint("spiffe://cluster/ns/shop/sa/", i%5),
			labels: []authz.Label{{Name: "user", Value: fmt.Sprint("user-", i%30)}}, live: allowed, experiment: denied, at: time.Duration(i) * time.Second,
		})
	}
	e := tally.Snapshot(begun)
	checkSize(t, e, evidence.MaxRecord)
	checkSums(t, e)
	p := e.GetPairs()[0]
	if len(p.GetGroups()) != 40 || len(p.GetOther()) != 0 || len(p.GetEndpoints()) != 40 {
		t.Errorf("%d groups and %d endpoints are kept, want 40 of each", len(p.GetGroups()), len(p.GetEndpoints()))
	}
	for _, g := range p.GetGroups() {
		if len(g.GetCallers()) == 0 {
			t.Errorf("the group %s has no callers", g.GetPattern())
		}
	}
}

// TestAReasonForEachCallerIsOneGroup: what a policy says of the request in a reason does not
// hide how many requests there are.
func TestAReasonForEachCallerIsOneGroup(t *testing.T) {
	tally := newTally()
	for i := range 1000 {
		d := authz.Decision{Rule: "auth", Reason: fmt.Sprintf("user%d may not", i)}.WithRulePath("authz/allow")
		r := request{method: "GET", path: "/orders", principal: fmt.Sprint("user", i), live: allowed, experiment: d}
		explained(tally, "live", r, &evidencepb.Cause{File: "a.rego", Line: 1, Text: "x"})
		if i%100 == 0 {
			tally.Snapshot(begun)
		}
	}
	e := tally.Snapshot(begun)
	checkSums(t, e)
	groups := e.GetPairs()[0].GetGroups()
	if len(groups) != 9 || len(e.GetPairs()[0].GetOther()) != 0 {
		t.Fatalf("got %d groups and %v others, want 9 and none", len(groups), e.GetPairs()[0].GetOther())
	}
	if g := groups[0]; g.GetCount() != 992 || g.GetReason() != "(one of many reasons)" || len(g.GetCauses()) != 1 {
		t.Errorf("got %v, want 992 requests of many reasons, with their causes", g)
	}
}

// TestMethodsOfHTTPAreAlwaysTold: anyone who sends others first hides none of them.
func TestMethodsOfHTTPAreAlwaysTold(t *testing.T) {
	patterns := evidence.NewPatterns()
	for i := range 10_000 {
		patterns.Of(evidence.Method("M"+strings.Repeat("x", i%30)), "/")
	}
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"} {
		if got := patterns.Of(evidence.Method(method), "/orders").Method(); got != method {
			t.Errorf("%s is %s", method, got)
		}
	}
	if got := patterns.Of("PURGE", "/").Method(); got != "*" {
		t.Errorf("PURGE is %s, want it to be one of many", got)
	}
}
