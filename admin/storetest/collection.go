package storetest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/admin"
	"understudy/authz"
)

// collectionTests are about writes to whole collections, and about Txns over two
// locations. The caller cannot do these record by record: between its read and its write,
// others may add records. A cascade, a bound on revisions or a removal from all groups
// has to find them too.
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

// left checks which experiments of the policy p there still are.
func (s *subject) left(want ...admin.Key) {
	s.Helper()
	if diff := cmp.Diff(want, s.names(admin.Query{Collection: s.experiments("p")})); diff != "" {
		s.Errorf("what is left: %s", diff)
	}
}

// testTrim keeps the records that were written last, whatever their keys: so a policy's
// revisions are bounded, and what was live just before stays, to be rolled back to. A
// record that is written again is as good as new; one that is written under an old
// sequence is old.
func testTrim(s *subject) {
	a, b, c, d := s.experiment("p", "a"), s.experiment("p", "b"), s.experiment("p", "c"), s.experiment("p", "d")
	for _, key := range []admin.Key{d, a, c, b} {
		s.put(admin.Put{Key: key})
	}
	s.put(admin.Put{Key: s.experiment("pp", "x")}, s.trim(4))
	s.left(a, b, c, d)
	// d was the oldest. Written again in the Txn that trims, it is the newest, and a goes.
	s.put(admin.Put{Key: d}, s.trim(3))
	s.left(b, c, d)
	s.put(s.trim(2))
	s.left(b, d)
	// b is written last, but under the sequence of long ago: that counts.
	s.put(admin.Put{Key: b, Sequence: 1}, s.trim(1))
	s.left(d)
	s.put(s.trim(0))
	s.left()
	if !s.has(s.experiment("pp", "x")) {
		s.Error("the record of another collection is gone")
	}
}

// testTrimInOneTxn trims records that all have the sequence of the Txn that trims them.
// Then the last keys stay, by the rule: two stores have to keep the same ones. There are
// more than a script can handle in one piece.
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

// testTrimExpired has an expired record among those that are trimmed. It does not count
// as one of those to keep, for it would take the place of one that can still be read.
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

// testExpireCollection gives a whole collection an expiry: the revisions of a policy are
// purged together with it. Everything else of the records stays, so that undeleting the
// policy brings them back as they were; what has expired already is not brought back by a
// later expiry, or by none.
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
	// Too late: what has expired does not come back.
	s.put(admin.ExpireCollection{Collection: s.experiments("p")})
	s.left()
}

// testExpireCollectionNever takes the expiry from a collection, as undeleting a policy
// does. What has expired by then is gone; the others live on, also when the store next
// removes what has expired.
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

// both is a Txn that changes a policy in two locations, with an event for each.
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
	update, err := s.Load(s.Context(), authz.Scope{Location: l})
	if err != nil {
		s.Fatalf("loading %s: %v", l, err)
	}
	return update.Cursor, len(update.Policies)
}

// testTwoLocations commits one Txn with events for two locations, as a removal of a
// policy from all groups is. Both get it under one number; one of them has had changes
// before, the other none.
func testTwoLocations(s *subject) {
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("before")})
	before, _ := s.loaded(s.location)
	n := s.must(s.both("a"))
	for _, l := range []authz.Location{s.location, s.elsewhere()} {
		if head, policies := s.loaded(l); head.Sequence != n || policies != 1 {
			s.Errorf("%s has %d policies and is at %+v; the change is %d", l, policies, head, n)
		}
	}
	update, err := s.Next(s.Context(), authz.Scope{Location: s.location}, before)
	if err != nil || update.Cursor.Sequence != n {
		s.Errorf("the location's next change is %+v, %v", update.Cursor, err)
	}
	update, err = s.Next(s.Context(), authz.Scope{Location: s.elsewhere()}, authz.Cursor{})
	if err != nil || update.Cursor.Sequence != n || len(update.Policies) != 1 {
		s.Errorf("the other location's first change is %+v, %v", update, err)
	}
}

// testTwoLocationsOrNone has such a Txn fail by a condition on the second location. Then
// nothing of the first may be written either, and neither is notified: a half would leave
// the stages of a policy in a state that nobody asked for.
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
			s.Errorf("%s got a change: %+v", l, head)
		}
	}
}
