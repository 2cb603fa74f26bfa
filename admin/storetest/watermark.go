package storetest

import (
	"errors"

	"understudy/admin"
	adminpb "understudy/admin/v1"
)

// watermarkTests are about the number by which it is known that a store came back with older data.
// One that is too low hides that; one that rises by itself hides it after the next change.
var watermarkTests = []test{
	{"Rises", testWatermark},
	{"Locations", testWatermarkOfLocations},
	{"WentBack", testWentBack},
	{"Empty", testWentBackEmpty},
	{"Ahead", testAhead},
}

// watermark is that of the subject's project.
func (s *subject) watermark() int64 {
	s.Helper()
	watermark, err := s.Watermark(s.Context(), s.project)
	if err != nil {
		s.Fatalf("reading the watermark: %v", err)
	}
	return watermark
}

// raise makes a Txn that raises the watermark.
func (s *subject) raise(writes ...admin.Write) int64 {
	s.Helper()
	txn := s.txn(nil, writes...)
	txn.Raises = true
	return s.must(txn)
}

// testWatermark raises the watermark by the first Txn of the project and by those that say so, and
// by no other one. A node hears of it.
func testWatermark(s *subject) {
	if n := s.watermark(); n != 0 {
		s.Errorf("without a Txn the watermark is %d", n)
	}
	first := s.put(admin.Put{Key: s.policy("a")})
	s.put(admin.Put{Key: s.policy("b")})
	if n := s.watermark(); n != first {
		s.Errorf("after the first Txn, %d, the watermark is %d", first, n)
	}
	raised := s.raise(admin.Put{Key: s.policy("a")})
	s.put(admin.Put{Key: s.policy("b")})
	if n := s.watermark(); n != raised {
		s.Errorf("after Txn %d the watermark is %d", raised, n)
	}
	if head := s.beat(s.node("n")); head.Watermark != raised || head.Ahead != 0 {
		s.Errorf("a node sees %+v after Txn %d", head, raised)
	}
	if n := newProject(s.TB, s.Both).watermark(); n != 0 {
		s.Errorf("the watermark of another project is %d", n)
	}
}

// testWatermarkOfLocations raises it in one location and in none: nodes of each location that has had
// a record see it, a new one too.
func testWatermarkOfLocations(s *subject) {
	see := func(want int64, ids ...string) {
		s.Helper()
		for _, id := range ids {
			head, err := s.Heartbeat(s.Context(), &adminpb.Node{Name: "projects/" + s.project + "/locations/" + id + "/nodes/n"})
			if err != nil || head.Watermark != want {
				s.Errorf("a node of %s sees %+v, %v; want %d", id, head, err, want)
			}
		}
	}
	in := func(id string) admin.Put {
		return admin.Put{Key: admin.Key("projects/" + s.project + "/locations/" + id + "/policies/p")}
	}
	s.put(in("l1"))
	raised := s.raise(in("l1"))
	s.put(in("l2"))
	see(raised, "l1", "l2")
	raised = s.raise(in("l2"))
	see(raised, "l1", "l2")
	raised = s.raise(admin.Put{Key: admin.Key("projects/" + s.project + "/iamPolicies/bindings")})
	see(raised, "l1", "l2")
	s.put(in("l3"))
	see(raised, "l1", "l2", "l3")
}

// testWentBack asks for a Txn of a store that has a lower watermark than is known: nothing is
// written, also if no condition holds. With Accepts it is made, under a number above the known one,
// however far that is ahead of the clock.
func testWentBack(s *subject) {
	stored := s.raise(admin.Put{Key: s.policy("a")})
	known := stored + 1<<40
	txn := s.txn([]admin.Condition{admin.Absent{Key: s.policy("a")}}, admin.Put{Key: s.policy("b")})
	txn.Known = known
	if _, err := s.Commit(s.Context(), txn); !errors.Is(err, admin.ErrWentBack) || !errors.Is(err, admin.ErrUnavailable) {
		s.Errorf("the error is %v", err)
	}
	if s.has(s.policy("b")) || s.watermark() != stored {
		s.Error("something was written")
	}
	txn = s.txn(nil)
	txn.Known, txn.Accepts, txn.Raises = known, true, true
	number := s.must(txn)
	if number <= known || s.watermark() != number {
		s.Errorf("the number is %d, and the watermark %d; %d was known", number, s.watermark(), known)
	}
	if again := s.must(txn); again != number {
		s.Errorf("the repeat returned %d instead of %d", again, number)
	}
	txn = s.txn(nil, admin.Put{Key: s.policy("b")})
	txn.Known = number
	if later := s.must(txn); later <= number {
		s.Errorf("the next number is %d after %d", later, number)
	}
}

// testWentBackEmpty: a store without a Txn has lost everything, and has not gone back. The next one raises the
// watermark.
func testWentBackEmpty(s *subject) {
	txn := s.txn(nil, admin.Put{Key: s.policy("a")})
	txn.Known = 7
	if number := s.must(txn); number != s.watermark() || number <= 7 {
		s.Errorf("the number is %d, and the watermark %d", number, s.watermark())
	}
}

// testAhead counts the nodes of the location that have reported a higher watermark than the store's.
func testAhead(s *subject) {
	stored := s.raise(admin.Put{Key: s.policy("a")})
	for id, watermark := range map[string]int64{"a": stored, "b": stored + 1, "c": stored + 2} {
		n := s.node(id)
		n.Watermark = watermark
		s.beat(n)
	}
	other := s.node("x")
	other.Name, other.Watermark = "projects/"+s.project+"/locations/l11/nodes/x", stored+1
	s.beat(other)
	if head := s.beat(s.node("n")); head.Ahead != 2 {
		s.Errorf("two nodes are ahead: %+v", head)
	}
	if err := s.Leave(s.Context(), s.node("b").Name); err != nil {
		s.Fatal(err)
	}
	if head := s.beat(s.node("n")); head.Ahead != 1 {
		s.Errorf("one node is ahead: %+v", head)
	}
	self := s.node("n")
	self.Watermark = stored + 1
	if head := s.beat(self); head.Ahead != 2 {
		s.Errorf("a node is ahead itself: %+v", head)
	}
	reported, err := s.Nodes(s.Context(), s.location)
	if err != nil || len(reported) != 3 || reported[1].Node.GetWatermark() != stored+2 {
		s.Errorf("the nodes are %v, %v", reported, err)
	}
}
