package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/admin"
	"understudy/authz"
)

var collectionTests = []test{
	{"Trim", testTrim},
	{"TrimInOneTxn", testTrimInOneTxn},
	{"TrimExpired", testTrimExpired},
	{"Expire", testExpireCollection},
	{"ExpireNever", testExpireCollectionNever},
	{"TwoLocations", testTwoLocations},
	{"TwoLocationsOrNone", testTwoLocationsOrNone},
}

// trim keeps n experiments of the policy p.
func (s *subject) trim(n int) admin.Write {
	return admin.TrimCollection{Collection: s.experiments("p"), Keep: n}
}

func (s *subject) left(want ...admin.Key) {
	s.Helper()
	if diff := cmp.Diff(want, s.names(admin.Query{Collection: s.experiments("p")})); diff != "" {
		s.Errorf("what is left: %s", diff)
	}
}

// What was written longest ago goes first, whatever its key; a record that is
// written again is as good as new.
func testTrim(s *subject) {
	a, b, c, d := s.experiment("p", "a"), s.experiment("p", "b"), s.experiment("p", "c"), s.experiment("p", "d")
	for _, key := range []admin.Key{d, a, c, b} {
		s.put(admin.Put{Key: key})
	}
	s.put(admin.Put{Key: s.experiment("pp", "x")}, s.trim(4))
	s.left(a, b, c, d)
	s.put(admin.Put{Key: d}, s.trim(3))
	s.left(b, c, d)
	s.put(s.trim(2))
	s.left(b, d)
	s.put(admin.Put{Key: b, Sequence: 1}, s.trim(1))
	s.left(d)
	s.put(s.trim(0))
	s.left()
	if !s.has(s.experiment("pp", "x")) {
		s.Error("the record of another collection is gone")
	}
}

// Records of one Txn have one sequence: then the last key stays. Many are no
// problem.
func testTrimInOneTxn(s *subject) {
	const count, keep = 1000, 100
	var writes []admin.Write
	var want []admin.Key
	for i := range count {
		key := s.experiment("p", fmt.Sprintf("e%04d", i))
		writes = append(writes, admin.Put{Key: key})
		if i >= count-keep {
			want = append(want, key)
		}
	}
	s.put(append(writes, s.trim(keep))...)
	s.left(want...)
}

func testTrimExpired(s *subject) {
	clock := s.withClock()
	a, b, c := s.experiment("p", "a"), s.experiment("p", "b"), s.experiment("p", "c")
	s.put(admin.Put{Key: a})
	s.put(admin.Put{Key: b})
	s.put(admin.Put{Key: c, ExpireTime: clock.in(time.Minute)})
	clock.move(time.Minute)
	s.put(s.trim(2))
	s.left(a, b)
	s.put(s.trim(1))
	s.left(b)
}

// A collection expires as a whole, and each record keeps what else it has.
func testExpireCollection(s *subject) {
	clock := s.withClock()
	a, b, other := s.experiment("p", "a"), s.experiment("p", "b"), s.experiment("pp", "a")
	n := s.put(admin.Put{Key: a, Value: []byte("1"), Etag: "W/\"e 1\""}, admin.Put{Key: b, ExpireTime: clock.in(time.Second)},
		admin.Put{Key: other})
	expiry := clock.in(time.Minute)
	s.put(admin.ExpireCollection{Collection: s.experiments("p"), ExpireTime: expiry})
	want := admin.Record{Key: a, Value: []byte("1"), Etag: "W/\"e 1\"", Sequence: n, ExpireTime: expiry}
	if diff := cmp.Diff(want, s.get(a)); diff != "" {
		s.Error(diff)
	}
	clock.move(time.Minute - time.Millisecond)
	s.left(a, b)
	clock.move(time.Millisecond)
	s.left()
	if !s.has(other) {
		s.Error("the record of another collection has expired")
	}
	s.put(admin.ExpireCollection{Collection: s.experiments("p")})
	s.left()
}

func testExpireCollectionNever(s *subject) {
	clock := s.withClock()
	a, b, c := s.experiment("p", "a"), s.experiment("p", "b"), s.experiment("p", "c")
	s.put(admin.Put{Key: a, ExpireTime: clock.in(time.Minute)}, admin.Put{Key: b, ExpireTime: clock.in(time.Hour)}, admin.Put{Key: c})
	clock.move(time.Minute)
	s.put(admin.ExpireCollection{Collection: s.experiments("p")})
	clock.move(72 * time.Hour)
	s.put(admin.Put{Key: s.policy("later")})
	s.left(b, c)
}

// elsewhere is another location of the subject's project.
func (s *subject) elsewhere() authz.Location {
	return authz.Location("projects/" + s.project + "/locations/l2")
}

// both is a Txn that changes a policy in two locations and tells both.
func (s *subject) both(id string, conditions ...admin.Condition) admin.Txn {
	there := s.elsewhere().Policy(authz.PolicyID(id))
	txn := s.txn(conditions, admin.Put{Key: s.policy(id), Value: policy("here")},
		admin.Put{Key: admin.Key(there), Value: policy("there")})
	txn.Events = append(s.event(id), admin.Event{Location: s.elsewhere(), Policies: []authz.PolicyName{there}})
	return txn
}

// loaded returns the head of a location and the number of its policies.
func (s *subject) loaded(l authz.Location) (authz.Cursor, int) {
	s.Helper()
	update, err := s.Load(s.Context(), l)
	if err != nil {
		s.Fatalf("loading %s: %v", l, err)
	}
	return update.Cursor, len(update.Policies)
}

func testTwoLocations(s *subject) {
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("before")})
	before, _ := s.loaded(s.location)
	n := s.must(s.both("a"))
	for _, l := range []authz.Location{s.location, s.elsewhere()} {
		if head, policies := s.loaded(l); head.Sequence != n || policies != 1 {
			s.Errorf("%s has %d policies and is at %+v; the change is %d", l, policies, head, n)
		}
	}
	update, err := s.Next(s.Context(), s.location, before)
	if err != nil || update.Cursor.Sequence != n {
		s.Errorf("the location's next change is %+v, %v", update.Cursor, err)
	}
	update, err = s.Next(s.Context(), s.elsewhere(), authz.Cursor{})
	if err != nil || update.Cursor.Sequence != n || len(update.Policies) != 1 {
		s.Errorf("the other location's first change is %+v, %v", update, err)
	}
}

func testTwoLocationsOrNone(s *subject) {
	there := admin.Key(s.elsewhere().Policy("a"))
	s.put(admin.Put{Key: there, Etag: "e"})
	_, err := s.Commit(s.Context(), s.both("a", admin.Absent{Key: s.policy("a")}, admin.Exists{Key: there, Etag: "other"}))
	s.checkHolds("the other location's", err, 1, admin.Exists{Key: there, Etag: "other"}, false)
	if s.has(s.policy("a")) {
		s.Error("half of it was written")
	}
	for _, l := range []authz.Location{s.location, s.elsewhere()} {
		if head, _ := s.loaded(l); head != (authz.Cursor{}) {
			s.Errorf("%s was told of a change: %+v", l, head)
		}
	}
}
