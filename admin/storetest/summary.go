package storetest

import (
	"bytes"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"understudy/admin"
)

// summaryTests are about Summaries and ListSummaries: the same records as Get and List, in
// the same order and at the same instant, with what Put.Summary says in place of the value.
// A summary never outlives its value: an old one would show what is not there any more.
var summaryTests = []test{
	{"Read", testSummaries},
	{"Replaced", testSummaryReplaced},
	{"Collections", testSummariesOfCollections},
	{"Bytes", testSummaryBytes},
}

// short reads one summary.
func (s *subject) short(key admin.Key) admin.Summary {
	s.Helper()
	found, err := s.Summaries(s.Context(), key)
	if err != nil {
		s.Fatalf("reading the summary of %s: %v", key, err)
	}
	return found[0]
}

// shortList lists summaries.
func (s *subject) shortList(q admin.Query) []admin.Summary {
	s.Helper()
	found, err := s.ListSummaries(s.Context(), q)
	if err != nil {
		s.Fatalf("listing the summaries of %s: %v", q.Collection, err)
	}
	return found
}

// checkSummaries compares what is read of a collection with what is read of it without
// contents. values are the summaries of its records, in their order.
func (s *subject) checkSummaries(q admin.Query, values ...string) {
	s.Helper()
	records := s.list(q)
	if len(records) != len(values) {
		s.Fatalf("%d records are listed, want %d", len(records), len(values))
	}
	var want []admin.Summary
	for i, r := range records {
		r.Value = []byte(values[i])
		want = append(want, admin.Summary(r))
	}
	if diff := cmp.Diff(want, s.shortList(q), cmpopts.EquateEmpty()); diff != "" {
		s.Errorf("%+v: %s", q, diff)
	}
	for _, w := range want {
		if diff := cmp.Diff(w, s.short(w.Key), cmpopts.EquateEmpty()); diff != "" {
			s.Error(diff)
		}
	}
}

// testSummaries reads records with a summary and one without, alone, together, in part, and
// one that is not there.
func testSummaries(s *subject) {
	for _, id := range []string{"a", "b", "c"} {
		p := admin.Put{Key: s.operation(id), Value: []byte("whole " + id), Etag: id, ExpireTime: time.Now().Add(time.Hour).Truncate(time.Second)}
		if id != "b" {
			p.Summary = []byte("short " + id)
		}
		s.put(p)
	}
	all := admin.Collection(s.location + "/operations")
	s.checkSummaries(admin.Query{Collection: all}, "short a", "whole b", "short c")
	s.checkSummaries(admin.Query{Collection: all, Limit: 1}, "short a")
	s.checkSummaries(admin.Query{Collection: all, After: s.operation("a")}, "whole b", "short c")
	s.checkSummaries(admin.Query{Collection: all, ID: "c"}, "short c")
	found, err := s.Summaries(s.Context(), s.operation("c"), s.operation("none"), s.operation("a"), s.operation("c"))
	if err != nil || len(found) != 4 || found[1].Key != "" {
		s.Fatalf("read %+v, %v", found, err)
	}
	for i, want := range map[int]string{0: "short c", 2: "short a", 3: "short c"} {
		if string(found[i].Value) != want {
			s.Errorf("the summary %d is %q, want %q", i, found[i].Value, want)
		}
	}
	if r := s.get(s.operation("a")); string(r.Value) != "whole a" {
		s.Errorf("the value is %q", r.Value)
	}
}

// testSummaryReplaced puts records in the place of others, and where others were.
func testSummaryReplaced(s *subject) {
	a := s.operation("a")
	all := admin.Query{Collection: admin.Collection(s.location + "/operations")}
	s.put(admin.Put{Key: a, Value: []byte("1"), Summary: []byte("short 1")})
	s.put(admin.Put{Key: a, Value: []byte("2"), Summary: []byte("short 2")})
	s.checkSummaries(all, "short 2")
	s.put(admin.Put{Key: a, Value: []byte("3")})
	s.checkSummaries(all, "3")
	s.put(admin.Put{Key: a, Value: []byte("4"), Summary: []byte("short 4")})
	s.put(admin.Delete{Key: a})
	s.checkSummaries(all)
	s.put(admin.Put{Key: a, Value: []byte("5")})
	s.checkSummaries(all, "5")
}

// testSummariesOfCollections expires, trims and deletes records that have summaries.
func testSummariesOfCollections(s *subject) {
	all := admin.Query{Collection: s.experiments("p")}
	for _, id := range []string{"a", "b", "c"} {
		s.put(admin.Put{Key: s.experiment("p", id), Value: experiment(id, active), Summary: []byte("short " + id)})
	}
	s.put(admin.ExpireCollection{Collection: all.Collection, ExpireTime: time.Now().Add(time.Hour)})
	s.checkSummaries(all, "short a", "short b", "short c")
	s.put(admin.ExpireCollection{Collection: all.Collection})
	s.checkSummaries(all, "short a", "short b", "short c")
	s.put(admin.TrimCollection{Collection: all.Collection, Keep: 2})
	s.checkSummaries(all, "short b", "short c")
	s.put(admin.DeleteCollection{Collection: all.Collection})
	s.checkSummaries(all)
	s.put(admin.Put{Key: s.experiment("p", "c")})
	s.checkSummaries(all, "")
}

// testSummaryBytes stores summaries of all bytes, and one that is larger than its value.
func testSummaryBytes(s *subject) {
	a := s.operation("a")
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, summary := range [][]byte{every, bytes.Repeat(every, 1<<10), {0}, []byte("\r\n$-1\r\n")} {
		s.put(admin.Put{Key: a, Value: []byte("value"), Summary: summary, Etag: "e"})
		if got := s.short(a); !bytes.Equal(got.Value, summary) || got.Etag != "e" {
			s.Errorf("a summary of %d bytes is read as one of %d, with the etag %q", len(summary), len(got.Value), got.Etag)
		}
		if r := s.get(a); string(r.Value) != "value" {
			s.Errorf("the value is %q", r.Value)
		}
	}
}
