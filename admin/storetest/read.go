package storetest

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/admin"
)

var readTests = []test{
	{"Get", testGet},
	{"Order", testOrder},
	{"Wildcards", testWildcards},
	{"IDs", testIDs},
	{"Pages", testPages},
	{"After", testAfter},
	{"Many", testMany},
}

func testGet(s *subject) {
	a, b, none := s.policy("a"), s.policy("b"), s.policy("none")
	n := s.put(admin.Put{Key: a, Value: []byte("1")}, admin.Put{Key: b, Value: []byte("2")})
	got, err := s.Get(s.Context(), b, none, a, b)
	if err != nil {
		s.Fatal(err)
	}
	one, two := admin.Record{Key: a, Value: []byte("1"), Sequence: n}, admin.Record{Key: b, Value: []byte("2"), Sequence: n}
	if diff := cmp.Diff([]admin.Record{two, {}, one, two}, got); diff != "" {
		s.Error(diff)
	}
	if got, err := s.Get(s.Context()); err != nil || len(got) > 0 {
		s.Errorf("no keys: %v, %v", got, err)
	}
}

func testOrder(s *subject) {
	ids := []string{"b", "a", "B", "a-b", "a.b", "a:b", "a_b", "ab", "a0", "Z", "~", "a%b", "a-", "0"}
	var want []admin.Key
	for _, id := range ids {
		s.put(admin.Put{Key: s.policy(id)}, admin.Put{Key: s.experiment(id, "e")})
		want = append(want, s.policy(id))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, s.names(admin.Query{Collection: s.policies()})); diff != "" {
		s.Errorf("the order is not bytewise: %s", diff)
	}
	for _, id := range ids {
		want := []admin.Key{s.experiment(id, "e")}
		if diff := cmp.Diff(want, s.names(admin.Query{Collection: s.experiments(id)})); diff != "" {
			s.Errorf("the experiments of %s: %s", id, diff)
		}
	}
	if names := s.names(admin.Query{Collection: s.experiments("none")}); len(names) > 0 {
		s.Errorf("listed %v", names)
	}
}

func testWildcards(s *subject) {
	project := "projects/" + s.project
	var writes []admin.Write
	for _, location := range []string{"l1", "l2", "l-", "l.1"} {
		for _, policy := range []string{"p1", "p-", "p.1"} {
			base := project + "/locations/" + location + "/policies/" + policy
			writes = append(writes, admin.Put{Key: admin.Key(base)}, admin.Put{Key: admin.Key(base + "/experiments/e")},
				admin.Put{Key: admin.Key(base + "/revisions/r")})
		}
	}
	s.put(writes...)
	for _, test := range []struct {
		collection string
		count      int
	}{
		{"/locations/-/policies", 12},
		{"/locations/l1/policies", 3},
		{"/locations/-/policies/-/experiments", 12},
		{"/locations/-/policies/p1/experiments", 4},
		{"/locations/-/policies/p.1/experiments", 4},
		{"/locations/-/policies/p-/experiments", 4},
		{"/locations/l1/policies/-/revisions", 3},
		{"/locations/l.1/policies/-/revisions", 3},
		{"/locations/-/policies/none/experiments", 0},
		{"/locations/-/operations", 0},
	} {
		names := s.names(admin.Query{Collection: admin.Collection(project + test.collection)})
		if len(names) != test.count || !slices.IsSorted(names) {
			s.Errorf("%s: %d records in this order: %v", test.collection, len(names), names)
		}
	}
}

// Of a collection, with or without wildcards, the records of one ID.
func testIDs(s *subject) {
	project := admin.Key("projects/" + s.project)
	key := func(location, policy string) admin.Key {
		return project + admin.Key("/locations/"+location+"/policies/"+policy)
	}
	for _, location := range []string{"l1", "l2", "l.1"} {
		for _, policy := range []string{"p", "p1", "p.1", "px1", "1"} {
			s.put(admin.Put{Key: key(location, policy)}, admin.Put{Key: key(location, policy) + "/experiments/p1"})
		}
	}
	for _, test := range []struct {
		q    admin.Query
		want []admin.Key
	}{
		{admin.Query{Collection: "-", ID: "p1"}, []admin.Key{key("l.1", "p1"), key("l1", "p1"), key("l2", "p1")}},
		{admin.Query{Collection: "-", ID: "p.1"}, []admin.Key{key("l.1", "p.1"), key("l1", "p.1"), key("l2", "p.1")}},
		{admin.Query{Collection: "l1", ID: "p1"}, []admin.Key{key("l1", "p1")}},
		{admin.Query{Collection: "-", ID: "p1", Limit: 2}, []admin.Key{key("l.1", "p1"), key("l1", "p1")}},
		{admin.Query{Collection: "-", ID: "p1", After: key("l1", "p1")}, []admin.Key{key("l2", "p1")}},
		{admin.Query{Collection: "-", ID: "none"}, nil},
	} {
		test.q.Collection = admin.Collection(project) + "/locations/" + test.q.Collection + "/policies"
		if diff := cmp.Diff(test.want, s.names(test.q), cmpopts.EquateEmpty()); diff != "" {
			s.Errorf("%+v: %s", test.q, diff)
		}
	}
}

func testPages(s *subject) {
	var all []admin.Key
	for i := range 25 {
		key := s.experiment(fmt.Sprintf("p%d", i%3), fmt.Sprintf("e%d", i))
		s.put(admin.Put{Key: key})
		all = append(all, key)
	}
	slices.Sort(all)
	for _, size := range []int{1, 4, 25, 26} {
		var paged []admin.Key
		q := admin.Query{Collection: s.experiments("-"), Limit: size}
		for {
			page := s.names(q)
			if len(page) > size {
				s.Fatalf("a page of %d has %d records", size, len(page))
			}
			if len(page) == 0 {
				break
			}
			paged = append(paged, page...)
			q.After = page[len(page)-1]
		}
		if diff := cmp.Diff(all, paged); diff != "" {
			s.Errorf("pages of %d: %s", size, diff)
		}
	}
}

// After need not be the key of a record, nor of the collection.
func testAfter(s *subject) {
	a, b, c := s.policy("a"), s.policy("b"), s.policy("c")
	s.put(admin.Put{Key: a}, admin.Put{Key: b}, admin.Put{Key: c})
	for _, test := range []struct {
		after admin.Key
		want  []admin.Key
	}{
		{"", []admin.Key{a, b, c}},
		{"a", []admin.Key{a, b, c}},
		{admin.Key(s.policies()), []admin.Key{a, b, c}},
		{a, []admin.Key{b, c}},
		{s.policy("aa"), []admin.Key{b, c}},
		{s.experiment("a", "x"), []admin.Key{b, c}},
		{c, nil},
		{s.policy("z"), nil},
		{"z", nil},
	} {
		got := s.names(admin.Query{Collection: s.policies(), After: test.after})
		if diff := cmp.Diff(test.want, got); diff != "" {
			s.Errorf("after %q: %s", test.after, diff)
		}
	}
}

func testMany(s *subject) {
	const count = 3000
	var writes []admin.Write
	var want []admin.Key
	for i := range count {
		key := s.policy(fmt.Sprintf("p%04d", i))
		writes = append(writes, admin.Put{Key: key, Value: []byte(key)})
		want = append(want, key)
	}
	s.put(writes...)
	if diff := cmp.Diff(want, s.names(admin.Query{Collection: s.policies()})); diff != "" {
		s.Error(diff)
	}
	got, err := s.Get(s.Context(), want...)
	if err != nil {
		s.Fatal(err)
	}
	for i, r := range got {
		if r.Key != want[i] || string(r.Value) != string(want[i]) {
			s.Fatalf("record %d is %+v", i, r)
		}
	}
	s.must(s.txn([]admin.Condition{admin.FewerThan{Collection: s.policies(), N: count + 1}},
		admin.DeleteCollection{Collection: s.policies()}))
	if left := s.names(admin.Query{Collection: s.policies()}); len(left) > 0 {
		s.Errorf("%d records are left", len(left))
	}
}
