package evidence_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/cmd/testkit"
)

// wordOf returns a word that nobody else has.
func wordOf(kind byte, i int) string {
	return string([]byte{kind, 'z', byte('g' + i/400%20), byte('g' + i/20%20), byte('g' + i%20)})
}

// scan is what a stranger asks before anybody else does, all of it by one caller.
type scan func(ask func(method, path string))

// scans are the ways in which strangers took the names and the groups from everybody else.
var scans = map[string]scan{
	"nobody": func(func(string, string)) {},
	"first segments": func(ask func(method, path string)) {
		for i := range 1400 {
			ask("GET", "/"+wordOf('s', i)+"/x")
		}
	},
	"first segments, several times": func(ask func(method, path string)) {
		for range 4 {
			for i := range 256 {
				ask("GET", "/"+wordOf('s', i)+"/x")
			}
		}
	},
	"words below a place": func(ask func(method, path string)) {
		for i := range 15 * 15 {
			ask("GET", "/api/"+wordOf('s', i/15)+"/"+wordOf('t', i%15))
		}
	},
	"groups of the gravest kind": func(ask func(method, path string)) {
		for range 12 {
			for i := range 16 * 16 {
				ask("POST", "/api/"+wordOf('s', i/16)+"/"+wordOf('t', i%16))
			}
		}
	},
	"all places": func(ask func(method, path string)) {
		for i := range 12 * 12 * 12 {
			ask("GET", "/"+wordOf('s', i/144)+"/"+wordOf('t', i/12%12)+"/"+wordOf('u', i%12))
		}
	},
}

// scanned is the evidence of a node that strangers scan before, and while, others ask. GET is
// newly denied, and POST newly allowed.
func scanned(t *testing.T, node int, s scan) *evidencepb.Evidence {
	t.Helper()
	tally := newTally()
	at := time.Duration(0)
	tally.Patterns().SetClock(func() time.Time { return begun.Add(at) })
	ask := func(principal string) func(method, path string) {
		return func(method, path string) {
			at += 10 * time.Millisecond
			r := request{method: method, path: path, principal: principal, live: allowed, experiment: denied, at: at}
			if method == "POST" {
				r.live, r.experiment = denied, allowed
			}
			explained(tally, "live", r, &evidencepb.Cause{File: "a.rego", Line: 7, Text: method})
			if at%(5*time.Second) == 0 {
				checkSums(t, tally.Snapshot(begun))
			}
		}
	}
	stranger := ask("")
	s(stranger)
	for i := range 500 {
		ask(fmt.Sprint("shop", i%7))("GET", "/orders/list")
		if i%100 == 0 {
			ask(fmt.Sprint("clerk", node))("POST", "/payroll/export")
			ask("clerk")("POST", "/payroll/export")
		}
	}
	s(stranger)
	return tally.Snapshot(begun)
}

// TestStrangersHideNothing: whatever strangers ask before, what others ask has its name, with its
// callers, examples and causes, in the record of a node and in a sum; and nothing is lost.
func TestStrangersHideNothing(t *testing.T) {
	for name, s := range scans {
		t.Run(name, func(t *testing.T) {
			var all []*evidencepb.Evidence
			for node := range 3 {
				e := scanned(t, node, s)
				checkSums(t, e)
				checkSize(t, e, evidence.MaxRecord)
				checkNamed(t, e, "/orders/list", 500, 4, 7)
				checkNamed(t, e, "/payroll/export", 10, 4, 2)
				all = append(all, e)
			}
			sum := &evidencepb.Evidence{}
			merge(sum, all...)
			checkSums(t, sum)
			checkNamed(t, sum, "/orders/list", 1500, 12, 7)
			checkNamed(t, sum, "/payroll/export", 30, 12, 4)
		})
	}
}

// checkNamed wants a group with all requests but a few, which were counted before it had its name.
func checkNamed(t *testing.T, e *evidencepb.Evidence, pattern string, requests, before, callers int64) {
	t.Helper()
	g := groupNamed(t, e, pattern)
	if g.GetCount() > requests || g.GetCount() < max(1, requests-before) {
		t.Errorf("%s has %d requests, want %d but for %d", pattern, g.GetCount(), requests, before)
	}
	if n := evidence.Callers(g.GetCallers()); n != callers {
		t.Errorf("%s has %d callers, want %d", pattern, n, callers)
	}
	if len(g.GetExamples()) == 0 || g.GetExamples()[0].GetPath() != pattern || len(g.GetCauses()) != 1 {
		t.Errorf("%s has the examples %v and the causes %v, want one of each at least", pattern, g.GetExamples(), g.GetCauses())
	}
	for _, p := range pairs(e) {
		for _, at := range p.GetEndpoints() {
			if at.GetPattern() != pattern {
				continue
			}
			if at.GetCount() != g.GetCount() {
				t.Errorf("%s has %d requests, %d of them in its group: want all", pattern, at.GetCount(), g.GetCount())
			}
			if late := g.GetCount() < requests; late != (at.GetSince() > begun.UnixMilli()) {
				t.Errorf("%s has %d of %d requests, and is named since %d", pattern, g.GetCount(), requests, at.GetSince())
			}
		}
	}
}

// TestAnyPathsInAnyOrder: whatever paths come, sums are exact, in each order of merging, and
// memory is bounded.
func TestAnyPathsInAnyOrder(t *testing.T) {
	for seed := range uint64(testkit.Cases(6)) {
		r := rand.New(rand.NewPCG(seed, 3))
		var all []*evidencepb.Evidence
		asked := int64(0)
		for range 4 {
			patterns := evidence.NewPatterns()
			tally := evidence.NewTally(evidence.Content{Experiment: experiment, UID: "uid", Etag: "etag"}, nil, patterns)
			for i := range 4000 {
				one := randomRequest(r)
				switch r.IntN(4) {
				case 0:
					one.path = "/" + wordOf('p', r.IntN(50)) + "/" + wordOf('q', int(r.ExpFloat64()*9)) + "/list"
				case 1:
					one.path = "/users/" + wordOf('u', r.IntN(8000))
				case 2:
					one.path = hostilePath(r)
				}
				count(tally, "live", one)
				asked++
				if i%500 == 499 {
					e := tally.Snapshot(begun)
					checkSums(t, e)
					checkSize(t, e, evidence.MaxRecord)
				}
			}
			if nodes, made := patterns.Size(); nodes > 3*1024 || made > 3*2048 || nodes < 0 || made < 0 {
				t.Errorf("seed %d: there are %d nodes and %d patterns", seed, nodes, made)
			}
			all = append(all, tally.Snapshot(begun))
		}
		want := totalsOf(mergeRandomly(r, all))
		if n := requests(want.Counts); n != asked {
			t.Errorf("seed %d: %d requests are counted, want %d", seed, n, asked)
		}
		for range 4 {
			got := mergeRandomly(r, all)
			checkSums(t, got)
			if !proto.Equal(want.Counts, totalsOf(got).Counts) {
				t.Errorf("seed %d: got counts %v, want %v", seed, totalsOf(got).Counts, want.Counts)
			}
		}
	}
}

// named are the last segments of a path that have a name below a place.
func named(patterns *evidence.Patterns, below string, words []string) (out []string) {
	for _, w := range words {
		if patterns.Of("GET", below+"/"+w).Path() == below+"/"+w {
			out = append(out, w)
		}
	}
	return out
}

// TestNamesComeBack: words below a place are `*` while a scanner is most of its traffic, and have
// their names again when they are, though not all that the scanner has made up are forgotten.
func TestNamesComeBack(t *testing.T) {
	patterns, now := evidence.NewPatterns(), begun
	patterns.SetClock(func() time.Time { return now })
	words := []string{"orders", "carts", "search"}
	for i := range 3000 {
		patterns.Of("GET", "/api/"+wordOf('s', i))
	}
	if got := named(patterns, "/api", words); len(got) > 0 {
		t.Errorf("%q have names after one request each, of 3000", got)
	}
	now = now.Add(30 * time.Minute)
	for range 300 {
		for _, w := range words {
			patterns.Of("GET", "/api/"+w)
		}
	}
	if got := named(patterns, "/api", words); len(got) != len(words) {
		t.Errorf("%q have names, want %q", got, words)
	}
}

// TestWordsKeepTheirNamesFromAScanner: a scanner that has less than all their requests takes
// nothing from words that were there before.
func TestWordsKeepTheirNamesFromAScanner(t *testing.T) {
	patterns := evidence.NewPatterns()
	words := []string{"orders", "carts", "search"}
	for i := range 6000 {
		patterns.Of("GET", "/api/"+words[i%3])
		if i%2 == 0 {
			patterns.Of("GET", "/api/"+wordOf('s', i))
		}
	}
	patterns.Of("GET", "/api/payroll")
	if got := named(patterns, "/api", words); len(got) != len(words) {
		t.Errorf("%q have names, want %q", got, words)
	}
}

// TestUserNamesAreOne: thousands of names of users are `*`, also if some users ask more often.
func TestUserNamesAreOne(t *testing.T) {
	for name, user := range map[string]func(r *rand.Rand) int{
		"all alike": func(r *rand.Rand) int { return r.IntN(5000) },
		"few often": func(r *rand.Rand) int { return int(rand.NewZipf(r, 1.05, 20, 5000).Uint64()) },
	} {
		t.Run(name, func(t *testing.T) {
			r, patterns, last := rand.New(rand.NewPCG(1, 9)), evidence.NewPatterns(), make(map[string]bool)
			for i := range 50_000 {
				got := patterns.Of("GET", "/users/"+wordOf('u', user(r))+"/cart").Path()
				if i > 1000 {
					last[got] = true
				}
			}
			if len(last) != 1 || !last["/users/*/cart"] {
				t.Errorf("after 1000 requests there are %d patterns: %v; want /users/*/cart alone", len(last), last)
			}
		})
	}
}

// TestFewNamesChangeInASecond: anyone who sends paths that are all asked for more often than those
// before makes 64 changes a second.
func TestFewNamesChangeInASecond(t *testing.T) {
	patterns, now := evidence.NewPatterns(), begun
	patterns.SetClock(func() time.Time { return now })
	for i := range 256 {
		patterns.Of("GET", "/"+wordOf('p', i))
	}
	fresh := func(kind byte) (named int) {
		for i := range 1000 {
			path := "/" + wordOf(kind, i)
			patterns.Of("GET", path)
			if patterns.Of("GET", path).Path() == path {
				named++
			}
		}
		return named
	}
	for _, kind := range []byte("qrs") {
		if n := fresh(kind); n != 64 {
			t.Errorf("%d names have changed in a second, want 64", n)
		}
		now = now.Add(time.Second)
	}
	if got := patterns.Of("GET", "/"+wordOf('q', 0)).Path(); got != "/"+wordOf('q', 0) {
		t.Errorf("a name that came in the first second is %q", got)
	}
}

// TestStrangersTakeNoLabels: values that are there once take no place from those that are there
// often, and a value that comes late has one.
func TestStrangersTakeNoLabels(t *testing.T) {
	tally := newTally()
	label := func(value string) {
		count(tally, "live", request{path: "/", live: allowed, experiment: denied, labels: []authz.Label{{Name: "user", Value: value}}})
	}
	for i := range 200 {
		label(fmt.Sprint("user-", i%10))
	}
	for i := range 5000 {
		label(fmt.Sprint("stranger-", i))
	}
	for range 5 {
		label("clerk")
	}
	got := make(map[string]*evidencepb.Label_Value)
	l := tally.Snapshot(begun).GetPairs()[0].GetLabels()[0]
	for _, v := range l.GetValues() {
		got[v.GetValue()] = v
	}
	for i := range 10 {
		if v := got[fmt.Sprint("user-", i)]; v.GetCount() != 20 || v.GetError() != 0 {
			t.Errorf("user-%d: got %v, want exactly 20", i, v)
		}
	}
	if v := got["clerk"]; v.GetCount() < 1 || v.GetCount() > 5 || v.GetCount()+v.GetError() < 5 {
		t.Errorf("the clerk: got %v, want at most 5, and 5 with the error", v)
	}
	if l.GetTotal() != 5205 {
		t.Errorf("%d requests have the label, want 5205", l.GetTotal())
	}
}

// TestANameThatATallyTookComesBackLate: a tally has fewer first segments than patterns have, and one
// that it has folded says since when it has its name again.
func TestANameThatATallyTookComesBackLate(t *testing.T) {
	tally := newTally()
	ask := func(word string, n int, at time.Duration) {
		for range n {
			count(tally, "live", request{method: "GET", path: "/" + word, live: allowed, experiment: allowed, at: at})
		}
	}
	for i := range 64 {
		ask(wordOf('p', i), 10, time.Minute)
	}
	ask("orders", 3, time.Minute)
	tally.Snapshot(begun)
	ask("orders", 20, time.Hour)
	got := tally.Snapshot(begun)
	checkSums(t, got)
	for _, e := range got.GetPairs()[0].GetEndpoints() {
		switch late := e.GetSince() == begun.Add(time.Hour).UnixMilli(); {
		case e.GetPattern() == "/orders":
			if e.GetCount() != 20 || !late {
				t.Errorf("/orders has %d requests since %d, want 20 since an hour", e.GetCount(), e.GetSince())
			}
		case e.GetPattern() == "/*":
			if e.GetCount() != 13 {
				t.Errorf("/* has %d requests, want the 3 of /orders and the 10 of another one", e.GetCount())
			}
		case e.GetSince() != 0 || e.GetCount() != 10:
			t.Errorf("%s has %d requests since %d, want all 10", e.GetPattern(), e.GetCount(), e.GetSince())
		}
	}
}
