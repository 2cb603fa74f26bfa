package storetest

import (
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/admin"
)

// expiryTests are about records that cease to exist by themselves: operations after 30
// days, and soft-deleted policies with their revisions. Both stores remove them some time
// later, in their own time; nobody may be able to see that.
var expiryTests = []test{
	{"Gone", testExpiryGone},
	{"Conditions", testExpiryConditions},
	{"Replaced", testExpiryReplaced},
	{"Counted", testExpiryCounted},
	{"Feed", testExpiryFeed},
}

// clock is a clock that a test moves.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC).UnixMilli())
	return c
}

func (c *clock) now() time.Time               { return time.UnixMilli(c.ms.Load()) }
func (c *clock) move(by time.Duration)        { c.ms.Add(by.Milliseconds()) }
func (c *clock) in(d time.Duration) time.Time { return c.now().Add(d) }

// withClock gives the subject a store whose records expire by a clock that the test
// moves: no test waits.
func (s *subject) withClock() *clock {
	c := newClock()
	s.reopen(Config{Clock: c.now})
	return c
}

// testExpiryGone reads a record a millisecond before its expiry, and at it. From then on
// it is as if it were deleted, for every read, although no store removes it just then: it
// takes no place on a page.
func testExpiryGone(s *subject) {
	clock := s.withClock()
	a, b := s.policy("a"), s.policy("b")
	expiry := clock.in(time.Minute)
	s.put(admin.Put{Key: a, Value: []byte("1"), ExpireTime: expiry}, admin.Put{Key: b})
	clock.move(time.Minute - time.Millisecond)
	if r := s.get(a); !r.ExpireTime.Equal(expiry) || string(r.Value) != "1" {
		s.Errorf("before its time, the record is %+v", r)
	}
	if names := s.names(admin.Query{Collection: s.policies()}); len(names) != 2 {
		s.Errorf("before its time, listed %v", names)
	}
	clock.move(time.Millisecond)
	if r := s.get(a); r.Key != "" || r.Value != nil {
		s.Errorf("after its time, the record is %+v", r)
	}
	if diff := cmp.Diff([]admin.Key{b}, s.names(admin.Query{Collection: s.policies()})); diff != "" {
		s.Errorf("after its time, listed: %s", diff)
	}
	if diff := cmp.Diff([]admin.Key{b}, s.names(admin.Query{Collection: s.policies(), Limit: 1})); diff != "" {
		s.Errorf("after its time, a page of one: %s", diff)
	}
}

// testExpiryConditions checks conditions on both sides of an expiry. A policy's ID is
// free again once it is purged, and not before: a condition that goes by what is still
// stored would refuse to create it, or let an update bring it back.
func testExpiryConditions(s *subject) {
	clock := s.withClock()
	a := s.policy("a")
	n := s.put(admin.Put{Key: a, Etag: "e", ExpireTime: clock.in(time.Minute)})
	commit := func(c admin.Condition) error {
		_, err := s.Commit(s.Context(), s.txn([]admin.Condition{c}))
		return err
	}
	alive := []admin.Condition{admin.Exists{Key: a}, admin.Exists{Key: a, Etag: "e"}, admin.Unchanged{Key: a, Sequence: n}}
	gone := []admin.Condition{admin.Absent{Key: a}, admin.FewerThan{Collection: s.policies(), N: 1}}
	for _, expired := range []bool{false, true} {
		if expired {
			clock.move(time.Hour)
		}
		for _, c := range alive {
			s.checkHolds("of what is there", commit(c), 0, c, !expired)
		}
		for _, c := range gone {
			s.checkHolds("of what is not there", commit(c), 0, c, expired)
		}
	}
}

// testExpiryReplaced puts records again after they have expired. From then on only the
// new expiry holds; an entry of the old one that is left over must not remove the new
// record when the store next cleans up.
func testExpiryReplaced(s *subject) {
	clock := s.withClock()
	a, b := s.policy("a"), s.policy("b")
	s.put(admin.Put{Key: a, ExpireTime: clock.in(time.Minute)}, admin.Put{Key: b, ExpireTime: clock.in(time.Minute)})
	clock.move(2 * time.Minute)
	s.must(s.txn([]admin.Condition{admin.Absent{Key: a}},
		admin.Put{Key: a, Value: []byte("new")}, admin.Put{Key: b, ExpireTime: clock.in(48 * time.Hour)}))
	// Each write has the store remove what has expired, by whatever it remembers of that.
	clock.move(24 * time.Hour)
	s.put(admin.Put{Key: s.policy("c")})
	if string(s.get(a).Value) != "new" || !s.has(b) {
		s.Error("the record expired by its old time")
	}
	clock.move(24 * time.Hour)
	s.put(admin.Put{Key: s.policy("d")})
	if !s.has(a) || s.has(b) {
		s.Error("the record did not expire by its new time")
	}
}

// testExpiryCounted counts a collection of which most has expired: FewerThan counts what
// can be read. Otherwise a policy would have all the experiments it may have, and none in
// a list.
func testExpiryCounted(s *subject) {
	clock := s.withClock()
	for _, id := range []string{"a", "b", "c"} {
		s.put(admin.Put{Key: s.experiment("p", id), ExpireTime: clock.in(time.Minute)})
	}
	s.put(admin.Put{Key: s.experiment("p", "d")})
	clock.move(time.Minute)
	limit := []admin.Condition{admin.FewerThan{Collection: s.experiments("p"), N: 2}}
	s.must(s.txn(limit, admin.Put{Key: s.experiment("p", "e")}))
	_, err := s.Commit(s.Context(), s.txn(limit))
	s.checkHolds("two are left", err, 0, limit[0], false)
	s.put(admin.DeleteCollection{Collection: s.experiments("p")})
	if names := s.names(admin.Query{Collection: s.experiments("p")}); len(names) > 0 {
		s.Errorf("%v are left", names)
	}
}

// testExpiryFeed loads a location before and after a policy's expiry. A soft-deleted
// policy that is purged is not in the state any more, nor are its experiments.
func testExpiryFeed(s *subject) {
	clock := s.withClock()
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("1"), ExpireTime: clock.in(time.Minute)},
		admin.Put{Key: s.experiment("a", "e"), Value: experiment("2", active)})
	if update := s.load(); len(update.Policies) != 1 {
		s.Errorf("before its time, loaded %v", update.Policies)
	}
	clock.move(time.Hour)
	if update := s.load(); len(update.Policies) != 0 {
		s.Errorf("after its time, loaded %v", update.Policies)
	}
}
