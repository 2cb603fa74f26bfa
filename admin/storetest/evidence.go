package storetest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// evidenceTests are about what sidecars publish of experiments. Each request is to be
// counted once: a tally that is lost makes a difference unseen, and one that counts twice
// a commit that nobody should make.
var evidenceTests = []test{
	{"Publish", testPublish},
	{"Serials", testSerials},
	{"Gone", testPublishGone},
	{"Nodes", testPublishNodes},
	{"Compact", testCompact},
	{"CompactChanged", testCompactChanged},
	{"Drop", testDrop},
	{"Apart", testEvidenceApart},
	{"OneCompaction", testOneCompaction},
	{"NeverLostNeverTwice", testNeverLostNeverTwice},
}

// begin puts a policy with an experiment e of a UID, and returns whose evidence that is.
func (s *subject) begin(uid string) admin.EvidenceName {
	s.Helper()
	name := s.experiment("p", "e")
	e := newExperiment(name, uid)
	s.put(admin.Put{Key: s.policy("p"), Value: policy("1")}, admin.Put{Key: name, Value: e})
	return admin.EvidenceName{Experiment: name, UID: uid}
}

// newExperiment is an experiment with a UID, marshalled.
func newExperiment(name admin.Key, uid string) []byte {
	return marshal(&adminpb.PolicyExperiment{Name: string(name), Uid: uid})
}

// published is what a tally of an experiment has counted.
func published(name admin.EvidenceName, tally string, serial int64, value string) authz.PublishedEvidence {
	return authz.PublishedEvidence{
		Experiment: string(name.Experiment), UID: name.UID, Tally: tally, Serial: serial, Value: []byte(value),
	}
}

// publish publishes tallies of a node.
func (s *subject) publish(node string, evidence ...authz.PublishedEvidence) authz.Publication {
	s.Helper()
	out, err := s.Publish(s.Context(), s.node(node).Name, evidence)
	if err != nil {
		s.Fatalf("publishing: %v", err)
	}
	return out
}

// evidence reads the evidence of an experiment.
func (s *subject) evidence(name admin.EvidenceName) admin.Evidence {
	s.Helper()
	e, err := s.Evidence(s.Context(), name)
	if err != nil {
		s.Fatalf("reading the evidence: %v", err)
	}
	return e
}

// compact compacts what is read of an evidence, with a new sum.
func (s *subject) compact(name admin.EvidenceName, read admin.Evidence, sum string, tallies ...admin.TallyRecord) error {
	return s.Compact(s.Context(), admin.Compaction{EvidenceName: name, Version: read.Version, Compacted: []byte(sum), Tallies: tallies})
}

// checkEvidence compares the evidence of an experiment, but for the ages of tallies.
func (s *subject) checkEvidence(name admin.EvidenceName, want admin.Evidence) {
	s.Helper()
	if diff := cmp.Diff(want, s.evidence(name), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(admin.TallyRecord{}, "Age")); diff != "" {
		s.Errorf("the evidence (-want +got): %s", diff)
	}
}

// refused checks which tallies were refused, each with the serial that was compacted.
func (s *subject) refused(got authz.Publication, want ...string) {
	s.Helper()
	var refused []string
	for _, r := range got.Refused {
		refused = append(refused, fmt.Sprint(r.Tally, " ", r.Serial))
	}
	if diff := cmp.Diff(want, refused, cmpopts.EquateEmpty()); diff != "" {
		s.Errorf("refused (-want +got): %s", diff)
	}
}

// tally is a tally as it is read.
func (s *subject) tally(node, tally string, serial int64, value string) admin.TallyRecord {
	return admin.TallyRecord{Node: s.node(node).Name, Tally: tally, Serial: serial, Value: []byte(value)}
}

// testPublish publishes two tallies of one node at once, and one of another. All come back
// byte for byte, in the order of the nodes; a second publication replaces the first.
func testPublish(s *subject) {
	name := s.begin("uid-1")
	s.checkEvidence(name, admin.Evidence{})
	s.refused(s.publish("b", published(name, "t1", 1, "one"), published(name, "t2", 1, "\xff\x00 two")))
	s.refused(s.publish("a", published(name, "t3", 1, "three")))
	s.refused(s.publish("b", published(name, "t1", 2, "one more")))
	s.checkEvidence(name, admin.Evidence{Tallies: []admin.TallyRecord{
		s.tally("a", "t3", 1, "three"), s.tally("b", "t1", 2, "one more"), s.tally("b", "t2", 1, "\xff\x00 two"),
	}})
	for _, r := range s.evidence(name).Tallies {
		if r.Age < 0 || r.Age > time.Hour {
			s.Errorf("%s was published %v ago", r.Tally, r.Age)
		}
	}
}

// testSerials publishes out of order, as a node does whose first call is still on its way
// when it sends the next. What was counted later stays; a repetition changes nothing.
func testSerials(s *subject) {
	name := s.begin("uid-1")
	for _, serial := range []int64{2, 10, 9, 10, 1} {
		s.refused(s.publish("n", published(name, "t", serial, fmt.Sprint(serial))))
	}
	s.checkEvidence(name, admin.Evidence{Tallies: []admin.TallyRecord{s.tally("n", "t", 10, "10")}})
}

// testPublishGone publishes for experiments that are not there: never were, were created
// again with another UID, have expired, or were deleted in between. Each is refused, and
// only each: the tally next to it is stored.
func testPublishGone(s *subject) {
	name := s.begin("uid-1")
	never := admin.EvidenceName{Experiment: s.experiment("p", "never"), UID: "uid-2"}
	again := admin.EvidenceName{Experiment: name.Experiment, UID: "uid-0"}
	old := admin.EvidenceName{Experiment: s.experiment("p", "old"), UID: "uid-3"}
	s.put(admin.Put{Key: old.Experiment, Value: newExperiment(old.Experiment, old.UID), ExpireTime: time.Now().Add(-time.Second)})
	s.refused(s.publish("n",
		published(never, "t1", 1, "x"), published(name, "t2", 1, "x"), published(again, "t3", 1, "x"), published(old, "t4", 1, "x"),
	), "t1 0", "t3 0", "t4 0")
	for _, other := range []admin.EvidenceName{never, again, old} {
		s.checkEvidence(other, admin.Evidence{})
	}
	s.put(admin.Delete{Key: name.Experiment})
	s.refused(s.publish("n", published(name, "t2", 2, "y")), "t2 0")
	s.refused(s.publish("n", published(name, "t2", 1, "y")), "t2 0")
	s.checkEvidence(name, admin.Evidence{Tallies: []admin.TallyRecord{s.tally("n", "t2", 1, "x")}})
}

// testPublishNodes publishes with nothing and something to say. The number of nodes has the
// publisher, whether it has reported yet or not, and nodes of its location alone.
func testPublishNodes(s *subject) {
	name := s.begin("uid-1")
	if got := s.publish("a").Nodes; got != 1 {
		s.Errorf("the first node hears of %d", got)
	}
	s.beat(s.node("a"))
	s.beat(s.node("b"))
	s.beat(&adminpb.Node{Name: "projects/" + s.project + "/locations/l11/nodes/x"})
	for _, id := range []string{"a", "c"} {
		want := map[string]int{"a": 2, "c": 3}[id]
		if got := s.publish(id, published(name, id, 1, "x")).Nodes; got != want {
			s.Errorf("%s hears of %d nodes, want %d", id, got, want)
		}
	}
}

// testCompact compacts a tally, and then another one. What is compacted replaces them; nothing
// is published of them any more, while the third goes on.
func testCompact(s *subject) {
	name := s.begin("uid-1")
	s.publish("n", published(name, "t1", 3, "one"), published(name, "t2", 1, "two"), published(name, "t3", 1, "three"))
	read := s.evidence(name)
	if err := s.compact(name, read, "sum", read.Tallies[0]); err != nil {
		s.Fatal(err)
	}
	s.refused(s.publish("n", published(name, "t1", 4, "late"), published(name, "t2", 2, "two more")), "t1 3")
	read = s.evidence(name)
	s.checkEvidence(name, admin.Evidence{Compacted: []byte("sum"), Version: read.Version, Tallies: []admin.TallyRecord{
		s.tally("n", "t2", 2, "two more"), s.tally("n", "t3", 1, "three"),
	}})
	if err := s.compact(name, read, "sum of both", read.Tallies[0]); err != nil {
		s.Fatal(err)
	}
	s.refused(s.publish("n", published(name, "t1", 3, "again"), published(name, "t2", 3, "late")), "t1 3", "t2 2")
	s.refused(s.publish("n", published(name, "t1", 5, "late"), published(name, "t2", 1, "early")), "t1 3", "t2 2")
	got := s.evidence(name)
	s.checkEvidence(name, admin.Evidence{Compacted: []byte("sum of both"), Version: got.Version, Tallies: []admin.TallyRecord{
		s.tally("n", "t3", 1, "three"),
	}})
	if got.Version == read.Version {
		s.Error("the version has not changed")
	}
}

// testCompactChanged compacts what is not as it was read: a tally was published again, one is
// not there, another compaction came first. Nothing is changed, no part of it either.
func testCompactChanged(s *subject) {
	name := s.begin("uid-1")
	s.publish("n", published(name, "t1", 1, "one"), published(name, "t2", 1, "two"))
	first := s.evidence(name)
	s.publish("n", published(name, "t2", 2, "two more"))
	read := s.evidence(name)
	for doing, err := range map[string]error{
		"a tally that was published again": s.compact(name, first, "x", first.Tallies...),
		"a tally that is not there":        s.compact(name, read, "x", read.Tallies[0], s.tally("n", "t4", 1, "")),
		"another version":                  s.compact(name, admin.Evidence{Version: read.Version + 1}, "x", read.Tallies...),
		"an experiment without evidence":   s.compact(admin.EvidenceName{Experiment: name.Experiment, UID: "uid-2"}, admin.Evidence{}, "x"),
	} {
		if !errors.Is(err, admin.ErrChanged) {
			s.Errorf("compacting %s: %v", doing, err)
		}
	}
	s.checkEvidence(name, read)
	s.refused(s.publish("n", published(name, "t1", 2, "one more")))
}

// testDrop drops the evidence of an experiment, twice, among that of others, and of one
// that has none. It is not listed any more, and a compaction that was on its way does not
// bring it back. What is published afterwards begins anew.
func testDrop(s *subject) {
	name := s.begin("uid-1")
	other := admin.EvidenceName{Experiment: s.experiment("p", "f"), UID: "uid-2"}
	s.put(admin.Put{Key: other.Experiment, Value: newExperiment(other.Experiment, other.UID)})
	s.checkNames()
	s.publish("n", published(name, "t1", 1, "one"), published(other, "t2", 1, "two"), published(name, "t3", 1, "three"))
	s.checkNames(name, other)
	read := s.evidence(name)
	if err := s.compact(name, read, "sum", read.Tallies[0]); err != nil {
		s.Fatal(err)
	}
	read = s.evidence(name)
	for range 2 {
		if err := s.DropEvidence(s.Context(), name); err != nil {
			s.Fatal(err)
		}
	}
	if err := s.compact(name, read, "sum", read.Tallies[0]); !errors.Is(err, admin.ErrChanged) {
		s.Errorf("compacting what was dropped: %v", err)
	}
	s.checkEvidence(name, admin.Evidence{})
	s.checkNames(other)
	s.checkEvidence(other, admin.Evidence{Tallies: []admin.TallyRecord{s.tally("n", "t2", 1, "two")}})
	s.refused(s.publish("n", published(name, "t3", 2, "three more")))
	s.checkNames(name, other)
}

// checkNames compares the experiments of which there is evidence.
func (s *subject) checkNames(want ...admin.EvidenceName) {
	s.Helper()
	got, err := s.EvidenceNames(s.Context(), s.project)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		s.Errorf("there is evidence of (-want +got): %s", diff)
	}
}

// testEvidenceApart publishes, and looks at everything else: evidence is no resource, moves
// no head and wakes no follower, for it is published all the time.
func testEvidenceApart(s *subject) {
	name := s.begin("uid-1")
	s.change([]string{"p"})
	head, listed := s.beat(s.node("n")), s.names(admin.Query{Collection: s.experiments("p")})
	s.publish("n", published(name, "t1", 1, "one"))
	read := s.evidence(name)
	if err := s.compact(name, read, "sum", read.Tallies...); err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(head, s.beat(s.node("n"))); diff != "" {
		s.Errorf("the head: %s", diff)
	}
	if diff := cmp.Diff(listed, s.names(admin.Query{Collection: s.experiments("p")})); diff != "" {
		s.Errorf("the experiments: %s", diff)
	}
	// The experiment is changed, which is another record: its evidence stays.
	s.put(admin.Put{Key: name.Experiment, Value: newExperiment(name.Experiment, "uid-1"), Etag: "new"})
	s.checkEvidence(name, admin.Evidence{Compacted: []byte("sum"), Version: s.evidence(name).Version})
}

// testOneCompaction has many servers compact the same tallies, each with a sum of its own, in
// each of ten rounds: one wins, and its sum is what is compacted.
func testOneCompaction(s *subject) {
	name := s.begin("uid-1")
	for round := range 10 {
		s.publish("n", published(name, fmt.Sprintf("t%d", round), 1, "x"))
		read := s.evidence(name)
		var winners atomic.Int64
		var winner atomic.Value
		together(16, func(i int) {
			sum := fmt.Sprintf("%d by %d", round, i)
			switch err := s.compact(name, read, sum, read.Tallies...); {
			case err == nil:
				winners.Add(1)
				winner.Store(sum)
			case !errors.Is(err, admin.ErrChanged):
				s.Errorf("compacting: %v", err)
			}
		})
		got := s.evidence(name)
		if winners.Load() != 1 || string(got.Compacted) != winner.Load() || len(got.Tallies) != 0 {
			s.Fatalf("%d won, the last %v, and there is %+v", winners.Load(), winner.Load(), got)
		}
	}
}

// testNeverLostNeverTwice has nodes count and publish while servers compact whatever they
// see, at any moment. A node whose tally was compacted begins another one with what it has
// counted since. Anyone who reads meanwhile sees no more than was counted, and never less than
// was acknowledged before; in the end each count is there once.
func testNeverLostNeverTwice(s *subject) {
	const nodes, counts = 4, 150
	name := s.begin("uid-1")
	var acknowledged, counted atomic.Int64
	var counting, compacting sync.WaitGroup
	done := make(chan struct{})
	for i := range nodes {
		counting.Go(func() { s.count(name, fmt.Sprint(i), counts, &counted, &acknowledged) })
	}
	for range 3 {
		compacting.Go(func() {
			for over := false; !over; {
				select {
				case <-done:
					over = true
				default:
				}
				least := acknowledged.Load()
				read := s.evidence(name)
				if got := total(read); got < least || got > counted.Load() {
					s.Errorf("%d are there; acknowledged were %d, counted %d", got, least, counted.Load())
				}
				if err := s.compact(name, read, fmt.Sprint(total(read)), read.Tallies...); err != nil && !errors.Is(err, admin.ErrChanged) {
					s.Errorf("compacting: %v", err)
				}
			}
		})
	}
	counting.Wait()
	close(done)
	compacting.Wait()
	if got := total(s.evidence(name)); got != nodes*counts {
		s.Errorf("%d are there, counted were %d", got, nodes*counts)
	}
}

// count counts to n and publishes each number.
func (s *subject) count(name admin.EvidenceName, node string, n int64, counted, acknowledged *atomic.Int64) {
	tally, base, serial := 0, int64(0), int64(0)
	for i := int64(1); i <= n; i++ {
		counted.Add(1)
		for stored := false; !stored; {
			serial++
			out, err := s.Publish(s.Context(), s.node(node).Name, []authz.PublishedEvidence{
				published(name, fmt.Sprintf("%s-%d", node, tally), serial, fmt.Sprint(i-base)),
			})
			if err != nil {
				s.Errorf("publishing: %v", err)
				return
			}
			if stored = len(out.Refused) == 0; !stored {
				tally, base, serial = tally+1, i-1, 0
			}
		}
		acknowledged.Add(1)
	}
}

// total is the sum of numbers that are evidence.
func total(e admin.Evidence) (sum int64) {
	sum, _ = strconv.ParseInt(string(e.Compacted), 10, 64)
	for _, t := range e.Tallies {
		n, _ := strconv.ParseInt(strings.TrimSpace(string(t.Value)), 10, 64)
		sum += n
	}
	return sum
}
