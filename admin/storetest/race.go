package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"understudy/admin"
	"understudy/cmd/testkit"
)

// raceTests run what the other tests run, from many goroutines at once. They find a store
// that checks and writes in two steps: for each promise about concurrency there is a
// number of winners, or a state, that such a store gets wrong sooner or later.
var raceTests = []test{
	{"OneEtag", testOneEtag},
	{"OneTxn", testOneTxn},
	{"OneOrder", testOneOrder},
	{"NoOrphan", testNoOrphan},
	{"Limit", testLimit},
	{"Halves", testHalves},
	{"AllLocations", testAllLocations},
}

// together runs f n times at once and waits for all.
func together(n int, f func(i int)) {
	var running sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		running.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	running.Wait()
}

// won reports whether a Txn was made, and reports errors other than a condition.
func (s *subject) won(txn admin.Txn) bool {
	_, err := s.Commit(s.Context(), txn)
	var failed *admin.ConditionError
	if err != nil && !errors.As(err, &failed) {
		s.Errorf("committing: %v", err)
	}
	return err == nil
}

// testOneEtag has 64 committers compare one etag: exactly one wins, in each of ten
// rounds, and what is stored is the winner's. That is what an etag promises to anyone who
// commits a previewed experiment.
func testOneEtag(s *subject) {
	a := s.policy("a")
	s.put(admin.Put{Key: a, Etag: "e0"})
	for round := range 10 {
		var winners atomic.Int64
		var winner atomic.Value
		together(64, func(i int) {
			// Digits alone may be a message, to which its name would be added.
			value := fmt.Sprintf("writer %d", i)
			txn := s.txn([]admin.Condition{admin.Exists{Key: a, Etag: fmt.Sprintf("e%d", round)}},
				admin.Put{Key: a, Value: []byte(value), Etag: fmt.Sprintf("e%d", round+1)})
			if s.won(txn) {
				winners.Add(1)
				winner.Store(value)
			}
		})
		if n := winners.Load(); n != 1 {
			s.Fatalf("%d committers won", n)
		}
		if r := s.get(a); string(r.Value) != winner.Load() {
			s.Fatalf("%v won, but %s is stored", winner.Load(), r.Value)
		}
	}
}

// testOneTxn commits one Txn from many places at once, as a client does whose request is
// sent again while the first is still on its way. It is made once, and all get the same
// number.
func testOneTxn(s *subject) {
	for i := range 10 {
		a := s.policy(fmt.Sprintf("a%d", i))
		txn := s.txn([]admin.Condition{admin.Absent{Key: a}}, admin.Put{Key: a})
		var first atomic.Int64
		together(16, func(int) {
			n, err := s.Commit(s.Context(), txn)
			if err != nil {
				s.Errorf("committing: %v", err)
				return
			}
			if !first.CompareAndSwap(0, n) && first.Load() != n {
				s.Errorf("sequence %d and %d", first.Load(), n)
			}
		})
	}
}

// testOneOrder commits 128 Txns at once. Each gets a number of its own: the numbers are the
// one order that followers and operations go by.
func testOneOrder(s *subject) {
	var seen sync.Map
	together(128, func(i int) {
		n := s.put(admin.Put{Key: s.policy(fmt.Sprintf("p%d", i))})
		if _, twice := seen.LoadOrStore(n, true); twice {
			s.Errorf("sequence %d was returned twice", n)
		}
	})
}

// testNoOrphan has creations of experiments race the deletion of their policy, which
// removes the experiments that are there. The conditions decide: whichever comes first,
// no experiment is left without its policy, where nobody would find or delete it.
func testNoOrphan(s *subject) {
	for round := range testkit.Cases(200) {
		id := fmt.Sprintf("p%d", round)
		parent := s.policy(id)
		sequence := s.put(admin.Put{Key: parent, Etag: "e"}, admin.Put{Key: s.experiment(id, "first")})
		together(3, func(i int) {
			// Two ways to depend on the policy: as it was read, and that it is there at all.
			switch i {
			case 0:
				s.won(s.txn([]admin.Condition{admin.Unchanged{Key: parent, Sequence: sequence}},
					admin.Put{Key: s.experiment(id, "second")}))
			case 1:
				s.won(s.txn([]admin.Condition{admin.Exists{Key: parent}}, admin.Put{Key: s.experiment(id, "third")}))
			case 2:
				s.won(s.txn([]admin.Condition{admin.Exists{Key: parent, Etag: "e"}},
					admin.Delete{Key: parent}, admin.DeleteCollection{Collection: s.experiments(id)}))
			}
		})
		if orphans := s.names(admin.Query{Collection: s.experiments(id)}); s.has(parent) || len(orphans) > 0 {
			s.Fatalf("round %d: orphans %v", round, orphans)
		}
	}
}

// testLimit has 20 creations under a limit of 10: exactly 10 win. A store that counts
// first and writes then would let more through.
func testLimit(s *subject) {
	var winners atomic.Int64
	together(20, func(i int) {
		e := s.experiment("p", fmt.Sprintf("e%d", i))
		if s.won(s.txn([]admin.Condition{admin.Absent{Key: e}, admin.FewerThan{Collection: s.experiments("p"), N: 10}},
			admin.Put{Key: e})) {
			winners.Add(1)
		}
	})
	if n := len(s.names(admin.Query{Collection: s.experiments("p")})); winners.Load() != 10 || n != 10 {
		s.Errorf("%d won and %d are there", winners.Load(), n)
	}
}

// testHalves counts the live policy up. While it is even, an experiment holds the next
// number; a commit makes that number live and removes the experiment. Anyone who reads sees
// one of these states, never half a commit: a sidecar that saw the experiment gone and
// the old policy live would decide by what nobody ever wanted.
func testHalves(s *subject) {
	live, e := s.policy("web"), s.experiment("web", "e")
	toEven := func(n int) {
		s.change([]string{"web"}, admin.Put{Key: live, Value: numbered(n)},
			admin.Put{Key: e, Value: experiment(fmt.Sprint(n+1), active)})
	}
	toEven(0)
	ctx, stop := context.WithCancel(s.Context())
	// One reader for each way to read: a store may make only some of them atomic.
	var readers sync.WaitGroup
	for _, read := range []func(context.Context) error{s.readHalves, s.loadHalves, s.followHalves, s.listHalves} {
		readers.Go(func() {
			if err := read(ctx); err != nil && ctx.Err() == nil {
				s.Error(err)
			}
		})
	}
	for n := 1; n < testkit.Cases(400); n += 2 {
		s.change([]string{"web"}, admin.Put{Key: live, Value: numbered(n)}, admin.Delete{Key: e})
		toEven(n + 1)
	}
	stop()
	readers.Wait()
}

// readHalves reads both records by Get until the context is done: they have to be of one
// instant.
func (s *subject) readHalves(ctx context.Context) error {
	for ctx.Err() == nil {
		records, err := s.Get(ctx, s.policy("web"), s.experiment("web", "e"))
		if err != nil {
			return err
		}
		next := ""
		if records[1].Key != "" {
			next = experimentNumber(records[1].Value)
		}
		if err := checkHalves(policyNumber(records[0].Value), next); err != nil {
			return fmt.Errorf("reading: %w", err)
		}
	}
	return nil
}

// listHalves lists the policies until the context is done. There is always one: a list
// must not miss a record that is being replaced, nor have it twice.
func (s *subject) listHalves(ctx context.Context) error {
	for ctx.Err() == nil {
		records, err := s.List(ctx, admin.Query{Collection: s.policies()})
		if err != nil {
			return err
		}
		if len(records) != 1 {
			return fmt.Errorf("listing: %d policies", len(records))
		}
	}
	return nil
}

// checkHalves checks the number of the live policy and that of its experiment.
func checkHalves(live, next string) error {
	var n int
	if _, err := fmt.Sscan(live, &n); err != nil {
		return fmt.Errorf("the live policy is %q", live)
	}
	want := ""
	if n%2 == 0 {
		want = fmt.Sprint(n + 1)
	}
	if next != want {
		return fmt.Errorf("live policy %d with experiment %q", n, next)
	}
	return nil
}

// testAllLocations lists a collection of all locations while Txns go on, each of which adds a
// record to one location and another one to a new location: a list has both or neither, as
// one instant has.
func testAllLocations(s *subject) {
	const count = 50
	locations := admin.Key("projects/" + s.project).In("locations")
	key := func(location string, i int) admin.Key {
		return locations.Key(location).In("policies").Key(fmt.Sprintf("p%d", i))
	}
	var made sync.WaitGroup
	defer made.Wait()
	made.Go(func() {
		for i := range count {
			s.put(admin.Put{Key: key("first", i)}, admin.Put{Key: key(fmt.Sprintf("l%d", i), i)})
		}
	})
	for seen := 0; seen < 2*count; {
		names := s.names(admin.Query{Collection: locations.Key(admin.Wildcard).In("policies")})
		if len(names)%2 != 0 || len(names) < seen {
			s.Fatalf("%d are listed after %d, which is half of what a Txn made: %v", len(names), seen, names)
		}
		seen = len(names)
	}
}
