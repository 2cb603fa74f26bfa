package evidence_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// store keeps what is published, as the stores do.
type store struct {
	t       *testing.T
	tallies map[string]authz.PublishedEvidence
	over    map[string]bool
	settled *evidencepb.Evidence
}

func newStore(t *testing.T) *store {
	return &store{t: t, tallies: map[string]authz.PublishedEvidence{}, over: map[string]bool{}, settled: &evidencepb.Evidence{}}
}

// publish returns the tallies that are refused.
func (s *store) publish(of []authz.PublishedEvidence) (refused []string) {
	for _, e := range of {
		if s.over[e.Tally] {
			refused = append(refused, e.Tally)
		} else if e.Serial > s.tallies[e.Tally].Serial {
			s.tallies[e.Tally] = e
		}
	}
	return refused
}

// settle ends the tallies of a node.
func (s *store) settle() {
	for tally, e := range s.tallies {
		evidence.Merge(s.settled, s.decode(e))
		s.over[tally] = true
		delete(s.tallies, tally)
	}
}

func (s *store) decode(e authz.PublishedEvidence) *evidencepb.Evidence {
	out := &evidencepb.Evidence{}
	if err := proto.Unmarshal(e.Value, out); err != nil {
		s.t.Fatal(err)
	}
	if len(e.Value) > evidence.MaxRecord {
		s.t.Errorf("a record has %d bytes, want at most %d", len(e.Value), evidence.MaxRecord)
	}
	return out
}

// sum is all that the store has.
func (s *store) sum() *evidencepb.Evidence {
	out := proto.CloneOf(s.settled)
	for _, e := range s.tallies {
		evidence.Merge(out, s.decode(e))
	}
	return out
}

// TestNothingIsCountedTwice has a node count, publish, fail to, be settled while it lives, and
// crash, by chance. What is lost in a crash is what the store does not have. What is lost when
// the node is taken for dead is what was tried to be published and never was; what was counted
// since goes on.
func TestNothingIsCountedTwice(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 11))
		s, truth := newStore(t), newTally()
		var ledger *evidence.Ledger
		var tally *evidence.Tally
		now := begun
		start := func() {
			ledger = evidence.NewLedger()
			ledger.SetClock(func() time.Time { return now })
			tally = ledger.Tally(experiment, "uid", "etag")
			ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live0"}})
		}
		start()
		// unsaved was counted since the publication that was made last, tried is what that one
		// has which the ones before have not, and stored says that the store has it.
		var unsaved, tried, lost int64
		var waits, stored bool
		due := func() []authz.PublishedEvidence {
			if !waits {
				tried, unsaved, waits, stored = unsaved, 0, true, false
			}
			return ledger.Due(time.Second)
		}
		missing := func() int64 {
			if waits && !stored {
				return tried
			}
			return 0
		}
		for range 200 {
			now = now.Add(time.Second)
			switch r.IntN(12) {
			case 0: // the node is taken for dead
				s.settle()
			case 1: // it dies
				lost += unsaved + missing()
				unsaved, waits = 0, false
				s.settle()
				start()
			case 2: // the store is away
				due()
			case 3, 4: // the answer is lost
				if len(s.publish(due())) == 0 {
					stored = true
				}
			case 5, 6, 7:
				published := due()
				refused := s.publish(published)
				for _, e := range published {
					if slices.Contains(refused, e.Tally) {
						ledger.Refused(e.Tally)
						lost += missing()
					} else {
						ledger.Published(e.Tally, e.Serial)
					}
				}
				waits = false
			default:
				for range r.IntN(10) {
					one, etag := randomRequest(r), fmt.Sprint("live", r.IntN(2))
					count(tally, etag, one)
					count(truth, etag, one)
					unsaved++
				}
			}
		}
		got, want := requests(totalsOf(s.sum()).Counts), requests(totalsOf(truth.Snapshot(now)).Counts)
		checkSums(t, s.sum())
		unsaved += missing()
		if got != want-lost-unsaved {
			t.Errorf("seed %d: %d requests are stored of %d; %d are lost and %d are to be published", seed, got, want, lost, unsaved)
		}
	}
}

// TestAnOutageIsNotLost has the store away for long, and the tally settled meanwhile.
func TestAnOutageIsNotLost(t *testing.T) {
	now, ledger, s := begun, evidence.NewLedger(), newStore(t)
	ledger.SetClock(func() time.Time { return now })
	tally := ledger.Tally(experiment, "uid", "etag")
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live"}})
	one := request{path: "/", live: allowed, experiment: denied}
	answered := func() {
		for _, e := range ledger.Due(time.Second) {
			if len(s.publish([]authz.PublishedEvidence{e})) > 0 {
				ledger.Refused(e.Tally)
			} else {
				ledger.Published(e.Tally, e.Serial)
			}
		}
	}
	count(tally, "live", one)
	answered()
	for range 100 { // seconds in which the store is away
		count(tally, "live", one)
		ledger.Due(time.Second)
		now = now.Add(time.Second)
	}
	s.settle()
	answered()
	answered()
	if got := requests(totalsOf(s.sum()).Counts); got != 100 {
		t.Errorf("the store has %d requests of 101, want all but the first that could not be published", got)
	}

	for range 10 {
		count(tally, "live", one)
		ledger.Due(time.Second)
	}
	answered()
	if !ledger.Fresh() {
		t.Error("what was counted in an outage is not fresh when it is over")
	}
	answered()
	if got := requests(totalsOf(s.sum()).Counts); got != 110 || ledger.Fresh() {
		t.Errorf("the store has %d requests and more is fresh: %v; want 110, and no more", got, ledger.Fresh())
	}
}

// TestATallyThatIsOverIsPublishedOnceMore: with late comparisons, then it is final.
func TestATallyThatIsOverIsPublishedOnceMore(t *testing.T) {
	now, ledger := begun, evidence.NewLedger()
	ledger.SetClock(func() time.Time { return now })
	tally := ledger.Tally(experiment, "uid", "etag")
	if got := ledger.Due(time.Second); len(got) != 0 {
		t.Fatalf("%d tallies are due before they are followed, want none", len(got))
	}
	next := ledger.Tally(experiment, "uid", "changed")
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live"}})
	count(tally, "live", request{path: "/", live: allowed, experiment: denied})
	if !ledger.Fresh() {
		t.Error("the first comparison is not fresh")
	}
	now = now.Add(10 * time.Second)
	ledger.Follow([]evidence.Active{{Tally: next, PolicyEtag: "live"}})
	count(tally, "live", request{path: "/", live: allowed, experiment: denied}) // it was under way
	s := newStore(t)
	publish := func() []*evidencepb.Evidence {
		due := ledger.Due(time.Second)
		s.publish(due)
		var out []*evidencepb.Evidence
		for _, e := range due {
			ledger.Published(e.Tally, e.Serial)
			out = append(out, s.decode(e))
		}
		return out
	}
	if got := publish(); len(got) != 2 || got[0].GetFinal() || got[1].GetFinal() || ledger.Fresh() {
		t.Fatalf("got %v, want two tallies, none of them final", got)
	}
	now = now.Add(3 * time.Second)
	got := publish()
	if len(got) != 2 || got[0].GetExperimentEtag() != "changed" || !got[1].GetFinal() || got[1].GetPairs()[0].GetCounts().GetNewlyDenied() != 2 {
		t.Fatalf("got %v, want the last of the old tally, with 2 requests", got)
	}
	if spans := got[1].GetPairs()[0].GetActive(); len(spans) != 1 || spans[0].GetEnd()-spans[0].GetBegin() != 10_000 {
		t.Errorf("got the spans %v, want ten seconds", spans)
	}
	if got := publish(); len(got) != 1 || got[0].GetExperimentEtag() != "changed" {
		t.Fatalf("got %v, want the new tally alone", got)
	}
	ledger.Close()
	if got := publish(); len(got) != 1 || !got[0].GetFinal() {
		t.Fatalf("got %v, want the last of the new tally at once", got)
	}
	if got := publish(); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

// TestActiveTimeIsThatOfEachPair: another live policy begins a pair.
func TestActiveTimeIsThatOfEachPair(t *testing.T) {
	now, ledger := begun, evidence.NewLedger()
	ledger.SetClock(func() time.Time { return now })
	tally := ledger.Tally(experiment, "uid", "etag")
	for _, etag := range []string{"one", "two"} {
		ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: etag}})
		now = now.Add(30 * time.Second)
		ledger.Due(time.Second)
		now = now.Add(30 * time.Second)
	}
	got := tally.Snapshot(now).GetPairs()
	if len(got) != 2 || got[0].GetPolicyEtag() != "two" {
		t.Fatalf("got %v, want two pairs", got)
	}
	for _, p := range got {
		if s := p.GetActive(); len(s) != 1 || s[0].GetEnd()-s[0].GetBegin() != 60_000 {
			t.Errorf("%s was active in %v, want a minute", p.GetPolicyEtag(), s)
		}
	}
}
