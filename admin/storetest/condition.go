package storetest

import (
	"errors"

	"github.com/google/go-cmp/cmp"

	"understudy/admin"
)

var conditionTests = []test{
	{"Each", testEachCondition},
	{"FirstThatFails", testFirstConditionThatFails},
	{"FailureWritesNothing", testFailureWritesNothing},
	{"FailureCanBeRepeated", testFailureCanBeRepeated},
}

func testEachCondition(s *subject) {
	a, none := s.policy("a"), s.policy("none")
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

func testFirstConditionThatFails(s *subject) {
	a, b := s.policy("a"), s.policy("b")
	s.put(admin.Put{Key: a})
	failing := admin.Exists{Key: b}
	_, err := s.Commit(s.Context(), s.txn([]admin.Condition{
		admin.Exists{Key: a}, admin.FewerThan{Collection: s.policies(), N: 2}, failing, admin.Absent{Key: a},
	}))
	s.checkHolds("the third", err, 2, failing, false)
}

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
	if next := s.put(admin.Put{Key: b}); next != before+1 {
		s.Errorf("the next sequence is %d instead of %d", next, before+1)
	}
}

// A Txn that failed was not made: the same ID can be made later.
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
