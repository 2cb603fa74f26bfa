package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"

	"understudy/admin"
	"understudy/authz"
)

// The tests about records that cannot be read. One of them is never more than the failure
// of itself: everything else is read, listed, followed and changed as if it were not there,
// and it can be replaced and deleted.

// nonsense is no message: its first field does not end.
var nonsense = []byte("\x0a\xff\x01nonsense")

// undecodableTests are about values that are kept as they were put and are no messages of
// their resources.
var undecodableTests = []test{
	{"Policy", testUndecodablePolicy},
	{"Experiment", testUndecodableExperiment},
	{"Deleted", testUndecodableDeleted},
}

// broken returns the resources of an update that cannot be decoded, with the sequences of
// their records.
func broken(update authz.Update) map[string]int64 {
	out := make(map[string]int64)
	for _, state := range update.Policies {
		for _, u := range state.Undecodable {
			out[u.Resource] = u.Sequence
		}
	}
	return out
}

// checkBroken checks which resources updates report as undecodable, and under which
// sequences: a sidecar reports that number, and an operation goes by it to see which
// change has failed.
func (s *subject) checkBroken(want map[string]int64, updates ...authz.Update) {
	s.Helper()
	for _, u := range updates {
		if diff := cmp.Diff(want, broken(u)); diff != "" {
			s.Errorf("undecodable: %s", diff)
		}
	}
}

// putRaw puts a value that is no message, which txn would name.
func (s *subject) putRaw(key admin.Key, value []byte, ids ...string) authz.Cursor {
	s.Helper()
	txn := s.txn(nil)
	txn.Writes = []admin.Write{admin.Put{Key: key, Value: value, Etag: "e"}}
	if len(ids) > 0 {
		txn.Events = s.event(ids...)
	}
	return authz.Cursor{Sequence: s.must(txn)}
}

// testUndecodablePolicy stores values that are no policy, none at all, and another
// policy's, under a policy's name. Followers get the name and the sequence of that one
// and everything else as always: one damaged record must not stop a location. The store
// itself returns the value as it is, for it never looks into it.
func testUndecodablePolicy(s *subject) {
	other := named(admin.Put{Key: s.policy("other"), Value: policy("other")}).(admin.Put).Value
	for name, value := range map[string][]byte{"nonsense": nonsense, "nothing": nil, "another": other} {
		start := s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("A")})
		cursor := s.load().Cursor
		bad := s.putRaw(s.policy("a"), value, "a")
		s.change([]string{"b"}, admin.Put{Key: s.policy("b"), Value: policy(name)})
		want := map[string]int64{string(s.policy("a")): bad.Sequence}
		loaded, followed := s.load(), s.next(cursor)
		s.checkBroken(want, loaded, followed)
		s.checkStates(map[string]string{"a": "none", "b": name}, loaded)
		if r := s.get(s.policy("a")); string(r.Value) != string(value) || r.Etag != "e" || r.Damage != nil || start == bad {
			s.Errorf("%s is read as %+v", name, r)
		}
	}
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("again")})
	s.checkBroken(map[string]int64{}, s.load())
}

// testUndecodableExperiment stores an experiment that is no message, next to one that is.
// The live policy and the other experiment are not affected.
func testUndecodableExperiment(s *subject) {
	s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("A")},
		admin.Put{Key: s.experiment("a", "good"), Value: experiment("good", active)})
	cursor := s.load().Cursor
	bad := s.putRaw(s.experiment("a", "bad"), nonsense, "a")
	loaded, followed := s.load(), s.next(cursor)
	s.checkBroken(map[string]int64{string(s.experiment("a", "bad")): bad.Sequence}, loaded, followed)
	for _, u := range []authz.Update{loaded, followed} {
		s.checkStates(map[string]string{"a": "A good"}, u)
	}
}

// testUndecodableDeleted stores nonsense with an expiry: only a soft-deleted policy has
// one, so it counts as deleted whether or not it can be decoded. Taken for a live one, it
// would make sidecars report a failure about what nobody enforces.
func testUndecodableDeleted(s *subject) {
	s.put(admin.Put{Key: s.policy("a"), Value: nonsense, ExpireTime: time.Now().Add(time.Hour)})
	update := s.load()
	s.checkBroken(map[string]int64{}, update)
	if state, ok := update.Policies[authz.PolicyName(s.policy("a"))]; !ok || !state.Gone() {
		s.Errorf("it is %+v", state)
	}
}

// damageTests are about records that the store itself cannot read.
func damageTests(damage Damage) []test {
	with := func(run func(*subject, func(admin.Key))) func(*subject) {
		return func(s *subject) {
			run(s, func(key admin.Key) { damage(s.TB, s.Both, key) })
		}
	}
	return []test{
		{"Read", with(testReadDamaged)},
		{"Conditions", with(testDamagedConditions)},
		{"Replace", with(testReplaceDamaged)},
		{"Delete", with(testDeleteDamaged)},
		{"Collections", with(testDamagedCollections)},
		{"Feed", with(testDamagedFeed)},
	}
}

// checkDamaged checks that a record has its key and its damage, and nothing else that a
// caller could take for content.
func (s *subject) checkDamaged(r admin.Record, key admin.Key) {
	s.Helper()
	if r.Damage == nil {
		s.Errorf("%s is read as whole: %+v", key, r)
	}
	r.Damage = nil
	if diff := cmp.Diff(admin.Record{Key: key}, r); diff != "" {
		s.Error(diff)
	}
}

// testReadDamaged reads a damaged record among whole ones, by key and in a list. It is
// reported as damaged, in its place, and the others are whole: an error of the whole call
// would make every list of the collection fail until somebody finds the record. Its summary,
// be it whole, does not stand for it.
func testReadDamaged(s *subject, damage func(admin.Key)) {
	for _, id := range []string{"a", "b", "c"} {
		s.put(admin.Put{Key: s.policy(id), Value: policy(id), Etag: id, Summary: []byte("summary")})
	}
	damage(s.policy("b"))
	s.checkDamaged(admin.Record(s.short(s.policy("b"))), s.policy("b"))
	s.checkDamaged(admin.Record(s.shortList(admin.Query{Collection: s.policies()})[1]), s.policy("b"))
	listed := s.list(admin.Query{Collection: s.policies()})
	records, err := s.Get(s.Context(), s.policy("a"), s.policy("b"), s.policy("c"), s.policy("none"))
	if err != nil || len(listed) != 3 || len(records) != 4 {
		s.Fatalf("%d are listed, %d read, %v", len(listed), len(records), err)
	}
	for _, found := range [][]admin.Record{listed, records} {
		s.checkDamaged(found[1], s.policy("b"))
		if policyNumber(found[0].Value) != "a" || policyNumber(found[2].Value) != "c" {
			s.Errorf("the others are %+v", found)
		}
	}
	if records[3].Key != "" {
		s.Errorf("what is not there is %+v", records[3])
	}
}

// testDamagedConditions checks each condition on a damaged record. It exists and counts,
// so that no other takes its place unseen; its etag and its sequence are unknown, so that
// no caller's guess of them holds. Unchanged with sequence 0 is how to replace or delete
// it.
func testDamagedConditions(s *subject, damage func(admin.Key)) {
	a := s.policy("a")
	sequence := s.put(admin.Put{Key: a, Etag: "e"})
	damage(a)
	for _, c := range []struct {
		condition admin.Condition
		holds     bool
	}{
		{admin.Exists{Key: a}, true},
		{admin.Exists{Key: a, Etag: "e"}, false},
		{admin.Absent{Key: a}, false},
		{admin.Unchanged{Key: a}, true},
		{admin.Unchanged{Key: a, Sequence: sequence}, false},
		{admin.FewerThan{Collection: s.policies(), N: 1}, false},
		{admin.FewerThan{Collection: s.policies(), N: 2}, true},
	} {
		if _, err := s.Commit(s.Context(), s.txn([]admin.Condition{c.condition})); (err == nil) != c.holds {
			s.Errorf("%#v: %v", c.condition, err)
		}
	}
}

// testReplaceDamaged puts a record in the place of a damaged one. The new one is whole,
// with a sequence of its own, and listed once: what is left of the damaged one in an
// index must not show.
func testReplaceDamaged(s *subject, damage func(admin.Key)) {
	a := s.policy("a")
	s.put(admin.Put{Key: a})
	damage(a)
	sequence := s.must(s.txn([]admin.Condition{admin.Unchanged{Key: a}}, admin.Put{Key: a, Value: policy("new"), Etag: "e"}))
	if r := s.get(a); r.Damage != nil || r.Sequence != sequence || r.Etag != "e" || policyNumber(r.Value) != "new" {
		s.Errorf("it was replaced by %+v", r)
	}
	if names := s.names(admin.Query{Collection: s.policies()}); !slices.Equal(names, []admin.Key{a}) {
		s.Errorf("%v are listed", names)
	}
}

// testDeleteDamaged deletes a damaged record, and puts a new one under its name. That has
// nothing of the old one, its expiry neither: an entry of the expiry that outlives its
// record would remove the new one an hour later.
func testDeleteDamaged(s *subject, damage func(admin.Key)) {
	c := s.withClock()
	a := s.policy("a")
	s.put(admin.Put{Key: a, ExpireTime: c.now().Add(time.Hour)})
	damage(a)
	s.must(s.txn([]admin.Condition{admin.Unchanged{Key: a}}, admin.Delete{Key: a}))
	if s.has(a) || len(s.list(admin.Query{Collection: s.policies()})) > 0 {
		s.Error("it is still there")
	}
	s.must(s.txn([]admin.Condition{admin.Absent{Key: a}}, admin.Put{Key: a}))
	// Past the expiry of the damaged one; an empty Txn has the store clean up.
	c.move(3 * time.Hour)
	s.put()
	if !s.has(a) {
		s.Error("the new one expired with the damaged one")
	}
}

// testDamagedCollections trims, expires and deletes a collection in which one record is
// damaged. Its age and expiry are unknown, so trimming and expiring leave it alone, and
// it does not count among those that are kept. Deleting the collection removes it too.
func testDamagedCollections(s *subject, damage func(admin.Key)) {
	keys := []admin.Key{s.experiment("p", "a"), s.experiment("p", "b"), s.experiment("p", "c")}
	for _, key := range keys {
		s.put(admin.Put{Key: key})
	}
	damage(keys[1])
	// One is kept, and the damaged one stays in addition.
	s.put(s.trim(1))
	s.left(keys[1], keys[2])
	s.put(admin.ExpireCollection{Collection: s.experiments("p"), ExpireTime: time.Now().Add(-time.Hour)})
	s.left(keys[1])
	s.put(admin.DeleteCollection{Collection: s.experiments("p")})
	s.left()
}

// testDamagedFeed damages a policy, and an experiment of another one, below followers.
// Load and Next report both as undecodable with sequence 0, which says that no change of
// the record is known, and deliver all else.
func testDamagedFeed(s *subject, damage func(admin.Key)) {
	a, e := s.policy("a"), s.experiment("b", "e")
	s.change([]string{"a", "b"}, admin.Put{Key: a, Value: policy("A")},
		admin.Put{Key: s.policy("b"), Value: policy("B")},
		admin.Put{Key: e, Value: experiment("E", active)}, admin.Put{Key: s.experiment("b", "f"), Value: experiment("F", active)})
	cursor := s.load().Cursor
	damage(a)
	damage(e)
	s.change([]string{"a", "b", "c"}, admin.Put{Key: s.policy("c"), Value: policy("C")})
	loaded, followed := s.load(), s.next(cursor)
	s.checkBroken(map[string]int64{string(a): 0, string(e): 0}, loaded, followed)
	for _, u := range []authz.Update{loaded, followed} {
		s.checkStates(map[string]string{"a": "none", "b": "B F", "c": "C"}, u)
	}
}
