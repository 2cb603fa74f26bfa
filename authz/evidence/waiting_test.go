package evidence_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// TestWhatWaitsIsNotComparedYet: it is in what is published as long as it waits, and stays in what a process
// that has died had published. At the end it is counted for what becomes of it.
func TestWhatWaitsIsNotComparedYet(t *testing.T) {
	now, ledger := begun, evidence.NewLedger(begun)
	ledger.SetClock(func() time.Time { return now })
	tally, s := ledger.Tally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, nil), newStore(t, func() time.Time { return now })
	waiting, standing := int64(3), int64(24)
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live", Refresh: func(s *evidence.Sum) { s.SetWaiting("live", waiting, standing) }}})
	count(tally, "live", request{path: "/", live: allowed, experiment: denied})
	publish := func() *evidencepb.Pair {
		due := ledger.Due(time.Second)
		s.publish(due)
		ledger.Published(due[0].Tally, due[0].Serial)
		return s.decode(due[0]).GetPairs()[0]
	}
	p := publish()
	if !proto.Equal(p.GetCounts(), &evidencepb.Counts{NewlyDenied: 1, Dropped: 3}) || p.GetWeights().GetDropped() != 24 || p.GetDrops()[evidence.Waiting] != 3 {
		t.Errorf("got %v, want 3 that wait and stand for 24", p)
	}
	waiting, standing = 0, 0
	for range 3 {
		count(tally, "live", request{path: "/", live: allowed, experiment: denied})
	}
	if p := publish(); !proto.Equal(p.GetCounts(), &evidencepb.Counts{NewlyDenied: 4}) || len(p.GetDrops()) != 0 {
		t.Errorf("got %v, want 4 requests and nothing that waits", p)
	}
	waiting, standing = 2, 2
	ledger.Close()
	if p := publish(); !proto.Equal(p.GetCounts(), &evidencepb.Counts{NewlyDenied: 4}) {
		t.Errorf("got %v at the end, want 4 requests and nothing that waits", p)
	}
}
