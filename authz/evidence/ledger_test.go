package evidence_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// store keeps what is published, as the stores do.
type store struct {
	t       *testing.T
	tallies map[string]authz.PublishedEvidence
	// over :: tally → serial that was settled.
	over    map[string]int64
	settled *evidencepb.Evidence
	// gone says that the experiment is.
	gone bool
}

func newStore(t *testing.T) *store {
	return &store{t: t, tallies: map[string]authz.PublishedEvidence{}, over: map[string]int64{}, settled: &evidencepb.Evidence{}}
}

// publish returns the tallies that are refused, each with the serial that was settled.
func (s *store) publish(of []authz.PublishedEvidence) map[string]int64 {
	refused := make(map[string]int64)
	for _, e := range of {
		if serial, over := s.over[e.Tally]; over {
			refused[e.Tally] = serial
		} else if s.gone {
			refused[e.Tally] = 0
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
		s.over[tally] = e.Serial
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

// counting is a node that counts and publishes, loses the store and comes back, by chance.
type counting struct {
	*store
	random       *rand.Rand
	now          time.Time
	ledger       *evidence.Ledger
	tally, truth *evidence.Tally
	// late are publications that are still on their way.
	late [][]authz.PublishedEvidence
	// counted are the requests of this process, stored those of earlier ones that the store
	// has, and lost those that it does not have.
	counted, stored, lost int64
	// dueAt :: tally and serial → requests that were counted when it was first due, and least
	// those of them that the store said it has.
	dueAt map[string]int64
	least int64
}

func newCounting(t *testing.T, seed uint64) *counting {
	c := &counting{store: newStore(t), random: rand.New(rand.NewPCG(seed, 11)), now: begun, truth: newTally()}
	c.start()
	return c
}

func (c *counting) start() {
	c.ledger, c.dueAt = evidence.NewLedger(), make(map[string]int64)
	c.ledger.SetClock(func() time.Time { return c.now })
	c.tally = c.ledger.Tally(experiment, "uid", "etag")
	c.follow()
}

func (c *counting) follow() {
	c.ledger.Follow([]evidence.Active{{Tally: c.tally, PolicyEtag: fmt.Sprint("live", c.random.IntN(2))}})
}

// die ends the process. What is lost was counted since the last publication that was
// acknowledged was due.
func (c *counting) die() {
	stored := requests(totalsOf(c.sum()).Counts) - c.stored
	if stored < c.least || stored > c.counted {
		c.t.Errorf("%d requests of a node that died are stored; it counted %d, and %d were acknowledged", stored, c.counted, c.least)
	}
	c.stored, c.lost = c.stored+stored, c.lost+c.counted-stored
	c.counted, c.least, c.late = 0, 0, nil
	c.start()
}

func (c *counting) count() {
	for range c.random.IntN(10) {
		one, etag := randomRequest(c.random), fmt.Sprint("live", c.random.IntN(3))
		count(c.tally, etag, one)
		count(c.truth, etag, one)
		c.counted++
	}
}

// publish publishes what is due, and is answered.
func (c *counting) publish() {
	due := c.due()
	refused := c.store.publish(due)
	for _, e := range due {
		serial, ok := refused[e.Tally]
		if ok {
			c.ledger.Refused(e.Tally, serial)
		} else {
			serial = e.Serial
			c.ledger.Published(e.Tally, e.Serial)
		}
		c.least = max(c.least, c.dueAt[fmt.Sprint(e.Tally, serial)])
	}
}

// due returns what is due.
func (c *counting) due() []authz.PublishedEvidence {
	due := c.ledger.Due(time.Second)
	for _, e := range due {
		id := fmt.Sprint(e.Tally, e.Serial)
		if _, again := c.dueAt[id]; !again {
			c.dueAt[id] = c.counted
		}
	}
	return due
}

// step does one thing that may happen to a node that lives.
func (c *counting) step() {
	c.now = c.now.Add(time.Second)
	switch c.random.IntN(16) {
	case 0: // the node is taken for dead
		c.settle()
	case 1: // the store is away
		c.due()
	case 2, 3: // the answer is lost
		c.store.publish(c.due())
	case 4: // the publication is on its way for long
		c.late = append(c.late, c.due())
	case 5:
		for _, of := range c.late {
			c.store.publish(of)
		}
		c.late = nil
	case 6: // the store loses the experiment and gets it back
		c.gone = !c.gone
	case 7: // it is started again, or another policy is live, or it goes on
		if c.random.IntN(2) == 0 {
			c.ledger.Follow(nil)
			c.now = c.now.Add(time.Duration(c.random.IntN(4)) * time.Second)
			c.publish()
		}
		c.follow()
	case 8: // it is cut off for long
		c.now = c.now.Add(time.Hour)
	case 9, 10, 11:
		c.publish()
	default:
		c.count()
	}
}

// drain publishes until all is stored.
func (c *counting) drain() {
	c.gone = false
	c.ledger.Close()
	for range 10 {
		c.publish()
	}
	if left := c.ledger.Due(time.Second); len(left) != 0 {
		c.t.Errorf("%d tallies are still to be published", len(left))
	}
}

// seeds is how many random histories a test tries: fewer with -short, for the race detector, to
// which all histories of one goroutine are alike.
func seeds(all uint64) uint64 {
	if testing.Short() {
		return all / 10
	}
	return all
}

// TestALiveNodeLosesNothing: whatever happens to the store, to what is on the way to it, and to
// the tallies of a node there, each request that the node counts while it lives counts once.
func TestALiveNodeLosesNothing(t *testing.T) {
	for seed := range seeds(100) {
		c := newCounting(t, seed)
		for range 200 {
			c.step()
		}
		c.drain()
		got, want := totalsOf(c.sum()), totalsOf(c.truth.Snapshot(c.now))
		checkSums(t, c.sum())
		got.Labels, want.Labels = nil, nil // those are bounds
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("seed %d (-want +got): %s", seed, diff)
		}
	}
}

// TestADeathLosesTheLastInterval: of a node that dies, what it has counted since its last
// publication is lost, and nothing else.
func TestADeathLosesTheLastInterval(t *testing.T) {
	for seed := range seeds(60) {
		c := newCounting(t, seed)
		for range 200 {
			if c.random.IntN(16) == 0 {
				c.die()
			}
			c.step()
		}
		c.drain()
		got, want := requests(totalsOf(c.sum()).Counts), requests(totalsOf(c.truth.Snapshot(c.now)).Counts)
		checkSums(t, c.sum())
		if got != want-c.lost {
			t.Errorf("seed %d: %d requests are stored of %d, of which %d were lost", seed, got, want, c.lost)
		}
	}
}

// TestCutOffForLong: after twelve hours it is not known whether a tally was settled. What the
// last publication had beside the one before is lost then, and not what was counted since.
func TestCutOffForLong(t *testing.T) {
	c := newCounting(t, 1)
	one := request{path: "/", live: allowed, experiment: denied}
	for range 3 {
		count(c.tally, "live0", one)
		c.publish()
	}
	count(c.tally, "live0", one) // due once, and lost
	c.ledger.Due(time.Second)
	for range 13 {
		c.now = c.now.Add(time.Hour)
		count(c.tally, "live0", one)
	}
	c.settle()
	c.over = map[string]int64{}
	c.drain()
	if got := requests(totalsOf(c.sum()).Counts); got != 3+13 {
		t.Errorf("%d requests are stored, want 16", got)
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
			if serial, refused := s.publish([]authz.PublishedEvidence{e})[e.Tally]; refused {
				ledger.Refused(e.Tally, serial)
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
	if got := requests(totalsOf(s.sum()).Counts); got != 101 {
		t.Errorf("the store has %d requests of 101", got)
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
	if got := requests(totalsOf(s.sum()).Counts); got != 111 || ledger.Fresh() {
		t.Errorf("the store has %d requests and more is fresh: %v; want 111, and no more", got, ledger.Fresh())
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

// TestWhatIsExaminedIsAsOfNow: requests that are to be examined are no sum, and those that never
// will be stay in what is final. Causes and coverage do not wait for the next interval.
func TestWhatIsExaminedIsAsOfNow(t *testing.T) {
	now, ledger := begun, evidence.NewLedger()
	ledger.SetClock(func() time.Time { return now })
	tally := ledger.Tally(experiment, "uid", "etag")
	pending, unexamined := int64(7), int64(2)
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live", Refresh: func() {
		tally.SetExamined("live", pending, unexamined)
	}}})
	s := newStore(t)
	publish := func() *evidencepb.Evidence {
		due := ledger.Due(time.Second)
		s.publish(due)
		ledger.Published(due[0].Tally, due[0].Serial)
		return s.decode(due[0])
	}
	check := func(e *evidencepb.Evidence, pending, unexamined int64) {
		t.Helper()
		if p := e.GetPairs()[0]; p.GetPending() != pending || p.GetUnexamined() != unexamined {
			t.Errorf("%d are pending and %d unexamined, want %d and %d", p.GetPending(), p.GetUnexamined(), pending, unexamined)
		}
	}
	one := request{path: "/", live: allowed, experiment: denied}
	count(tally, "live", one)
	tally.MarkChanged()
	if ledger.Changed() {
		t.Error("something has changed before anything was due, want that the first comparison is waited for alone")
	}
	check(publish(), 7, 2)
	check(publish(), 7, 2)
	pending = 1
	if ledger.Changed() {
		t.Error("something has changed, and nobody said so")
	}
	tally.Explain("live", comparison(tally, one), []*evidencepb.Cause{{File: "a.rego", Line: 3, Text: "input.x"}})
	if !ledger.Changed() {
		t.Error("there are causes now, and nothing has changed")
	}
	e := publish()
	check(e, 1, 2)
	if causes := e.GetPairs()[0].GetGroups()[0].GetCauses(); len(causes) != 1 || ledger.Changed() {
		t.Errorf("got the causes %v, changed %v; want one, and that it has not changed since", causes, ledger.Changed())
	}
	sum := &evidencepb.Evidence{}
	evidence.Merge(sum, e, e)
	check(sum, 2, 4)
	ledger.Close()
	check(publish(), 0, 3)
}
