package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/admin"
	adminpb "understudy/admin/v1"
	"understudy/authz"
)

// contentTests are about what versions of datasets contain. It is too large for a record, so it is
// stored before the Txn that needs it, in chunks that nobody misses if that Txn never comes.
var contentTests = []test{
	{"Kept", testContentKept},
	{"NeverKept", testContentNeverKept},
	{"Incomplete", testContentIncomplete},
	{"GivenBack", testContentGivenBack},
	{"Unchangeable", testContentUnchangeable},
	{"Feed", testDatasetFeed},
	{"NeverHalf", testDatasetsNeverHalf},
}

// dataset is the key of a dataset in the subject's location.
func (s *subject) dataset(id string) admin.Key { return admin.Key(s.location.Dataset(id)) }

// content returns the name of a content of so many chunks, of a dataset d.
func (s *subject) content(uid string, chunks int) authz.Content {
	return authz.Content{Dataset: s.location.Dataset("d"), UID: s.project + "-" + uid, Chunks: chunks}
}

// putContent stores chunks that no two contents have.
func (s *subject) putContent(of authz.Content) {
	s.Helper()
	for i := range of.Chunks {
		if err := s.PutChunk(s.Context(), of, i, chunkOf(of, i)); err != nil {
			s.Fatalf("storing a chunk: %v", err)
		}
	}
}

func chunkOf(of authz.Content, i int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%s %d\n", of.UID, i)), 100)
}

// checkContent compares the chunks of a content with what putContent stored.
func (s *subject) checkContent(of authz.Content) {
	s.Helper()
	for i := range of.Chunks {
		got, err := s.Chunk(s.Context(), of, i)
		if err != nil || !bytes.Equal(got, chunkOf(of, i)) {
			s.Errorf("chunk %d is %.20q, %v", i, got, err)
		}
	}
}

// checkGone checks that no chunk of a content is there, for a reader and for a Txn.
func (s *subject) checkGone(of authz.Content) {
	s.Helper()
	for i := range of.Chunks {
		if _, err := s.Chunk(s.Context(), of, i); !errors.Is(err, authz.ErrNoChunk) {
			s.Errorf("chunk %d: %v instead of ErrNoChunk", i, err)
		}
	}
	s.checkIncomplete(of)
}

// checkIncomplete checks that a Txn which needs a content is not made.
func (s *subject) checkIncomplete(of authz.Content) {
	s.Helper()
	complete := admin.Complete{Content: of}
	_, err := s.Commit(s.Context(), s.txn([]admin.Condition{complete}, admin.Put{Key: s.operation("never")}))
	var failed *admin.ConditionError
	if !errors.As(err, &failed) || failed.Condition != admin.Condition(complete) {
		s.Errorf("%v instead of the condition", err)
	}
	if s.has(s.operation("never")) {
		s.Error("it was made")
	}
}

// keep is a Txn that needs a content and keeps it.
func (s *subject) keep(of authz.Content, until time.Time) {
	s.Helper()
	s.must(s.txn([]admin.Condition{admin.Complete{Content: of}}, admin.ExpireContent{Content: of, ExpireTime: until}))
}

// testContentKept keeps one of two contents: it is there for good, and the other one is gone
// after an hour.
func testContentKept(s *subject) {
	clock := s.withClock()
	kept, other := s.content("kept", 3), s.content("other", 2)
	s.putContent(kept)
	s.putContent(other)
	s.keep(kept, time.Time{})
	clock.move(authz.ContentKept - time.Millisecond)
	s.checkContent(other)
	clock.move(time.Millisecond)
	s.checkContent(kept)
	s.checkGone(other)
	s.keep(kept, time.Time{})
}

// testContentNeverKept lets an upload end: what it had stored by then goes an hour after its last
// chunk.
func testContentNeverKept(s *subject) {
	clock := s.withClock()
	of := s.content("left", 2)
	for i := range of.Chunks {
		if err := s.PutChunk(s.Context(), of, i, chunkOf(of, i)); err != nil {
			s.Fatal(err)
		}
		clock.move(authz.ContentKept / 2)
	}
	s.checkContent(of)
	clock.move(authz.ContentKept / 2)
	s.checkGone(of)
	// What has expired cannot be kept by a Txn that does not ask for it, either.
	s.put(admin.ExpireContent{Content: of})
	s.checkGone(of)
}

// testContentIncomplete leaves a chunk out, and a content.
func testContentIncomplete(s *subject) {
	of := s.content("gap", 3)
	for _, i := range []int{0, 2} {
		if err := s.PutChunk(s.Context(), of, i, chunkOf(of, i)); err != nil {
			s.Fatal(err)
		}
	}
	s.checkIncomplete(of)
	s.checkGone(s.content("never", 1))
}

// testContentGivenBack gives a content its expiry back, as for a version that is trimmed.
func testContentGivenBack(s *subject) {
	clock := s.withClock()
	of := s.content("old", 2)
	s.putContent(of)
	s.keep(of, time.Time{})
	s.put(admin.ExpireContent{Content: of, ExpireTime: clock.in(time.Minute)})
	clock.move(time.Minute - time.Millisecond)
	s.checkContent(of)
	clock.move(time.Millisecond)
	s.checkGone(of)
}

// testContentUnchangeable repeats a chunk after the Txn that kept it, as a call does whose first
// attempt was slow: the content does not begin to expire, and does not change.
func testContentUnchangeable(s *subject) {
	clock := s.withClock()
	of := s.content("fixed", 2)
	s.putContent(of)
	s.keep(of, time.Time{})
	if err := s.PutChunk(s.Context(), of, 0, []byte("other")); err != nil {
		s.Fatal(err)
	}
	clock.move(2 * authz.ContentKept)
	s.checkContent(of)
}

// datasetRecord is the write of a dataset whose display name is text.
func (s *subject) datasetRecord(id, text string) admin.Put {
	value, err := proto.Marshal(&adminpb.Dataset{Name: string(s.dataset(id)), DisplayName: text})
	if err != nil {
		s.Fatal(err)
	}
	return admin.Put{Key: s.dataset(id), Value: value}
}

// changeDatasets makes writes with an event that names the datasets with these IDs.
func (s *subject) changeDatasets(ids []string, writes ...admin.Write) {
	s.Helper()
	txn := s.txn(nil, writes...)
	event := admin.Event{Location: s.location}
	for _, id := range ids {
		event.Datasets = append(event.Datasets, s.location.Dataset(id))
	}
	txn.Events = []admin.Event{event}
	s.must(txn)
}

// testDatasetFeed follows datasets: Load has all, Next what changed, with none for what is gone.
func testDatasetFeed(s *subject) {
	s.changeDatasets([]string{"a", "b"}, s.datasetRecord("a", "A"), s.datasetRecord("b", "B"))
	loaded := s.load()
	if a := loaded.Datasets[s.location.Dataset("a")]; len(loaded.Datasets) != 2 || a.Dataset.GetDisplayName() != "A" {
		s.Fatalf("loaded %+v", loaded.Datasets)
	}
	s.changeDatasets([]string{"b"}, s.datasetRecord("b", "B2"))
	next := s.next(loaded.Cursor)
	if b := next.Datasets[s.location.Dataset("b")]; len(next.Datasets) != 1 || b.Dataset.GetDisplayName() != "B2" || len(next.Policies) != 0 {
		s.Errorf("the change is %+v", next)
	}
	s.changeDatasets([]string{"a"}, admin.Delete{Key: s.dataset("a")})
	next = s.next(next.Cursor)
	if a, named := next.Datasets[s.location.Dataset("a")]; !named || a.Dataset != nil || a.Undecodable != nil {
		s.Errorf("the deletion is %+v", next)
	}
	s.changeDatasets([]string{"a"}, admin.Put{Key: s.dataset("a"), Value: []byte("\xff")})
	next = s.next(next.Cursor)
	if a := next.Datasets[s.location.Dataset("a")]; a.Dataset != nil || a.Undecodable == nil {
		s.Errorf("what cannot be read is %+v", next)
	}
}

// testDatasetsNeverHalf changes two datasets and a policy together, many times, while another one
// of them changes alone in between: no follower sees one without the others.
func testDatasetsNeverHalf(s *subject) {
	const changes = 200
	number := func(i int) string { return strconv.Itoa(i) }
	write := func(i int) {
		txn := s.txn(nil, s.datasetRecord("a", number(i)), s.datasetRecord("b", number(i)), admin.Put{Key: s.policy("p"), Value: policy(number(i))})
		txn.Events = s.event("p")
		txn.Events[0].Datasets = []authz.DatasetName{s.location.Dataset("a"), s.location.Dataset("b")}
		s.must(txn)
	}
	write(0)
	seen := s.load()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 1; i <= changes; i++ {
			s.changeDatasets([]string{"c"}, s.datasetRecord("c", number(i)))
			write(i)
		}
	}()
	known := make(map[string]string)
	for cursor := seen.Cursor; known["a"] != number(changes); {
		update := s.next(cursor)
		cursor = update.Cursor
		for name, state := range update.Datasets {
			known[name.ID()] = state.Dataset.GetDisplayName()
		}
		if p, changed := update.Policies[s.location.Policy("p")]; changed {
			known["p"] = p.Policy.GetDisplayName()
		}
		if known["a"] != known["b"] || known["a"] != known["p"] {
			s.Fatalf("at %+v: %v", cursor, known)
		}
	}
	<-ended
}
