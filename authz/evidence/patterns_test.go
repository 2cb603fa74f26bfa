package evidence_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
)

// TestSegmentsThatVaryAreFolded says of single segments whether they are words.
func TestSegmentsThatVaryAreFolded(t *testing.T) {
	for segment, want := range map[string]string{
		"17": "*", "2026-11-22": "*", "127.0.0.1": "*", "550e8400-e29b-41d4-a716-446655440000": "*", "deadbee1": "*", "a7f3kq": "*",
		"order-20260012": "*", "a.b@example.com": "*", "caf%C3%A9": "*", "café": "*", "x;jsessionid=1": "*", "*": "*", "**": "*",
		strings.Repeat("a", 33): "*", "0123456789abcdef": "*", "abcdefabcdefabcd": "*", "17:cancel": "*:cancel", "1:2": "*",
		"orders": "orders", "v1": "v1", "v2beta1": "v2beta1", "v1.2": "v1.2", "k8s": "k8s", "oauth2": "oauth2", "s3": "s3",
		"facade": "facade", "web:commit": "web:commit", "get_user-by.name": "get_user-by.name", "": "", "pkg.Service": "pkg.Service",
		"line\nbreak": "*", "~me": "~me",
	} {
		if got := evidence.NewPatterns().Of("GET", "/a/"+segment).Path(); got != "/a/"+want {
			t.Errorf("%q is folded to %q, want %q", segment, got, "/a/"+want)
		}
	}
	if got := evidence.NewPatterns().Of("check-create", ""); got.Path() != "" || got.Method() != "check-create" {
		t.Errorf("a reservation is %q %q, want its call and no path", got.Method(), got.Path())
	}
	if got := evidence.NewPatterns().Of("OPTIONS", "*").Path(); got != "*" {
		t.Errorf("a path without a slash is %q, want *", got)
	}
}

// TestManyPathsOfAPlaceAreOne has identifiers that look like words, one by one.
func TestManyPathsOfAPlaceAreOne(t *testing.T) {
	for name, id := range map[string]func(int) string{
		"numbers": func(i int) string { return fmt.Sprint(i) },
		"short":   func(i int) string { return fmt.Sprintf("o-%d", i) },
		"random":  func(i int) string { return fmt.Sprintf("a%df3kq", i) },
		"words":   func(i int) string { return "item" + strings.Repeat("x", i) },
	} {
		t.Run(name, func(t *testing.T) {
			patterns := evidence.NewPatterns()
			for i := range 25 {
				patterns.Of("GET", "/health/orders/"+id(i))
				patterns.Of("GET", "/health/orders/"+id(i)+"/lines/x")
			}
			if got := patterns.Of("GET", "/health/orders/"+id(0)).Path(); got != "/health/orders/*" {
				t.Errorf("the first is %q by now, want /health/orders/*", got)
			}
			for i := range 25 {
				if got := patterns.Of("GET", "/health/orders/"+id(i)+"/lines/x").Path(); got != "/health/orders/*/lines/x" {
					t.Errorf("what is below is %q, want /health/orders/*/lines/x", got)
				}
			}
			if got := patterns.Of("GET", "/health").Path(); got != "/health" {
				t.Errorf("the place above is %q, want /health", got)
			}
		})
	}
}

// TestCountsOfFoldedPathsAreAddedUp counts 25 paths of which no one looks like an identifier.
func TestCountsOfFoldedPathsAreAddedUp(t *testing.T) {
	tally := newTally()
	for i := range 25 {
		count(tally, "live", request{method: "GET", path: fmt.Sprintf("/health/orders/o-%d", i), live: allowed, experiment: denied})
		if i == 10 {
			tally.Snapshot(begun) // part of it is in the sum already
		}
	}
	got := tally.Snapshot(begun)
	checkSums(t, got)
	p := got.GetPairs()[0]
	if len(p.GetGroups()) != 1 || p.GetGroups()[0].GetPattern() != "/health/orders/*" || p.GetGroups()[0].GetCount() != 25 {
		t.Errorf("got groups %v, want 25 requests on /health/orders/*", p.GetGroups())
	}
	if len(p.GetEndpoints()) != 1 || p.GetEndpoints()[0].GetCount() != 25 {
		t.Errorf("got endpoints %v, want one of 25 requests", p.GetEndpoints())
	}
}

// hostilePath is one that nobody could foresee.
func hostilePath(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(20) {
		b.WriteByte('/')
		for range r.IntN(6) {
			b.WriteByte(byte('a' + r.IntN(26)))
		}
	}
	return b.String()
}

// TestPatternsAreBounded has paths, methods and depths of all kinds, from many goroutines.
func TestPatternsAreBounded(t *testing.T) {
	patterns := evidence.NewPatterns()
	var asking sync.WaitGroup
	for seed := range uint64(4) {
		asking.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for i := range 20_000 {
				p := patterns.Of(evidence.Method(fmt.Sprintf("M%c%c", 'A'+r.IntN(26), 'A'+r.IntN(26))), hostilePath(r))
				if p.Path() == "" && p.Method() == "" {
					t.Errorf("request %d has no pattern", i)
				}
			}
		})
	}
	asking.Wait()
	nodes, made := patterns.Size()
	if nodes > 4*1024 || made > 2048+4*1024 || nodes < 0 || made < 0 {
		t.Errorf("there are %d nodes and %d patterns, want a few thousand at most", nodes, made)
	}
}

// TestAScannerTakesNoNames: paths that nobody has are folded, and those with traffic keep their
// names, whatever came first.
func TestAScannerTakesNoNames(t *testing.T) {
	word := func(kind byte, i int) string {
		return "/" + string([]byte{kind, 'z', byte('g' + i/400%20), byte('g' + i/20%20), byte('g' + i%20)})
	}
	patterns := evidence.NewPatterns()
	for i := range 100 {
		patterns.Of("GET", word('p', i)) // a scanner that is there before anybody else
	}
	for i := range 5_000 {
		patterns.Of("GET", word('s', i%40)+"/items/17")
		patterns.Of("GET", word('q', i)+"/admin.php")
	}
	for i := range 40 {
		if got, want := patterns.Of("GET", word('s', i)+"/items/18").Path(), word('s', i)+"/items/*"; got != want {
			t.Errorf("a path with traffic is %q, want %q", got, want)
		}
	}
	if got := patterns.Of("GET", word('r', 1)+"/admin.php").Path(); got != "/*/admin.php" {
		t.Errorf("in the end a new path is %q, want /*/admin.php", got)
	}
	if nodes, made := patterns.Size(); nodes > 900 || made > 700 {
		t.Errorf("there are %d nodes and %d patterns, want some hundreds", nodes, made)
	}
}

// TestFirstSegmentsOfASum: what is beyond 64 of them is folded by the number of requests, the
// same in each order, and no request is lost.
func TestFirstSegmentsOfASum(t *testing.T) {
	var parts []*evidencepb.Evidence
	for node := range 2 {
		tally := newTally()
		for i := range 50 {
			for j := range 1 + i {
				path, at := fmt.Sprintf("/%c%c/items", 'g'+2*(i%5)+node, 'g'+i/5), time.Duration(100*i+2*j+node)*time.Second
				count(tally, "live", request{method: "GET", path: path, live: allowed, experiment: denied, at: at})
			}
		}
		parts = append(parts, tally.Snapshot(begun))
	}
	one, other := &evidencepb.Evidence{}, &evidencepb.Evidence{}
	merge(one, parts[0], parts[1])
	merge(other, parts[1], parts[0])
	if diff := cmp.Diff(one.GetPairs(), other.GetPairs(), protocmp.Transform()); diff != "" {
		t.Errorf("the order matters: %s", diff)
	}
	checkSums(t, one)
	counts := make(map[string]int64)
	var sum int64
	for _, e := range one.GetPairs()[0].GetEndpoints() {
		counts[e.GetPattern()] = e.GetCount()
		sum += e.GetCount()
	}
	// Those that are left have at least 19 requests each: 36 of 100 are folded.
	if len(counts) != 65 || sum != 2*50*51/2 || counts["/*/items"] != 2*18*19/2 || counts["/gg/items"] != 0 || counts["/pp/items"] != 50 {
		t.Errorf("got %d patterns of %d requests, /*/items with %d: %v", len(counts), sum, counts["/*/items"], counts)
	}
}

// covers reports whether a path pattern stands for a path.
func covers(pattern, path string) bool {
	if path == "" || path[0] != '/' {
		return pattern == path || path != "" && pattern == "*"
	}
	want, segments := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, w := range want {
		switch {
		case w == "**":
			return true
		case i == len(segments):
			return false
		case w == "*" || w == segments[i]:
		case strings.HasPrefix(w, "*:") && strings.HasSuffix(segments[i], w[1:]):
		default:
			return false
		}
	}
	return len(want) == len(segments)
}

// FuzzPatterns: of any paths in any order, each has a pattern that stands for it, and there are no
// more than a bound.
func FuzzPatterns(f *testing.F) {
	for _, paths := range []string{"", "/", "//", "/a/17:x\n/a/18:x", "/**/:", "*", "/:a/b:", "/é/%20", "/a/b\n/a/c\n/a/b"} {
		f.Add("GET", paths, uint64(1))
	}
	f.Fuzz(func(t *testing.T, method, paths string, seed uint64) {
		r, patterns, now := rand.New(rand.NewPCG(seed, 2)), evidence.NewPatterns(), begun
		patterns.SetClock(func() time.Time { return now })
		given := strings.Split(paths, "\n")
		for range 300 {
			path := given[r.IntN(len(given))]
			if r.IntN(3) == 0 {
				path = hostilePath(r)
			}
			got := patterns.Of(evidence.Method(method), path)
			if !covers(got.Path(), path) || got.Method() != method && got.Method() != "*" {
				t.Errorf("%q %q is %q %q", method, path, got.Method(), got.Path())
			}
			now = now.Add(time.Duration(r.IntN(10)) * time.Minute)
		}
		if nodes, made := patterns.Size(); nodes < 0 || made < 0 || nodes > 3*1024 || made > 2*2048 {
			t.Errorf("there are %d nodes and %d patterns", nodes, made)
		}
	})
}

func BenchmarkPattern(b *testing.B) {
	patterns := evidence.NewPatterns()
	for _, path := range []string{"/health/orders/17", "/api/v1/users", "/api/v1/users/a7f3kq/items"} {
		patterns.Of("GET", path)
	}
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			patterns.Of("GET", "/api/v1/users/a7f3kq/items")
		}
	})
	b.Run("unnamed", func(b *testing.B) { // a user name, which is a word without a name
		b.ReportAllocs()
		users := make([]string, 4096)
		for i := range users {
			users[i] = "/users/" + wordOf('u', i) + "/items"
		}
		for i := 0; b.Loop(); i++ {
			patterns.Of("GET", users[i%len(users)])
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		r := rand.New(rand.NewPCG(1, 1))
		paths := make([]string, 4096)
		for i := range paths {
			paths[i] = hostilePath(r)
		}
		for i := 0; b.Loop(); i++ {
			patterns.Of("GET", paths[i%len(paths)])
		}
	})
}

// TestAcceptedPathsKeepTheirNames: however many other paths there are, before and after, in the tree of a node and in a
// sum of several, requests of a group that was accepted are counted by its name.
func TestAcceptedPathsKeepTheirNames(t *testing.T) {
	kept := []string{"/payroll/export", "/orders/*/audit", "/v1/admin/users/list"}
	for _, keep := range []bool{true, false} {
		sum := evidence.NewSum(newTally().Content(), nil)
		for node := range 3 {
			tally := newTally()
			flood := func(times int) {
				for i := range times {
					for _, path := range []string{"/%c%c%c", "/payroll/%c%c%c", "/orders/7/%c%c%c", "/v1/%c%c%c", "/v1/admin/%c%c%c/x"} {
						word := fmt.Sprintf(path, 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26)
						for range 3 {
							count(tally, "live", request{method: "GET", path: word, live: allowed, experiment: denied})
						}
					}
				}
			}
			flood(700)
			if keep {
				tally.Patterns().Keep(kept)
				tally.Keep(kept)
			}
			flood(700)
			for _, path := range []string{"/payroll/export", "/orders/8/audit", "/v1/admin/users/list"} {
				count(tally, "live", request{method: "POST", path: path, live: denied, experiment: allowed})
			}
			flood(700)
			e := tally.Snapshot(begun)
			checkSums(t, e)
			checkSize(t, e, evidence.MaxRecord)
			sum.Add(e)
			if node == 2 {
				e = sum.Evidence()
				checkSums(t, e)
			}
			named := 0
			for _, g := range e.GetPairs()[0].GetGroups() {
				if slices.Contains(kept, g.GetPattern()) && g.GetMethod() == "POST" {
					named++
				}
			}
			if keep != (named == len(kept)) {
				t.Errorf("node %d: %d of the paths have their names; kept: %v", node, named, keep)
			}
		}
	}
}
