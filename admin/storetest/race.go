package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"understudy/admin"
)

var raceTests = []test{
	{"OneEtag", testOneEtag},
	{"OneTxn", testOneTxn},
	{"OneOrder", testOneOrder},
	{"NoOrphan", testNoOrphan},
	{"Limit", testLimit},
	{"Halves", testHalves},
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

// won reports whether a Txn was made, and tells of errors other than a condition.
func (s *subject) won(txn admin.Txn) bool {
	_, err := s.Commit(s.Context(), txn)
	var failed *admin.ConditionError
	if err != nil && !errors.As(err, &failed) {
		s.Errorf("committing: %v", err)
	}
	return err == nil
}

// Of 64 committers that compare one etag, exactly one wins.
func testOneEtag(s *subject) {
	a := s.policy("a")
	s.put(admin.Put{Key: a, Etag: "e0"})
	for round := range 10 {
		var winners atomic.Int64
		var winner atomic.Value
		together(64, func(i int) {
			value := fmt.Sprintf("%d", i)
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

// Of many commits of one ID, one is made and all return the same.
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

// Concurrent commits have one order without gaps.
func testOneOrder(s *subject) {
	const count = 128
	seen := make([]atomic.Int64, count+1)
	together(count, func(i int) {
		if n := s.put(admin.Put{Key: s.policy(fmt.Sprintf("p%d", i))}); n <= count {
			seen[n].Add(1)
		}
	})
	for n := 1; n <= count; n++ {
		if seen[n].Load() != 1 {
			s.Errorf("sequence %d was returned %d times", n, seen[n].Load())
		}
	}
}

// A create of an experiment races the delete of its policy: none is left without.
func testNoOrphan(s *subject) {
	for round := range 200 {
		id := fmt.Sprintf("p%d", round)
		parent := s.policy(id)
		sequence := s.put(admin.Put{Key: parent, Etag: "e"}, admin.Put{Key: s.experiment(id, "first")})
		together(3, func(i int) {
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

// Of 20 creates under a limit of 10, exactly 10 win.
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

// The live policy counts up. While it is even, an experiment holds the next number;
// a commit makes that number live and removes the experiment. Whoever reads sees
// one of these states, never half a commit.
func testHalves(s *subject) {
	live, e := s.policy("web"), s.experiment("web", "e")
	toEven := func(n int) {
		s.change([]string{"web"}, admin.Put{Key: live, Value: numbered(n)},
			admin.Put{Key: e, Value: experiment(fmt.Sprint(n+1), active)})
	}
	toEven(0)
	ctx, stop := context.WithCancel(s.Context())
	var readers sync.WaitGroup
	for _, read := range []func(context.Context) error{s.readHalves, s.loadHalves, s.followHalves, s.listHalves} {
		readers.Go(func() {
			if err := read(ctx); err != nil && ctx.Err() == nil {
				s.Error(err)
			}
		})
	}
	for n := 1; n < 400; n += 2 {
		s.change([]string{"web"}, admin.Put{Key: live, Value: numbered(n)}, admin.Delete{Key: e})
		toEven(n + 1)
	}
	stop()
	readers.Wait()
}

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

// listHalves lists twice the number of policies: there is always one.
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
