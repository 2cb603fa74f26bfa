package compactor_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin"
	"understudy/admin/boltstore"
	"understudy/admin/compactor"
	"understudy/admin/redisstore"
	"understudy/admin/storetest"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

const location = authz.Location("projects/p1/locations/l1")

var tried = admin.EvidenceName{Experiment: admin.Key(location + "/policies/web/experiments/e"), UID: "uid-1"}

// world is a store with an experiment, and the compactors on it.
type world struct {
	*testing.T
	store storetest.Both
	txns  int
	// tallies counts those of nodes that begin at random.
	tallies int
}

func newWorld(t *testing.T) *world {
	store, err := boltstore.Open(filepath.Join(t.TempDir(), "understudy.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{T: t, store: store}
	w.put(tried, "etag-1")
	return w
}

// put stores an experiment with an etag.
func (w *world) put(name admin.EvidenceName, etag string) {
	w.Helper()
	write, err := admin.NewPut(name.Experiment, etag, &adminpb.PolicyExperiment{
		Name: string(name.Experiment), Uid: name.UID, Etag: etag,
	})
	if err != nil {
		w.Fatal(err)
	}
	w.commit(write)
}

func (w *world) commit(writes ...admin.Write) {
	w.Helper()
	w.txns++
	if _, err := w.store.Commit(w.Context(), admin.Txn{ID: fmt.Sprint(w.txns), Project: "p1", Writes: writes}); err != nil {
		w.Fatal(err)
	}
}

// compactor returns another control plane's.
func (w *world) compactor() *compactor.Compactor {
	return &compactor.Compactor{Store: w.store, Project: "p1", Logger: slog.New(slog.DiscardHandler)}
}

func (w *world) sweep(s *compactor.Compactor) {
	w.Helper()
	if err := s.Sweep(w.Context()); err != nil {
		w.Errorf("sweeping: %v", err)
	}
}

// beat reports a process of a node that started at a time.
func (w *world) beat(node string, started time.Time) {
	w.Helper()
	report := &adminpb.Node{Name: location.Node(node), CreateTime: timestamppb.New(started)}
	if _, err := w.store.Heartbeat(w.Context(), report); err != nil {
		w.Fatal(err)
	}
}

// counts is evidence of a number of unchanged requests.
func counts(etag string, n int64) *evidencepb.Evidence {
	return &evidencepb.Evidence{
		Experiment: string(tried.Experiment), Uid: tried.UID, ExperimentEtag: etag, PublishInterval: durationpb.New(2 * time.Second),
		Pairs: []*evidencepb.Pair{{PolicyEtag: "live", Counts: &evidencepb.Counts{BothAllow: n}}},
	}
}

// publish publishes evidence and reports whether it was stored.
func (w *world) publish(node, tally string, serial int64, e *evidencepb.Evidence) bool {
	w.Helper()
	value, err := proto.Marshal(e)
	if err != nil {
		w.Fatal(err)
	}
	out, err := w.store.Publish(w.Context(), location.Node(node), []authz.PublishedEvidence{
		{Experiment: string(tried.Experiment), UID: tried.UID, Tally: tally, Serial: serial, Value: value},
	})
	if err != nil {
		w.Fatal(err)
	}
	return len(out.Refused) == 0
}

// final says that evidence is the last of its tally.
func final(e *evidencepb.Evidence) *evidencepb.Evidence {
	e.Final = true
	return e
}

func (w *world) read() admin.Evidence {
	w.Helper()
	read, err := w.store.Evidence(w.Context(), tried)
	if err != nil {
		w.Fatal(err)
	}
	return read
}

// check checks which tallies are left, and how many requests are counted of a content:
// compacted, and together with the tallies.
func (w *world) check(etag string, compacted, all int64, tallies ...string) {
	w.Helper()
	read := w.read()
	var left []string
	sum := evidence.NewSum(evidence.Content{Experiment: string(tried.Experiment), UID: tried.UID, Etag: etag}, nil)
	add := func(value []byte) int64 {
		e := &evidencepb.Evidence{}
		if err := proto.Unmarshal(value, e); err != nil {
			w.Fatal(err)
		}
		sum.Add(e)
		return total(sum.Evidence())
	}
	if n := add(read.Compacted); n != compacted {
		w.Errorf("compacted are %d, want %d", n, compacted)
	}
	for _, t := range read.Tallies {
		left = append(left, t.Tally)
		add(t.Value)
	}
	if n := total(sum.Evidence()); n != all || fmt.Sprint(left) != fmt.Sprint(tallies) {
		w.Errorf("there are %d with %v, want %d with %v", n, left, all, tallies)
	}
}

// total is the number of requests of evidence.
func total(e *evidencepb.Evidence) (n int64) {
	for _, p := range append(e.GetPairs(), e.GetEarlier()) {
		n += p.GetCounts().GetBothAllow() + p.GetCounts().GetBothDeny()
	}
	return n
}

// since says when the process started that has counted evidence.
func since(started time.Time, e *evidencepb.Evidence) *evidencepb.Evidence {
	e.StartTime = timestamppb.New(started)
	return e
}

// A tally is compacted when it says that it is over; when a later process of its node has reported and
// nothing came for a minute; and when nothing came for a day.
func TestWhatIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, first := w.compactor(), time.Now()
		w.beat("a", first)
		w.publish("a", "over", 1, final(since(first, counts("etag-1", 1))))
		w.publish("a", "a", 1, since(first, counts("etag-1", 10)))
		w.publish("b", "b", 1, since(first, counts("etag-1", 100)))
		w.sweep(s)
		w.check("etag-1", 1, 111, "a", "b")
		time.Sleep(10 * time.Minute)
		w.beat("a", first)
		w.sweep(s)
		w.check("etag-1", 1, 111, "a", "b") // the same process may come back
		second := time.Now()
		w.beat("a", second)
		w.publish("a", "a2", 1, since(second, counts("etag-1", 1000)))
		w.sweep(s)
		w.check("etag-1", 11, 1111, "a2", "b")
		if w.publish("a", "a", 2, counts("etag-1", 11)) {
			t.Error("what was compacted is published again")
		}
		third := time.Now().Add(time.Second)
		w.beat("a", third)
		w.sweep(s)
		w.check("etag-1", 11, 1111, "a2", "b") // it has just published
		time.Sleep(time.Minute)
		w.sweep(s)
		w.check("etag-1", 1011, 1111, "b")
		time.Sleep(24*time.Hour - 11*time.Minute - time.Second)
		w.sweep(s)
		w.check("etag-1", 1011, 1111, "b")
		time.Sleep(time.Second)
		w.sweep(s)
		w.check("etag-1", 1111, 1111)
	})
}

// What was counted of an earlier content of the experiment is not added to what is counted
// of the present one, and not kept.
func TestEarlierContent(t *testing.T) {
	w := newWorld(t)
	s := w.compactor()
	w.publish("a", "one", 1, final(counts("etag-1", 1)))
	w.sweep(s)
	w.check("etag-1", 1, 1)
	w.publish("a", "two", 1, final(counts("etag-1", 10)))
	w.put(tried, "etag-2")
	w.publish("a", "three", 1, final(counts("etag-2", 100)))
	w.publish("a", "four", 1, counts("etag-2", 1000))
	w.sweep(s)
	w.check("etag-2", 100, 1100, "four")
}

// The evidence of an experiment that is gone is dropped by the sweep after the one that
// found it so; that of one whose record cannot be read, or that was created again under
// its name, stays.
func TestGone(t *testing.T) {
	w := newWorld(t)
	s := w.compactor()
	w.publish("a", "one", 1, final(counts("etag-1", 1)))
	w.sweep(s)
	w.commit(admin.Delete{Key: tried.Experiment})
	w.sweep(s)
	w.put(tried, "etag-1") // put back, as recovery does
	w.sweep(s)
	w.check("etag-1", 1, 1)
	w.commit(admin.Put{Key: tried.Experiment, Value: []byte("\xffnonsense")})
	w.sweep(s)
	w.sweep(s)
	w.put(tried, "etag-1")
	w.check("etag-1", 1, 1)
	w.put(admin.EvidenceName{Experiment: tried.Experiment, UID: "uid-2"}, "etag-1")
	w.sweep(s)
	w.sweep(s)
	if names, err := w.store.EvidenceNames(t.Context(), "p1"); err != nil || len(names) != 0 {
		t.Errorf("there is evidence of %v, %v", names, err)
	}
}

// What cannot be decoded costs itself alone: a tally stays until it is published again, and
// a compacted sum begins anew.
func TestUndecodable(t *testing.T) {
	w := newWorld(t)
	s := w.compactor()
	w.publish("a", "one", 1, final(counts("etag-1", 1)))
	if _, err := w.store.Publish(t.Context(), location.Node("a"), []authz.PublishedEvidence{
		{Experiment: string(tried.Experiment), UID: tried.UID, Tally: "bad", Serial: 1, Value: []byte("\xffnonsense")},
	}); err != nil {
		t.Fatal(err)
	}
	w.sweep(s)
	if read := w.read(); len(read.Tallies) != 1 || read.Tallies[0].Tally != "bad" {
		t.Errorf("left are %+v", read.Tallies)
	}
	if err := w.store.Compact(t.Context(), admin.Compaction{EvidenceName: tried, Version: w.read().Version, Compacted: []byte("\xffnonsense")}); err != nil {
		t.Fatal(err)
	}
	w.publish("a", "bad", 2, final(counts("etag-1", 10)))
	w.sweep(s)
	w.check("etag-1", 10, 10)
}

// Several control planes sweep a Redis, as often as they can, while nodes count, publish, say
// that a tally is over, and begin others. In the end each request is counted once.
func TestSweepsRace(t *testing.T) {
	store, err := redisstore.Open(storetest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	w := &world{T: t, store: store}
	w.put(tried, "etag-1")
	const nodes, tallies, requests = 3, 25, 4
	ctx, cancel := context.WithCancel(t.Context())
	var sweeping, counting sync.WaitGroup
	for range 3 {
		sweeping.Go(func() {
			for s := w.compactor(); ctx.Err() == nil; {
				if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("sweeping: %v", err)
				}
			}
		})
	}
	for node := range nodes {
		counting.Go(func() {
			for tally := range tallies {
				name := fmt.Sprintf("%d-%d", node, tally)
				for n := range int64(requests) {
					e := counts("etag-1", n+1)
					if e.Final = n+1 == requests; !w.publish(fmt.Sprint(node), name, n+1, e) {
						t.Errorf("%s was refused", name)
					}
				}
			}
		})
	}
	counting.Wait()
	cancel()
	sweeping.Wait()
	w.sweep(w.compactor())
	w.check("etag-1", nodes*tallies*requests, nodes*tallies*requests)
}

// FuzzNeverLostNeverTwice has nodes live, die, start again, lose the store and come back, and
// control planes sweep, all at random and in simulated time. A node that is refused goes on
// with what it has counted since it was last acknowledged. Whatever happens, what is counted
// is what was acknowledged.
func FuzzNeverLostNeverTwice(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		synctest.Test(t, func(t *testing.T) {
			w, random := newWorld(t), rand.New(rand.NewPCG(seed, 1))
			compactors := []*compactor.Compactor{w.compactor(), w.compactor()}
			nodes := make([]node, 4)
			for i := range nodes {
				nodes[i] = node{name: fmt.Sprint("n", i), started: time.Now()}
			}
			var truth int64
			for range 300 {
				n := &nodes[random.IntN(len(nodes))]
				switch random.IntN(8) {
				case 0, 1, 2, 3:
					truth += n.publish(w, random.Int64N(5), random.IntN(10) == 0)
				case 4:
					w.beat(n.name, n.started)
				case 5: // killed: what was not published is lost
					*n = node{name: n.name, started: time.Now()}
				case 6:
					w.sweep(compactors[random.IntN(len(compactors))])
				case 7:
					time.Sleep(time.Duration(random.IntN(30)) * time.Second)
				}
			}
			time.Sleep(24 * time.Hour)
			w.sweep(compactors[0])
			w.check("etag-1", truth, truth)
		})
	})
}

// node is a node that counts.
type node struct {
	name, tally                string
	started                    time.Time
	serial, counted, published int64
}

// publish counts some requests more and publishes; it returns how many of them were stored.
func (n *node) publish(w *world, more int64, last bool) (stored int64) {
	n.counted += more
	for {
		if n.tally == "" {
			w.tallies++
			n.tally = fmt.Sprint("t", w.tallies)
		}
		n.serial++
		e := since(n.started, counts("etag-1", n.counted))
		e.Final = last
		if w.publish(n.name, n.tally, n.serial, e) {
			break
		}
		*n = node{name: n.name, started: n.started, counted: n.counted - n.published}
	}
	stored = n.counted - n.published
	n.published = n.counted
	if last {
		*n = node{name: n.name, started: n.started}
	}
	return stored
}
