package storetest

import (
	"bytes"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/admin"
)

// writeTests are about what a Txn writes, one record at a time: that it is written as it
// was given, once, in order, with the next number of its project, and without touching
// any neighbour.
var writeTests = []test{
	{"Put", testPut},
	{"OwnSequence", testOwnSequence},
	{"Delete", testDelete},
	{"DeleteCollection", testDeleteCollection},
	{"InOrder", testWritesInOrder},
	{"Repeat", testRepeat},
	{"Projects", testProjects},
	{"Bytes", testBytes},
	{"Big", testBig},
}

// testPut creates a record and replaces it. All fields come back as they were, the
// sequence is that of the Txn, and a later Txn has a higher one. A record that is put again is listed once.
func testPut(s *subject) {
	a := s.policy("a")
	first := s.put(admin.Put{Key: a, Value: []byte("one"), Etag: "e1"})
	if diff := cmp.Diff(admin.Record{Key: a, Value: []byte("one"), Etag: "e1", Sequence: first}, s.get(a)); diff != "" {
		s.Error(diff)
	}
	second := s.put(admin.Put{Key: a, Value: []byte("two"), Etag: "e2"})
	if diff := cmp.Diff(admin.Record{Key: a, Value: []byte("two"), Etag: "e2", Sequence: second}, s.get(a)); diff != "" {
		s.Error(diff)
	}
	if second <= first {
		s.Errorf("sequence %d follows %d", second, first)
	}
	if names := s.names(admin.Query{Collection: s.policies()}); len(names) != 1 {
		s.Errorf("listed %v", names)
	}
}

// testOwnSequence puts records under a sequence that the caller gives: ending an
// operation is no change of it, and those who hold it Unchanged must not lose by that. A
// negative one is kept too.
func testOwnSequence(s *subject) {
	a, b := s.operation("a"), s.operation("b")
	first := s.put(admin.Put{Key: a})
	s.put(admin.Put{Key: a, Value: []byte("done"), Sequence: first}, admin.Put{Key: b, Sequence: -1})
	if r := s.get(a); r.Sequence != first || string(r.Value) != "done" {
		s.Errorf("the record is %+v", r)
	}
	s.must(s.txn([]admin.Condition{admin.Unchanged{Key: a, Sequence: first}, admin.Unchanged{Key: b, Sequence: -1}}))
}

// testDelete removes one record and leaves its neighbours and what is below it alone: a
// cascade is for the caller to ask for. What was never there can be deleted, so that a
// repeated call succeeds. Afterwards the key is free for a new record.
func testDelete(s *subject) {
	a, b := s.policy("a"), s.policy("b")
	s.put(admin.Put{Key: a}, admin.Put{Key: b}, admin.Put{Key: s.experiment("a", "e")})
	s.put(admin.Delete{Key: a}, admin.Delete{Key: s.policy("never")})
	if s.has(a) || !s.has(b) || !s.has(s.experiment("a", "e")) {
		s.Error("Delete did not remove its record and nothing else")
	}
	if diff := cmp.Diff([]admin.Key{b}, s.names(admin.Query{Collection: s.policies()})); diff != "" {
		s.Error(diff)
	}
	s.must(s.txn([]admin.Condition{admin.Absent{Key: a}}, admin.Put{Key: a}))
}

// testDeleteCollection removes just the records directly in a collection. Those of
// policies whose names begin alike, of a sibling collection and of one further down stay:
// a range that is one byte too wide would delete a customer's other policy.
func testDeleteCollection(s *subject) {
	gone := []admin.Key{s.experiment("a", "e"), s.experiment("a", "f"), s.experiment("a", "f:g")}
	kept := []admin.Key{
		s.policy("a"), s.experiment("ab", "e"), s.experiment("A", "e"), s.experiment("a.", "e"),
		s.policy("a") + "/revisions/r", s.experiment("a", "e") + "/reports/r",
	}
	var writes []admin.Write
	for _, key := range append(append([]admin.Key{}, gone...), kept...) {
		writes = append(writes, admin.Put{Key: key})
	}
	s.put(writes...)
	s.put(admin.DeleteCollection{Collection: s.experiments("a")}, admin.DeleteCollection{Collection: s.experiments("none")})
	for _, key := range gone {
		if s.has(key) {
			s.Errorf("%s is still there", key)
		}
	}
	for _, key := range kept {
		if !s.has(key) {
			s.Errorf("%s is gone", key)
		}
	}
	if names := s.names(admin.Query{Collection: s.experiments("a")}); len(names) > 0 {
		s.Errorf("listed %v", names)
	}
}

// testWritesInOrder has writes of one Txn that touch the same record. They are made in
// their order, so that a collection can be emptied and filled again at once: how a policy
// takes the place of a purged one.
func testWritesInOrder(s *subject) {
	a, b, c := s.experiment("p", "a"), s.experiment("p", "b"), s.experiment("p", "c")
	s.put(
		admin.Put{Key: a, Value: []byte("1")}, admin.Put{Key: a, Value: []byte("2")},
		admin.Put{Key: b}, admin.Delete{Key: b},
	)
	if string(s.get(a).Value) != "2" || s.has(b) {
		s.Error("the writes were not made in order")
	}
	s.put(admin.Put{Key: b}, admin.DeleteCollection{Collection: s.experiments("p")}, admin.Put{Key: c})
	if diff := cmp.Diff([]admin.Key{c}, s.names(admin.Query{Collection: s.experiments("p")})); diff != "" {
		s.Error(diff)
	}
}

// testRepeat commits one Txn three times, the last time after somebody else has changed
// the record. A client whose reply was lost sends the Txn again, and has to get the first
// result, although its conditions do not hold any more; were it made again, it would
// overwrite the change that came between, and notify followers of nothing.
func testRepeat(s *subject) {
	a := s.policy("a")
	txn := s.txn([]admin.Condition{admin.Absent{Key: a}}, admin.Put{Key: a, Value: policy("one")})
	txn.Events = s.event("a")
	first := s.must(txn)
	head := s.load().Cursor
	// Right away, as a client does whose reply was lost.
	if again := s.must(txn); again != first {
		s.Errorf("the repeat returned %d instead of %d", again, first)
	}
	// And after another change: that has to stay.
	s.put(admin.Put{Key: a, Value: policy("two")})
	if again := s.must(txn); again != first {
		s.Errorf("the late repeat returned %d instead of %d", again, first)
	}
	if policyNumber(s.get(a).Value) != "two" {
		s.Error("the repeat has written")
	}
	if diff := cmp.Diff(head, s.load().Cursor); diff != "" {
		s.Errorf("the repeat has announced a change: %s", diff)
	}
}

// testProjects has two projects on one store: their sequences and names have nothing to
// do with each other, as they may live on different servers of a cluster.
func testProjects(s *subject) {
	other := newProject(s.TB, s.Both)
	first := s.put(admin.Put{Key: s.policy("a")})
	other.put(admin.Put{Key: other.policy("b")})
	if n := s.put(admin.Put{Key: s.policy("c")}); n <= first {
		s.Errorf("sequence %d follows %d", n, first)
	}
	if names := other.names(admin.Query{Collection: other.policies()}); len(names) != 1 {
		s.Errorf("the other project has %v", names)
	}
}

// testBytes stores every byte, text that looks like a protocol's own, and the longest
// names, as values, etags and keys. Whatever a store escapes or joins with blanks has to
// come back bytewise, and an etag is compared bytewise: it decides whether a commit is
// made.
func testBytes(s *subject) {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	puts := []admin.Put{
		{Key: s.policy("all"), Value: all, Etag: string(all)},
		{Key: s.policy("empty")},
		{Key: s.policy("a:b:c"), Value: []byte(`{"x": 1}` + "\r\n$-1\r\n"), Etag: " "},
		{Key: s.policy("A_.-:9"), Value: []byte("\x00"), Etag: "0 0 0"},
		{Key: s.policy(strings.Repeat("x", 255)), Value: []byte("long"), Etag: "*"},
	}
	for _, p := range puts {
		want := admin.Record{Key: p.Key, Value: p.Value, Etag: p.Etag, Sequence: s.put(p)}
		if diff := cmp.Diff(want, s.get(p.Key), cmpopts.EquateEmpty()); diff != "" {
			s.Error(diff)
		}
		if p.Etag != "" {
			s.must(s.txn([]admin.Condition{admin.Exists{Key: p.Key, Etag: p.Etag}}))
		}
	}
	for i, r := range s.list(admin.Query{Collection: s.policies()}) {
		if r.Key == s.policy("all") && !bytes.Equal(r.Value, all) {
			s.Errorf("record %d of the list has another value", i)
		}
	}
}

// testBig stores values of 4 MiB, about what the largest policy has by default, alone and
// in a list.
func testBig(s *subject) {
	value := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	s.put(admin.Put{Key: s.policy("big"), Value: value}, admin.Put{Key: s.experiment("big", "e"), Value: value})
	if !bytes.Equal(s.get(s.policy("big")).Value, value) {
		s.Error("the value is another one")
	}
	if l := s.list(admin.Query{Collection: s.experiments("big")}); len(l) != 1 || !bytes.Equal(l[0].Value, value) {
		s.Error("the listed value is another one")
	}
}
