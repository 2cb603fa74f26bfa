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
	"understudy/cmd/testkit"
)

// store keeps what is published, as the stores do.
type store struct {
	t   *testing.T
	now func() time.Time
	// started is when the process started that reported last.
	started time.Time
	tallies map[string]published
	// over :: tally → serial at which it was over, and when that was seen.
	over      map[string]int64
	overAt    map[string]time.Time
	compacted *evidencepb.Evidence
	// gone says that the experiment is.
	gone bool
}

// published is what the store has of a tally, since when.
type published struct {
	authz.PublishedEvidence
	at time.Time
}

func newStore(t *testing.T, now func() time.Time) *store {
	return &store{
		t: t, now: now, tallies: map[string]published{}, over: map[string]int64{}, overAt: map[string]time.Time{},
		compacted: &evidencepb.Evidence{},
	}
}

// publish returns the tallies that are refused, each with the serial at which it was over.
func (s *store) publish(of []authz.PublishedEvidence) map[string]int64 {
	refused := make(map[string]int64)
	for _, e := range of {
		if serial, over := s.over[e.Tally]; over {
			refused[e.Tally] = serial
		} else if s.gone {
			refused[e.Tally] = 0
		} else if e.Serial > s.tallies[e.Tally].Serial {
			s.tallies[e.Tally] = published{e, s.now()}
		}
	}
	return refused
}

// compact adds up the tallies that are over, as the control plane does.
func (s *store) compact() {
	for tally, at := range s.overAt {
		if s.now().Sub(at) >= authz.TallyKept {
			delete(s.over, tally)
			delete(s.overAt, tally)
		}
	}
	for tally, p := range s.tallies {
		e, age := s.decode(p.PublishedEvidence), s.now().Sub(p.at)
		later := s.started.After(e.GetStartTime().AsTime())
		if e.GetFinal() || later && age >= time.Minute || age >= authz.TallyKept/2 {
			merge(s.compacted, e)
			s.over[tally], s.overAt[tally] = p.Serial, s.now()
			delete(s.tallies, tally)
		}
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
	out := proto.CloneOf(s.compacted)
	for _, e := range s.tallies {
		merge(out, s.decode(e.PublishedEvidence))
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
	c := &counting{random: rand.New(rand.NewPCG(seed, 11)), now: begun, truth: newTally()}
	c.store = newStore(t, func() time.Time { return c.now })
	c.start()
	return c
}

func (c *counting) start() {
	c.ledger, c.dueAt, c.started = evidence.NewLedger(c.now), make(map[string]int64), c.now
	c.ledger.SetClock(func() time.Time { return c.now })
	c.tally = c.ledger.Tally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, nil)
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
	case 0:
		c.compact()
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
		c.now = c.now.Add(30 * time.Minute)
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

// TestALiveNodeLosesNothing: whatever happens to the store, to what is on the way to it, and to
// the tallies of a node there, each request that the node counts while it lives counts once.
func TestALiveNodeLosesNothing(t *testing.T) {
	for seed := range uint64(testkit.Cases(100)) {
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
	for seed := range uint64(testkit.Cases(60)) {
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

// TestCutOffForLong: what the store was not told for twelve hours is given up and counted as lost. It
// must not be published any more: a day later the store takes the tally for over, and after two
// more it does not know that.
func TestCutOffForLong(t *testing.T) {
	for _, hours := range []int{11, 13, 49, 100} {
		c := newCounting(t, 1)
		one, n := request{path: "/", live: allowed, experiment: denied}, int64(0)
		counted := func() {
			count(c.tally, "live0", one)
			n++
		}
		for range 3 {
			counted()
			c.publish()
		}
		counted() // due once, and lost on the way
		c.ledger.Due(time.Second)
		for range hours {
			c.now = c.now.Add(time.Hour)
			counted()
			c.ledger.Due(time.Second)
			c.compact()
		}
		c.publish()
		c.now = c.now.Add(time.Hour)
		c.compact()
		c.drain()
		c.compact()
		sum := totalsOf(c.sum())
		got, lost := requests(sum.Counts), sum.Drops["lost"]
		if got+lost != n || hours < 12 && lost != 0 || hours > 12 && got < 3 {
			t.Errorf("after %d hours %d requests of %d are stored, and %d lost", hours, got, n, lost)
		}
	}
}

// TestAFinalPublicationWhoseAnswerIsLost: it may be over in the store by the time that it is published
// again, and a start that goes on counts under another ID.
func TestAFinalPublicationWhoseAnswerIsLost(t *testing.T) {
	for _, folded := range []bool{false, true} {
		c := newCounting(t, 1)
		one := request{path: "/", live: allowed, experiment: denied}
		count(c.tally, "live0", one)
		c.publish()
		c.ledger.Follow(nil)
		c.now = c.now.Add(3 * time.Second)
		count(c.tally, "live0", one)
		c.store.publish(c.due()) // the answer is lost
		if folded {
			c.compact()
		}
		count(c.tally, "live0", one) // it was under way all the time
		c.follow()
		count(c.tally, "live0", one)
		c.publish()
		c.compact()
		c.drain()
		if sum := totalsOf(c.sum()); requests(sum.Counts) != 4 || sum.Counts.GetDropped() != 0 {
			t.Errorf("there are %v, want 4 requests", sum.Counts)
		}
	}
}

// TestATallyThatTheStoreTookForOver: another process took the name of the node. What was counted since
// the last publication is lost, and said to be.
func TestATallyThatTheStoreTookForOver(t *testing.T) {
	c := newCounting(t, 1)
	one := request{path: "/", live: allowed, experiment: denied}
	for range 3 {
		count(c.tally, "live0", one)
	}
	c.publish()
	c.now = c.now.Add(2 * time.Minute)
	c.started = c.now
	c.compact()
	count(c.tally, "live0", one)
	c.publish()
	count(c.tally, "live0", one)
	c.drain()
	if sum := totalsOf(c.sum()); requests(sum.Counts) != 4 || sum.Drops["lost"] != 1 {
		t.Errorf("there are %v, %v; want 4 requests, and one lost", sum.Counts, sum.Drops)
	}
}

// TestATallyThatIsOverIsPublishedOnceMore: with late comparisons, then it is final.
func TestATallyThatIsOverIsPublishedOnceMore(t *testing.T) {
	now, ledger := begun, evidence.NewLedger(begun)
	ledger.SetClock(func() time.Time { return now })
	tally := ledger.Tally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, nil)
	if got := ledger.Due(time.Second); len(got) != 0 {
		t.Fatalf("%d tallies are due before they are followed, want none", len(got))
	}
	next := ledger.Tally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "changed"}, nil)
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live"}})
	count(tally, "live", request{path: "/", live: allowed, experiment: denied})
	if !ledger.Fresh() {
		t.Error("the first comparison is not fresh")
	}
	now = now.Add(10 * time.Second)
	ledger.Follow([]evidence.Active{{Tally: next, PolicyEtag: "live"}})
	count(tally, "live", request{path: "/", live: allowed, experiment: denied}) // it was under way
	s := newStore(t, func() time.Time { return now })
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
	now, ledger := begun, evidence.NewLedger(begun)
	ledger.SetClock(func() time.Time { return now })
	tally := ledger.Tally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, nil)
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
	now, ledger := begun, evidence.NewLedger(begun)
	ledger.SetClock(func() time.Time { return now })
	tally := ledger.Tally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, nil)
	pending, unexamined := int64(7), int64(2)
	ledger.Follow([]evidence.Active{{Tally: tally, PolicyEtag: "live", Refresh: func(s *evidence.Sum) {
		s.SetExamined("live", pending, unexamined)
	}}})
	s := newStore(t, func() time.Time { return now })
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
	ask, _ := count(tally, "live", one)
	tally.MarkChanged()
	if ledger.Changed() {
		t.Error("something has changed before anything was due, want that the first comparison is waited for alone")
	}
	check(publish(), 8, 2) // and one is explained
	check(publish(), 8, 2)
	pending = 1
	if ledger.Changed() {
		t.Error("something has changed, and nobody said so")
	}
	tally.Explain("live", ask, evidence.Found, []*evidencepb.Cause{{File: "a.rego", Line: 3, Text: "input.x"}})
	if !ledger.Changed() {
		t.Error("there are causes now, and nothing has changed")
	}
	e := publish()
	check(e, 1, 2)
	if causes := e.GetPairs()[0].GetGroups()[0].GetCauses(); len(causes) != 1 || ledger.Changed() {
		t.Errorf("got the causes %v, changed %v; want one, and that it has not changed since", causes, ledger.Changed())
	}
	sum := &evidencepb.Evidence{}
	merge(sum, e, e)
	check(sum, 2, 4)
	ledger.Close()
	check(publish(), 0, 3)
}
