package storetest

import (
	"time"

	"github.com/google/go-cmp/cmp"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// nodeTests are about what sidecars report of themselves. Operations wait for these
// reports, and users read in them where a change has not arrived.
var nodeTests = []test{
	{"Report", testReport},
	{"Order", testNodeOrder},
	{"Leave", testLeave},
	{"Head", testHead},
}

// node is what a sidecar reports of itself, as yet without content.
func (s *subject) node(id string) *adminpb.Node {
	return &adminpb.Node{Name: string(s.location) + "/nodes/" + id}
}

// beat reports a node and returns the head of its location, by which the node sees that
// it has missed changes.
func (s *subject) beat(n *adminpb.Node) authz.Head {
	s.Helper()
	head, err := s.Heartbeat(s.Context(), n)
	if err != nil {
		s.Fatalf("reporting %s: %v", n.Name, err)
	}
	return head
}

// nodes are the reports of the subject's location.
func (s *subject) nodes() []admin.NodeReport {
	s.Helper()
	reports, err := s.Nodes(s.Context(), s.location)
	if err != nil {
		s.Fatalf("reading the nodes: %v", err)
	}
	return reports
}

// testReport reports a node twice. What it said comes back as it was, bytes that are no
// UTF-8 included, with the store's time of it, and the second report replaces the first.
// The age is by the store's clock alone: by clocks of two machines, a node would count as
// dead whose clock is slow. The message of the caller is left alone, for it is sent
// again.
func testReport(s *subject) {
	n := s.node("n1")
	n.AppliedSequence, n.Policies = 7, []string{string(s.policy("a"))}
	n.Error = &statuspb.Status{Code: 9, Message: "\xc3\xa9\x00"}
	sent := proto.CloneOf(n)
	s.beat(n)
	if diff := cmp.Diff(sent, n, protocmp.Transform()); diff != "" {
		s.Errorf("the caller's node was changed: %s", diff)
	}
	reports := s.nodes()
	if len(reports) != 1 {
		s.Fatalf("%d reports", len(reports))
	}
	got := reports[0]
	if diff := cmp.Diff(sent, got.Node, protocmp.Transform(), protocmp.IgnoreFields(sent, "heartbeat_time", "function_library")); diff != "" {
		s.Error(diff)
	}
	if at := got.Node.GetHeartbeatTime().AsTime(); at.IsZero() || got.Age < 0 || got.Age > time.Hour {
		s.Errorf("reported at %v, %v ago", at, got.Age)
	}
	n.AppliedSequence = 8
	s.beat(n)
	again := s.nodes()
	if len(again) != 1 || again[0].Node.AppliedSequence != 8 ||
		again[0].Node.HeartbeatTime.AsTime().Before(got.Node.HeartbeatTime.AsTime()) {
		s.Errorf("after the second report: %+v", again)
	}
}

// testNodeOrder lists nodes in bytewise order, as List does, for pages hold the last
// name. Those of a location whose name begins alike are not among them: an operation
// waits for each node that is listed.
func testNodeOrder(s *subject) {
	for _, id := range []string{"b", "a", "B", "a-b", "c"} {
		s.beat(s.node(id))
	}
	// The location l11 begins with the name of l1.
	s.beat(&adminpb.Node{Name: "projects/" + s.project + "/locations/l11/nodes/x"})
	var got []string
	for _, r := range s.nodes() {
		got = append(got, r.Node.Name[len(s.location+"/nodes/"):])
	}
	if diff := cmp.Diff([]string{"B", "a", "a-b", "b", "c"}, got); diff != "" {
		s.Error(diff)
	}
}

// testLeave takes a node out of its location, twice, and one that was never there. A
// sidecar that shuts down leaves, so that operations do not wait for it; it may do so
// before its first report was stored, and a repeated call is no error.
func testLeave(s *subject) {
	s.beat(s.node("a"))
	s.beat(s.node("b"))
	for range 2 {
		if err := s.Leave(s.Context(), s.node("a").Name); err != nil {
			s.Fatal(err)
		}
	}
	if reports := s.nodes(); len(reports) != 1 || reports[0].Node.Name != s.node("b").Name {
		s.Errorf("%d nodes are left", len(reports))
	}
	other := newProject(s.TB, s.Both)
	if err := other.Leave(s.Context(), other.node("never").Name); err != nil {
		s.Errorf("leaving without having been there: %v", err)
	}
}

// testHead compares the head that Heartbeat returns with that of Load. A sidecar loads
// anew when they differ: were they computed differently, it would load at every
// heartbeat, or never.
func testHead(s *subject) {
	if head := s.beat(s.node("a")); head != (authz.Head{}) {
		s.Errorf("without a change, the head is %+v", head)
	}
	for range 3 {
		s.change([]string{"a"}, admin.Put{Key: s.policy("a"), Value: policy("1")})
		s.put(admin.Put{Key: s.operation("o")})
		if diff := cmp.Diff(s.load().Cursor, s.beat(s.node("a")).Cursor); diff != "" {
			s.Errorf("the heads of Load and Heartbeat: %s", diff)
		}
	}
}
