package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	"understudy/admin/compactor"
	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	"understudy/authz/evidence/publisher"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/cmd/testkit"
)

// What becomes of a call to a lossy store.
const (
	arrives int32 = iota
	requestLost
	answerLost
)

// lossy is a store that a node is cut off from now and then.
type lossy struct {
	storetest.Both
	now atomic.Int32
}

func (s *lossy) Publish(ctx context.Context, node string, due []authz.PublishedEvidence) (authz.Publication, error) {
	lost := errors.New("lost")
	switch s.now.Load() {
	case requestLost:
		return authz.Publication{}, lost
	case answerLost:
		_, err := s.Both.Publish(ctx, node, due)
		return authz.Publication{}, errors.Join(lost, err)
	}
	return s.Both.Publish(ctx, node, due)
}

// place is a store with a control plane that compacts what is over.
type place struct {
	*testing.T
	stored storetest.Both
	store  *lossy
	*compactor.Compactor
	// want is what was counted.
	want counts
}

// simulate has something happen at a place, in simulated time.
func simulate(t *testing.T, happens func(p *place)) {
	synctest.Test(t, func(t *testing.T) {
		stored, closeStore, err := openStore(filepath.Join(t.TempDir(), "understudy.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = closeStore() }()
		newExperiment(t, stored)
		happens(&place{
			T: t, stored: stored, store: &lossy{Both: stored},
			Compactor: &compactor.Compactor{Store: stored, Project: "p1", Logger: slog.New(slog.DiscardHandler)},
		})
	})
}

func (p *place) sweep() {
	p.Helper()
	if err := p.Sweep(p.Context()); err != nil {
		p.Fatal(err)
	}
}

// check checks that all that was counted is stored but for what was lost, and returns how many
// tallies are left.
func (p *place) check(lost int64) int {
	p.Helper()
	stored, err := p.stored.Evidence(p.Context(), tried)
	if err != nil {
		p.Fatal(err)
	}
	if got := read(p.T, p.stored); got.sum() != p.want.sum()-lost || lost == 0 && got != p.want {
		p.Errorf("there are %v, counted were %v, and %d are lost", got, p.want, lost)
	}
	return len(stored.Tallies)
}

// process is one that counts.
type process struct {
	*place
	ledger    *evidence.Ledger
	tally     *evidence.Tally
	intervals *publisher.Intervals
	end       func() *publisher.Publisher
}

// start starts a process of a node.
func (p *place) start(node string) *process {
	p.Helper()
	started := time.Now()
	if _, err := p.stored.Heartbeat(p.Context(), &adminpb.Node{Name: location.Node(node), CreateTime: timestamppb.New(started)}); err != nil {
		p.Fatal(err)
	}
	r := &process{place: p, ledger: evidence.NewLedger(started), intervals: &publisher.Intervals{}}
	r.tally = r.ledger.Tally(evidence.Content{Experiment: string(tried.Experiment), UID: tried.UID, Etag: etag}, nil)
	r.follow()
	publishing := &publisher.Publisher{
		Feed: p.store, Node: location.Node(node), Ledger: r.ledger, Intervals: r.intervals, Logger: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(p.Context())
	running := make(chan struct{})
	go func() {
		publishing.Run(ctx)
		close(running)
	}()
	r.end = func() *publisher.Publisher {
		cancel()
		testkit.Closed(p, "the publisher to end", running)
		return publishing
	}
	return r
}

func (r *process) follow() {
	r.ledger.Follow([]evidence.Active{{Tally: r.tally, PolicyEtag: "live"}})
}

// count counts some requests.
func (r *process) count(random *rand.Rand, n int) {
	for _, kind := range requests(random, n) {
		countOne(r.tally, kind, random.IntN(1000))
		r.want[kind]++
	}
}

// kill ends the process as a signal does that it does not see, finish as one that it does.
func (r *process) kill()   { r.end() }
func (r *process) finish() { r.end().Finish(context.WithoutCancel(r.Context())) }

// TestCutOff: a node is cut off from the store for minutes and hours, each time at any moment, while its
// experiment is stopped and started, and counts on. Each of its requests counts once.
func TestCutOff(t *testing.T) {
	for seed := range uint64(testkit.RaceCases(4)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			simulate(t, func(p *place) { cutOff(p, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func cutOff(p *place, random *rand.Rand) {
	r := p.start("n")
	for range 40 {
		r.count(random, random.IntN(20))
		time.Sleep(time.Duration(random.IntN(20)) * time.Second)
		switch random.IntN(8) {
		case 0, 1:
			p.store.now.Store(random.Int32N(3))
		case 2:
			time.Sleep(time.Duration(random.IntN(5)) * time.Minute)
			p.store.now.Store(arrives)
			time.Sleep(3 * time.Second)
		case 3:
			r.ledger.Follow(nil)
			time.Sleep(time.Duration(random.IntN(10)) * time.Second)
			r.follow()
		}
		p.sweep()
	}
	p.store.now.Store(arrives)
	r.finish()
	p.check(0)
	p.sweep()
	if left := p.check(0); left != 0 {
		p.Errorf("%d tallies are left of a process that has ended", left)
	}
}

// TestCutOffForDays: a node that is cut off for 49 hours and counts on. By then its tally was taken for
// over, and it does not publish that any more.
func TestCutOffForDays(t *testing.T) {
	simulate(t, func(p *place) {
		random := rand.New(rand.NewPCG(1, 7))
		r := p.start("n")
		r.count(random, 100)
		time.Sleep(time.Minute)
		p.store.now.Store(requestLost)
		r.intervals.SetNodes(5000) // it tries every 20 s, not every 2 s: the test takes a tenth of the time
		for range 49 {
			r.count(random, 10)
			time.Sleep(time.Hour)
			p.sweep()
		}
		p.store.now.Store(arrives)
		time.Sleep(time.Minute)
		p.sweep()
		lost := 0
		for _, n := range drops(p.T, p.stored) {
			lost += int(n)
		}
		// It gives up after each twelve hours, the fourth time an hour before it is back.
		if lost < 480 || lost > 490 {
			t.Errorf("%d requests are said to be lost, want the 480 of two days, and 10 more at most", lost)
		}
		p.check(int64(lost))
		r.finish()
		p.sweep()
		if left := p.check(int64(lost)); left != 0 {
			t.Errorf("%d tallies are left", left)
		}
	})
}

// drops :: reason → requests.
func drops(t *testing.T, store admin.Store) map[string]int64 {
	stored, err := store.Evidence(t.Context(), tried)
	if err != nil {
		t.Fatal(err)
	}
	sum := evidence.NewSum(evidence.Content{Experiment: string(tried.Experiment), UID: tried.UID, Etag: etag}, nil)
	for _, value := range append([][]byte{stored.Compacted}, values(stored.Tallies)...) {
		e := &evidencepb.Evidence{}
		if err := proto.Unmarshal(value, e); err != nil {
			t.Fatal(err)
		}
		sum.Add(e)
	}
	return sum.Evidence().GetPairs()[0].GetDrops()
}

// TestTheAnswerToAFinalPublicationIsLost, and the experiment is started again.
func TestTheAnswerToAFinalPublicationIsLost(t *testing.T) {
	simulate(t, func(p *place) {
		random := rand.New(rand.NewPCG(1, 7))
		r := p.start("n")
		for range 5 {
			r.count(random, 100)
			time.Sleep(time.Minute)
			r.ledger.Follow(nil)
			p.store.now.Store(answerLost)
			time.Sleep(5 * time.Second)
			p.sweep()
			p.check(0)
			r.follow()
			r.count(random, 10)
			time.Sleep(5 * time.Second)
			p.store.now.Store(arrives)
			time.Sleep(5 * time.Second)
			p.sweep()
			p.check(0)
		}
		r.finish()
		p.sweep()
		if left := p.check(0); left != 0 {
			t.Errorf("%d tallies are left", left)
		}
	})
}

// TestAPodThatIsKilled every five minutes: what its processes have counted is added up, and
// their tallies do not pile up.
func TestAPodThatIsKilled(t *testing.T) {
	simulate(t, func(p *place) {
		random := rand.New(rand.NewPCG(1, 7))
		for range 6 {
			r := p.start("n")
			r.count(random, 20)
			time.Sleep(5 * time.Minute)
			r.kill()
			p.sweep()
			if left := p.check(0); left > 2 {
				t.Fatalf("%d tallies are left", left)
			}
		}
		time.Sleep(24 * time.Hour)
		p.sweep()
		if left := p.check(0); left != 0 {
			t.Errorf("%d tallies are left of a pod that is gone", left)
		}
	})
}
