package storetest

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/admin"
)

// readTests are about Get and List: every record once, as it was at one instant, in
// bytewise order of the names. Pages, etags and the checks of each change are built on
// that order and on that instant.
var readTests = []test{
	{"Get", testGet},
	{"Order", testOrder},
	{"Wildcards", testWildcards},
	{"IDs", testIDs},
	{"Pages", testPages},
	{"After", testAfter},
	{"Many", testMany},
}

// testGet reads several keys at one instant: in the order of the keys and not of the
// index, a key twice if it was asked for twice, and an empty record for what is not
// there, so that a caller can go by position. A commit's checks rest on that.
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

// testOrder lists IDs in which the order of bytes differs from that of a locale, and of
// which one is a prefix of another, followed by a byte before or after the slash. Page
// tokens hold the last key, so another order would skip or repeat records; and a range by
// prefix that is cut wrongly would mix the children of ab, or a-, into those of a.
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

// testWildcards lists by patterns in which - stands for any one ID (AIP-159), among IDs
// with a point and a dash. These are special in the patterns of Lua, which a store may
// match with: unescaped, p.1 would find p-1 too.
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

// testIDs lists the records of one ID in a collection, with and without wildcards: what
// the Policyfile API asks for one policy in all groups. It has to be the last segment as
// a whole, not an end of it, and its special characters have to stand for themselves;
// with it, limits and pages count only what matches.
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

// testPages reads a collection with wildcards in pages of several sizes, which together
// have to be the whole, once each and in order: also where the last page is exactly full,
// and where records that do not match lie between those that do.
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

// testAfter lists from behind keys that are none of the collection, or no key at all. A
// record can be deleted between two pages, so its key has to do as the place at which the
// next one begins; and a page token is not to be trusted to name a record.
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

// testMany has more records in one Txn, one Get, one List and one DeleteCollection than a
// script can take as arguments or return at once (Lua's unpack takes a few thousand), so
// a store has to work in portions, and yet at one instant.
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
