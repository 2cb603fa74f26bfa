package storetest

import (
	"errors"

	"github.com/google/go-cmp/cmp"

	"understudy/admin"
)

// conditionTests are about what a Txn depends on. All of the control plane's guarantees
// under concurrency are made of these conditions: an etag that is compared, a limit that
// holds, a change that is worked out anew when what it was worked out from has changed.
var conditionTests = []test{
	{"Each", testEachCondition},
	{"FirstThatFails", testFirstConditionThatFails},
	{"FailureWritesNothing", testFailureWritesNothing},
	{"FailureCanBeRepeated", testFailureCanBeRepeated},
}

// testEachCondition checks what each condition says of records that are there, that are
// not, and that are others. Wrongly held, a commit overwrites what its caller has not
// seen; wrongly failed, a call is refused or repeated for ever. FewerThan counts the
// collection alone, not what is below it.
func testEachCondition(s *subject) {
	a, none := s.policy("a"), s.policy("none")
	// An etag with a blank, a zero and a byte that is no UTF-8: a store that separates fields
	// by blanks, or compares as text, takes it for another one.
	etag := "W/\"e 1\"\x00\xff"
	sequence := s.put(admin.Put{Key: a, Etag: etag}, admin.Put{Key: s.experiment("a", "e1")},
		admin.Put{Key: s.experiment("a", "e2")})
	for _, test := range []struct {
		name      string
		condition admin.Condition
		holds     bool
	}{
		{"exists", admin.Exists{Key: a}, true},
		{"exists with the etag", admin.Exists{Key: a, Etag: etag}, true},
		{"exists with another etag", admin.Exists{Key: a, Etag: "W/\"e 1\""}, false},
		{"exists not", admin.Exists{Key: none}, false},
		{"exists not, with an etag", admin.Exists{Key: none, Etag: etag}, false},
		{"a collection is no record", admin.Exists{Key: admin.Key(s.experiments("a"))}, false},
		{"absent", admin.Absent{Key: none}, true},
		{"not absent", admin.Absent{Key: a}, false},
		{"unchanged", admin.Unchanged{Key: a, Sequence: sequence}, true},
		{"changed", admin.Unchanged{Key: a, Sequence: sequence - 1}, false},
		{"gone", admin.Unchanged{Key: none, Sequence: sequence}, false},
		{"gone, compared with zero", admin.Unchanged{Key: none}, false},
		{"fewer than three", admin.FewerThan{Collection: s.experiments("a"), N: 3}, true},
		{"fewer than two", admin.FewerThan{Collection: s.experiments("a"), N: 2}, false},
		{"fewer than one", admin.FewerThan{Collection: s.experiments("a"), N: 1}, false},
		{"fewer than one of none", admin.FewerThan{Collection: s.experiments("b"), N: 1}, true},
		{"fewer than none", admin.FewerThan{Collection: s.experiments("b"), N: 0}, false},
		{"children do not count", admin.FewerThan{Collection: s.policies(), N: 2}, true},
	} {
		_, err := s.Commit(s.Context(), s.txn([]admin.Condition{test.condition}))
		s.checkHolds(test.name, err, 0, test.condition, test.holds)
	}
}

// checkHolds checks the error of a Txn that ought to fail by one condition, or not
// to fail.
func (s *subject) checkHolds(name string, err error, index int, c admin.Condition, holds bool) {
	s.Helper()
	var failed *admin.ConditionError
	switch {
	case holds && err != nil:
		s.Errorf("%s: %v", name, err)
	case !holds && !errors.As(err, &failed):
		s.Errorf("%s: error %v instead of a *ConditionError", name, err)
	case !holds && (failed.Index != index || failed.Condition != c):
		s.Errorf("%s: condition %d %#v failed instead of %d %#v", name, failed.Index, failed.Condition, index, c)
	}
}

// testFirstConditionThatFails has two conditions that do not hold: the first one is
// named. The control plane makes the caller's error of it, so that which one it is
// decides what the caller reads: that the etag is old, or that the limit is reached.
func testFirstConditionThatFails(s *subject) {
	a, b := s.policy("a"), s.policy("b")
	s.put(admin.Put{Key: a})
	// The fourth does not hold either. It must not be the one that is named.
	failing := admin.Exists{Key: b}
	_, err := s.Commit(s.Context(), s.txn([]admin.Condition{
		admin.Exists{Key: a}, admin.FewerThan{Collection: s.policies(), N: 2}, failing, admin.Absent{Key: a},
	}))
	s.checkHolds("the third", err, 2, failing, false)
}

// testFailureWritesNothing has a Txn fail by its condition with writes of all kinds
// behind it. No record changes, no follower is notified, and no number is used: a gap in
// the sequence would look to followers like a change that they have missed.
func testFailureWritesNothing(s *subject) {
	a, b := s.policy("a"), s.policy("b")
	before := s.put(admin.Put{Key: a, Value: policy("old")})
	loaded := s.load()
	txn := s.txn([]admin.Condition{admin.Absent{Key: a}},
		admin.Put{Key: b}, admin.Delete{Key: a}, admin.DeleteCollection{Collection: s.policies()})
	txn.Events = s.event("a")
	_, err := s.Commit(s.Context(), txn)
	s.checkHolds("absent", err, 0, admin.Absent{Key: a}, false)
	if r := s.get(a); policyNumber(r.Value) != "old" || r.Sequence != before {
		s.Errorf("the record is %+v", r)
	}
	if s.has(b) {
		s.Error("the other record was written")
	}
	if diff := cmp.Diff(loaded.Cursor, s.load().Cursor); diff != "" {
		s.Errorf("the head has moved: %s", diff)
	}
	if next := s.put(admin.Put{Key: b}); next <= before {
		s.Errorf("the next sequence is %d after %d", next, before)
	}
}

// testFailureCanBeRepeated commits a Txn that failed once more, now that its condition
// holds. That it failed must not be remembered under its ID as a result.
func testFailureCanBeRepeated(s *subject) {
	a, b := s.policy("a"), s.policy("b")
	txn := s.txn([]admin.Condition{admin.Exists{Key: a}}, admin.Put{Key: b})
	if _, err := s.Commit(s.Context(), txn); err == nil {
		s.Fatal("the condition holds")
	}
	s.put(admin.Put{Key: a})
	s.must(txn)
	if !s.has(b) {
		s.Error("the record is not there")
	}
}
