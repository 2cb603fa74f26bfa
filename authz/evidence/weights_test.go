package evidence_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// TestWeightsAreAddedUp: what was drawn by chance counts once, and stands for as many as it was drawn
// from. Where nothing was, there are no weights.
func TestWeightsAreAddedUp(t *testing.T) {
	one := request{method: "GET", path: "/", principal: "a", live: allowed, experiment: denied}
	plain, drawn := newTally(), newTally()
	count(plain, "live", one)
	for _, weight := range []int64{4, 1} {
		c := comparison(drawn, one)
		c.Weight = weight
		drawn.Count("live", c)
	}
	drawn.Drop("live", evidence.Drop{Reason: "queue_full", Weight: 8, Time: begun})
	drawn.Drop("live", evidence.Drop{Reason: evidence.Sampled, Time: begun})
	if p := plain.Snapshot(begun).GetPairs()[0]; p.GetWeights() != nil || p.GetSquares() != nil {
		t.Errorf("there are weights %v though all were compared", p.GetWeights())
	}
	sum := &evidencepb.Evidence{}
	merge(sum, plain.Snapshot(begun), drawn.Snapshot(begun))
	p := sum.GetPairs()[0]
	for name, c := range map[string]struct{ got, want *evidencepb.Counts }{
		"counts":  {p.GetCounts(), &evidencepb.Counts{NewlyDenied: 3, Dropped: 2}},
		"weights": {p.GetWeights(), &evidencepb.Counts{NewlyDenied: 6, Dropped: 9}},
		"squares": {p.GetSquares(), &evidencepb.Counts{NewlyDenied: 18, Dropped: 65}},
	} {
		if !proto.Equal(c.got, c.want) {
			t.Errorf("%s are %v, want %v", name, c.got, c.want)
		}
	}
}

// TestWhoIsAllowed: callers and endpoints are those of requests that one of the policies allows, so that
// anyone who is refused by both makes none.
func TestWhoIsAllowed(t *testing.T) {
	tally := newTally()
	for i := range 300 {
		count(tally, "live", request{method: "GET", path: fmt.Sprintf("/nothing/w%c", 'a'+i%15), principal: fmt.Sprint("stranger", i), live: denied, experiment: denied})
	}
	for i := range 40 {
		count(tally, "live", request{method: "GET", path: "/orders/list", principal: fmt.Sprint("caller", i%20), live: allowed, experiment: denied})
		count(tally, "live", request{method: "PUT", path: "/orders/list", principal: fmt.Sprint("caller", i%20), live: denied, experiment: allowed})
	}
	p := tally.Snapshot(begun).GetPairs()[0]
	if n, off := evidence.PairCallers(p.GetAllowedCallers().GetSet(), p.GetNewlyAllowedCallers().GetSet()); n != 20 || off != 0 {
		t.Errorf("%d callers, ± %d, want just 20", n, off)
	}
	var endpoints, requests int64
	for _, e := range p.GetEndpoints() {
		if requests += e.GetAllowed(); e.GetAllowed() > 0 {
			endpoints++
		}
	}
	if endpoints != 2 || requests != 80 {
		t.Errorf("%d requests of %d endpoints are allowed, want 80 of 2", requests, endpoints)
	}
}
