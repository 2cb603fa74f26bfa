package evidence_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/rego/change"
)

// TestWhoAsksByEffect: callers are told apart by what the live policy says, and by what the
// experiment says otherwise; requests without a caller are in none, and a failure of the live policy is
// in neither.
func TestWhoAsksByEffect(t *testing.T) {
	failed := authz.Decision{Failure: authz.FailureDeadline}
	kinds := []struct {
		who              string
		of               int
		live, experiment authz.Decision
	}{
		{"a", 7, allowed, allowed}, {"b", 5, allowed, denied}, {"c", 4, denied, denied}, {"d", 3, denied, allowed},
		{"e", 2, allowed, failed}, {"f", 6, failed, allowed},
	}
	sum := &evidencepb.Evidence{}
	for range 2 { // nodes that see the same callers
		tally := newTally()
		for _, k := range kinds {
			for i := range 10 * k.of {
				count(tally, "live", request{method: "GET", path: "/", principal: fmt.Sprint(k.who, i%k.of), live: k.live, experiment: k.experiment})
			}
			count(tally, "live", request{method: "GET", path: "/", live: k.live, experiment: k.experiment})
		}
		merge(sum, tally.Snapshot(begun))
	}
	p := sum.GetPairs()[0]
	for name, c := range map[string]struct {
		got               *evidencepb.Callers
		callers, requests int64
	}{
		"allowed":       {p.GetAllowedCallers(), 7 + 5 + 2, 2 * 10 * (7 + 5 + 2)},
		"denied":        {p.GetDeniedCallers(), 4 + 3, 2 * 10 * (4 + 3)},
		"newly denied":  {p.GetNewlyDeniedCallers(), 5, 2 * 10 * 5},
		"newly allowed": {p.GetNewlyAllowedCallers(), 3, 2 * 10 * 3},
	} {
		if n, _ := evidence.PairCallers(c.got.GetSet()); n != c.callers || c.got.GetRequests() != c.requests {
			t.Errorf("%s: %d callers of %d requests, want %d of %d", name, n, c.got.GetRequests(), c.callers, c.requests)
		}
	}
}

// TestHoursOfTheWeek: each hour of UTC in which something was compared is there once, whatever was
// added to what; what was not compared, and what the live policy failed on, adds none.
func TestHoursOfTheWeek(t *testing.T) {
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	at := func(day, hour, minute int) time.Duration {
		return monday.Add(time.Duration(day*24+hour)*time.Hour + time.Duration(minute)*time.Minute).Sub(begun)
	}
	one := func(times ...time.Duration) *evidencepb.Evidence {
		tally := newTally()
		for _, d := range times {
			count(tally, "live", request{method: "GET", path: "/", live: allowed, experiment: allowed, at: d})
		}
		count(tally, "live", request{method: "GET", path: "/", live: authz.Decision{Failure: authz.FailureDeadline}, experiment: allowed, at: at(2, 2, 2)})
		tally.Drop("live", evidence.Drop{Reason: "queue_full", Time: begun.Add(at(3, 3, 3))})
		return tally.Snapshot(begun)
	}
	a := one(at(0, 0, 0), at(0, 0, 59), at(7, 0, 30), at(4, 9, 0))
	b := one(at(6, 23, 59), at(4, 9, 10), at(-7*60, 0, 5))
	if got := fmt.Sprint(evidence.Hours(a.GetPairs()[0].GetHours())); got != "[0 105]" {
		t.Errorf("the hours are %s, want Monday's first and Friday's tenth: [0 105]", got)
	}
	if n := len(a.GetPairs()[0].GetHours()); n != 14 {
		t.Errorf("hours up to Friday take %d bytes, want 14", n)
	}
	sum := &evidencepb.Evidence{}
	merge(sum, a, b, a)
	if got := fmt.Sprint(evidence.Hours(sum.GetPairs()[0].GetHours())); got != "[0 105 167]" {
		t.Errorf("the hours of both are %s, want [0 105 167]", got)
	}
	if got := evidence.Hours(make([]byte, 100)); got != nil {
		t.Errorf("no bits are the hours %v", got)
	}
}

// TestOldBoundsGoBeforeThePresentOnes: where a record is full, it keeps who asked with the live policy of
// now; what bounds of earlier ones are made of is then as if no caller were known.
func TestOldBoundsGoBeforeThePresentOnes(t *testing.T) {
	tally := newTally()
	for etag := range 8 {
		for i := range 3000 {
			count(tally, fmt.Sprint("live", etag), request{
				method: "GET", path: fmt.Sprintf("/place%c/part%c", 'a'+i%15, 'a'+i/15%15), principal: fmt.Sprint("spiffe://cluster/ns/shop/sa/", etag, i),
				live: []authz.Decision{allowed, denied}[i%2], experiment: []authz.Decision{denied, allowed}[i%2], at: time.Duration(etag) * time.Minute,
			})
		}
	}
	items := &evidencepb.Items{Digest: []byte("list")}
	for range change.MaxItems {
		items.Shown, items.Untrue = append(items.Shown, 1<<20), append(items.Untrue, 1<<14)
	}
	tally.Refresh(func(s *evidence.Sum) { s.SetItems("live7", items) })
	e := tally.Snapshot(begun)
	checkSize(t, e, evidence.MaxRecord)
	checkSums(t, e)
	for i, p := range pairs(e) {
		size := proto.Size(p.GetDeniedCallers()) + proto.Size(p.GetNewlyDeniedCallers())
		if present := i == 0; present != (size > 0) {
			t.Errorf("pair %d has %d bytes of callers that bounds are made of", i, size)
		}
		if len(p.GetAllowedCallers().GetSet()) == 0 || len(p.GetHours()) == 0 {
			t.Errorf("pair %d has no callers, or no hours", i)
		}
	}
}
