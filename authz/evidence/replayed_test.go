package evidence_test

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// TestReplayedRequestsAreCountedApart counts some requests as they happen and others that are
// replayed, publishes in between, and adds up what two nodes have.
func TestReplayedRequestsAreCountedApart(t *testing.T) {
	sum := &evidencepb.Evidence{}
	for range 2 {
		tally := newTally()
		replayed := tally.Replayed("live")
		count(tally, "live", request{method: "GET", path: "/live", live: allowed, experiment: denied})
		var parts []*evidencepb.Evidence
		for i := range 30 {
			r := request{method: "GET", path: "/orders/7", live: allowed, experiment: denied, at: -time.Duration(i) * time.Minute}
			one := comparison(tally, r)
			one.Reasons = evidence.Reasons{1}
			ask, explain := replayed.Count(one)
			if explain != (i == 0) {
				t.Errorf("request %d: the causes should be found: %v, want %v", i, explain, i == 0)
			}
			if explain {
				replayed.Explain(ask, evidence.Found, []*evidencepb.Cause{{File: "a.rego", Line: 1, Text: "x"}})
			}
			if i == 10 {
				parts = append(parts, tally.Snapshot(begun))
			}
		}
		replayed.Drop("queue_bytes")
		parts = append(parts, tally.Snapshot(begun.Add(time.Second)), tally.Snapshot(begun.Add(2*time.Second)))
		for i, e := range parts[1:] {
			checkSums(t, e)
			if n := requests(e.GetPairs()[0].GetCounts()); n != 1 {
				t.Errorf("%d requests are counted as they happen, want 1", n)
			}
			if n := e.GetReplayed()[0].GetCounts(); n.GetNewlyDenied() != 30 || n.GetDropped() != 1 {
				t.Errorf("snapshot %d: %v are replayed, want 30 denied and 1 dropped", i, n)
			}
			var points int64
			for _, p := range e.GetPoints() {
				points += requests(p.GetCounts()) + p.GetCounts().GetDropped()
			}
			if points != 1 {
				t.Errorf("the points have %d requests, want the one that has happened", points)
			}
		}
		merge(sum, parts[2])
	}
	if len(sum.GetReplayed()) != 1 || requests(sum.GetPairs()[0].GetCounts()) != 2 {
		t.Fatalf("got %v, want two requests, and one pair that was replayed", sum)
	}
	p := sum.GetReplayed()[0]
	g := p.GetGroups()[0]
	if requests(p.GetCounts()) != 60 || g.GetCount() != 60 || g.GetPattern() != "/orders/*" || p.GetDrops()["queue_bytes"] != 2 || len(g.GetCauses()) != 1 {
		t.Errorf("got %v, want 60 requests of /orders/* and their cause", p)
	}
	if first, last := p.GetFirstTime().AsTime(), p.GetLastTime().AsTime(); !first.Equal(begun.Add(-29*time.Minute)) || !last.Equal(begun) {
		t.Errorf("they are from %v to %v", first, last)
	}
}

// TestWhatIsReplayedIsBounded replays for three live policies, with many groups.
func TestWhatIsReplayedIsBounded(t *testing.T) {
	tally := newTally()
	for i, etag := range []string{"a", "b", "c"} {
		replayed := tally.Replayed(etag)
		for status := range 120 {
			d := denied
			d.HTTPStatus = 400 + status
			replayed.Count(comparison(tally, request{
				method: "GET", path: "/x", live: allowed, experiment: d, at: time.Duration(i) * time.Minute,
			}))
		}
	}
	e := tally.Snapshot(begun)
	if n := proto.Size(e); n > evidence.MaxRecord {
		t.Errorf("the record has %d bytes", n)
	}
	var etags []string
	for _, p := range e.GetReplayed() {
		etags = append(etags, p.GetPolicyEtag())
		var other int64
		for _, n := range p.GetOther() {
			other += n
		}
		for _, g := range p.GetGroups() {
			other += g.GetCount()
		}
		if len(p.GetGroups()) > 50 || other != 120 || requests(p.GetCounts()) != 120 {
			t.Errorf("%s has %d groups, %d requests in them and others; want at most 50, and 120", p.GetPolicyEtag(), len(p.GetGroups()), other)
		}
	}
	if !slices.Equal(etags, []string{"c", "b"}) {
		t.Errorf("%v are kept, want c and b, which were last", etags)
	}
}

// TestAReplayIsPublishedAtOnce: also if something was published before.
func TestAReplayIsPublishedAtOnce(t *testing.T) {
	ledger := evidence.NewLedger(begun)
	publish := func() {
		for _, e := range ledger.Due(time.Second) {
			ledger.Published(e.Tally, e.Serial)
		}
	}
	tally := ledger.Tally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, nil)
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live"}})
	count(tally, "live", request{method: "GET", path: "/live", live: allowed, experiment: denied})
	publish()
	replayed := tally.Replayed("live")
	replayed.Count(comparison(tally, request{method: "GET", path: "/x", live: allowed, experiment: denied}))
	if ledger.Fresh() {
		t.Error("it is due before the replay has ended")
	}
	replayed.End()
	if !ledger.Fresh() {
		t.Error("it is not due when the replay has ended")
	}
	due := ledger.Due(time.Second)
	replayed.End()
	ledger.Published(due[0].Tally, due[0].Serial)
	if !ledger.Fresh() {
		t.Error("what has ended during a publication is not due after it")
	}
	publish()
	if ledger.Fresh() {
		t.Error("it is due once more")
	}
}
