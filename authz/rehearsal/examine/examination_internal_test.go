package examine

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/cmd/testkit"
	"understudy/rego"
	"understudy/rego/change"
)

// know has it found out in what the policies differ: the first request asks.
func (e *examined) know(t testing.TB) {
	t.Helper()
	e.send(t, map[string]any{"x": "nothing"})
	if e.pair.Progress().Items == nil {
		t.Fatal("it is not known in what the policies differ")
	}
}

// known is a pair of which it is known in what they differ.
func known(t testing.TB, live, candidate *adminpb.Policy) *examined {
	t.Helper()
	e := examining(t, supervisortest.New(t), live, candidate)
	e.know(t)
	return e
}

// shown is how many requests have shown the literal and the rule in which the two policies of the fixture differ.
func (e *examined) shown() [2]int32 {
	var out [2]int32
	copy(out[:], e.pair.Progress().Items.GetShown())
	return out
}

// TestRequestsShowItems has traffic show a part of the change.
func TestRequestsShowItems(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	if got := e.shown(); got != [2]int32{} {
		t.Errorf("got %v, want that nothing was shown", got)
	}
	e.send(t, map[string]any{"x": "a", "method": "GET"})
	if got := e.shown(); got != [2]int32{1, 0} {
		t.Errorf("got %v, want that the literal was shown, which turns the request away", got)
	}
	e.send(t, map[string]any{"x": "b", "method": "GET"}, map[string]any{"x": "root", "method": "DELETE"}, map[string]any{"x": "eve", "method": "DELETE"})
	if got := e.shown(); got != [2]int32{2, 1} {
		t.Errorf("got %v, want that two requests have shown the literal, and one the rule", got)
	}
	if e.pair.over.Load() {
		t.Error("no item was shown often enough, and nothing is examined any more")
	}
	for i := range change.Enough {
		e.send(t, map[string]any{"x": "b", "method": "GET", "n": i}, map[string]any{"x": "root", "method": "DELETE", "n": i})
	}
	if got := e.shown(); got != [2]int32{change.Enough, change.Enough} || !e.pair.over.Load() {
		t.Errorf("got %v, over is %v; want that all was shown often enough, and an end", got, e.pair.over.Load())
	}
}

// TestOneOfManyEqualRequestsIsExamined counts them.
func TestOneOfManyEqualRequestsIsExamined(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	for range 3 {
		e.send(t, map[string]any{"x": "a", "method": "PUT"}, map[string]any{"x": "c", "method": "PUT"})
	}
	if n := len(e.pair.examined); n != 3 { // with that of know
		t.Errorf("%d distinct requests were examined, want 3", n)
	}
}

// TestANewPairBeginsAnew has another live policy next to the same candidate.
func TestANewPairBeginsAnew(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	e.send(t, map[string]any{"x": "a", "method": "GET"})
	e.pair = &Pair{}
	if e.pair.Progress().Items != nil {
		t.Error("a new pair knows something already")
	}
	e.know(t)
	e.send(t, map[string]any{"x": "a", "method": "GET"})
	if got := e.shown(); got != [2]int32{1, 0} {
		t.Errorf("got %v; want the request to be examined again, whatever is cached", got)
	}
}

// TestEqualPoliciesHaveNothingToShow asks once, and never again.
func TestEqualPoliciesHaveNothingToShow(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsLive)
	if got := e.pair.Progress(); len(got.Items.GetShown()) > 0 || !e.pair.over.Load() {
		t.Errorf("got %+v; want no items, and an end", got)
	}
}

// TestWhatIsNotEvaluatedIsNotExamined has requests that neither policy decides, and an experiment that ended the
// process once.
func TestWhatIsNotEvaluatedIsNotExamined(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	s := e.subject(t, rehearsaltest.Request(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0)))
	s.Request.Operation = authz.OperationOnEnd
	e.Examine(*s, e.pair, Group{})
	e.Wait()
	e.candidate.examined(&supervisor.CrashError{})
	e.send(t, map[string]any{"x": "a", "method": "GET"})
	if got := e.shown(); got != [2]int32{} {
		t.Errorf("got %v; want nothing to be examined", got)
	}
	if got := e.pair.Progress(); got.Pending != 0 || got.Unexamined != 1 {
		t.Errorf("%d are pending and %d unexamined, want 0 and 1", got.Pending, got.Unexamined)
	}
}

// failing is a request of which the document cannot be made the first times.
func failing(document map[string]any, times int) *authz.Request {
	r := rehearsaltest.Request(document, time.Unix(1_700_000_000, 0))
	source := r.Source
	var mu sync.Mutex
	r.Source = func(reading *authz.ReadBudget) (rego.Input, error) {
		mu.Lock()
		defer mu.Unlock()
		if times--; times >= 0 && reading != nil {
			return rego.Input{}, errors.New("not now")
		}
		return source(reading)
	}
	return r
}

// TestWhatFailedIsTriedOnceMore, each request.
func TestWhatFailedIsTriedOnceMore(t *testing.T) {
	for times, want := range map[int]int64{1: 0, 2: 1} {
		e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
		e.Examine(*e.subject(t, failing(map[string]any{"x": "a", "method": "GET"}, times)), e.pair, Group{})
		e.Wait()
		got := e.pair.Progress()
		if got.Unexamined != want || got.Pending != 0 || (e.shown() == [2]int32{1, 0}) != (want == 0) {
			t.Errorf("after %d failures: got %+v, want %d unexamined", times, got, want)
		}
	}
}

// behind has requests wait: behind one whose document is not made before it is told.
func (e *examined) behind(t *testing.T) (release func()) {
	t.Helper()
	held, hold := make(chan struct{}), make(chan struct{})
	r := rehearsaltest.Request(map[string]any{"x": "held"}, time.Unix(1_700_000_000, 0))
	s := e.subject(t, r)
	source := r.Source
	var once sync.Once
	r.Source = func(reading *authz.ReadBudget) (rego.Input, error) {
		once.Do(func() { close(held); <-hold })
		return source(reading)
	}
	e.Examine(*s, e.pair, Group{})
	testkit.Closed(t, "the examination to hold", held)
	return func() { close(hold) }
}

// maxWaiting is how many requests may wait in a lane.
const maxWaiting = 256

// TestWhatCannotBeExaminedIsCounted has more requests than may wait, each of them twice.
func TestWhatCannotBeExaminedIsCounted(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	release := e.behind(t)
	for i := range maxWaiting + 3 {
		for range 2 {
			e.Examine(*e.subject(t, rehearsaltest.Request(map[string]any{"x": fmt.Sprint(i)}, time.Unix(1_700_000_000, 0))), e.pair, Group{})
		}
	}
	if got := e.pair.Progress(); got.Pending != maxWaiting+1 || got.Unexamined != 3 {
		t.Errorf("%d are pending and %d unexamined, want %d and 3", got.Pending, got.Unexamined, maxWaiting+1)
	}
	release()
	e.Wait()
	if got := e.pair.Progress(); got.Pending != 0 || got.Unexamined != 3 {
		t.Errorf("%d are pending and %d unexamined, want 0 and 3", got.Pending, got.Unexamined)
	}
}

// TestFirstsOfAGroupAreExamined whatever comes after them, also if an equal request waits already that is none;
// and no more of them than three.
func TestFirstsOfAGroupAreExamined(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	release := e.behind(t)
	put := func(x string, g Group) {
		e.Examine(*e.subject(t, rehearsaltest.Request(map[string]any{"x": x}, time.Unix(1_700_000_000, 0))), e.pair, g)
	}
	put("equal", Group{})
	group := Group{Difference: authz.NewlyDenied, Method: "GET", Path: "/orders/*"}
	for _, x := range []string{"equal", "second", "third", "fourth"} {
		put(x, group)
	}
	for i := range maxWaiting + 10 {
		put(fmt.Sprint("other", i), Group{})
	}
	missed := func(x string) bool {
		key, _ := e.subject(t, rehearsaltest.Request(map[string]any{"x": x}, time.Unix(1_700_000_000, 0))).leaves()
		e.pair.mu.Lock()
		defer e.pair.mu.Unlock()
		return e.pair.examined[key] == lost
	}
	release()
	e.Wait()
	for x, want := range map[string]bool{"equal": false, "second": false, "third": false, "fourth": true, "other0": true, "other200": false} {
		if got := missed(x); got != want {
			t.Errorf("%s was not examined: %v, want %v", x, got, want)
		}
	}
}

// TestExaminationsGoOnAfterOverload has evaluations take longer than they may, one after the other, and
// then a process that has nothing else to do. What is offered from then on is evaluated by itself: no time has
// to pass, and no other request to come.
func TestExaminationsGoOnAfterOverload(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	for i := range 20 {
		e.Examine(*e.subject(t, failing(map[string]any{"x": fmt.Sprint("late", i)}, 100)), e.pair, Group{})
	}
	release := e.behind(t)
	for i := range 2 * maxWaiting {
		e.Examine(*e.subject(t, rehearsaltest.Request(map[string]any{"x": fmt.Sprint(i)}, time.Unix(1_700_000_000, 0))), e.pair, Group{})
	}
	before := e.pair.Progress()
	if before.Pending != maxWaiting+1 || before.Unexamined < maxWaiting {
		t.Errorf("%d are pending and %d unexamined, want %d and at least %d", before.Pending, before.Unexamined, maxWaiting+1, maxWaiting)
	}
	release()
	e.send(t, map[string]any{"x": "b", "method": "GET"})
	if got := e.pair.Progress(); got.Pending != 0 || e.shown()[0] == 0 {
		t.Errorf("got %+v; want nothing to wait, and the literal to be shown", got)
	}
}

// TestTheEndLeavesOutWhatWaits: at shutdown nothing is evaluated any more.
func TestTheEndLeavesOutWhatWaits(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	release := e.behind(t)
	e.Examine(*e.subject(t, rehearsaltest.Request(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0))), e.pair, Group{})
	e.End()
	release()
	e.Wait()
	if got := e.shown(); got != [2]int32{} {
		t.Errorf("got %v; want nothing to be examined", got)
	}
}

// TestACandidateThatIsClosedIsNotExamined: what waits is counted as not examined.
func TestACandidateThatIsClosedIsNotExamined(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	release := e.behind(t)
	e.Examine(*e.subject(t, rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0))), e.pair, Group{})
	e.candidate.Remote.Close()
	release()
	e.Wait()
	e.send(t, map[string]any{"x": "b"})
	if got := e.pair.Progress(); got.Pending != 0 || got.Unexamined != 3 {
		t.Errorf("%d are pending and %d unexamined, want 0 and 3", got.Pending, got.Unexamined)
	}
}

// TestEvidenceIsToldWhenNothingWaits, if it had requests that do.
func TestEvidenceIsToldWhenNothingWaits(t *testing.T) {
	e := known(t, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	told := make(chan struct{}, 1)
	e.pair.Changed = func() {
		if e.pair.Progress().Pending == 0 {
			told <- struct{}{}
		}
	}
	release := e.behind(t)
	e.pair.Progress()
	release()
	testkit.Closed(t, "the examination to be told", told)
}

// TestOneRequestOfAPairOfLeavesIsExamined has requests that differ in what each policy asks and in what none asks.
// A side that has no rules asks nothing; of one whose decisions are not cached it is not known.
func TestOneRequestOfAPairOfLeavesIsExamined(t *testing.T) {
	none := &adminpb.Policy{}
	// No request has such a host: neither is ever all seen.
	path, method := rehearsaltest.Allowing(`{ input.path == "/a"; input.host == "none" }`), rehearsaltest.Allowing(`{ input.method == "GET"; input.host == "none" }`)
	for name, tt := range map[string]struct {
		live, candidate *adminpb.Policy
		uncached        bool
		want            int
	}{
		"both ask":                  {live: path, candidate: method, want: 4},
		"the live one has no rules": {live: none, candidate: method, want: 2},
		"the experiment has none":   {live: path, candidate: none, want: 2},
		"the live one has no cache": {live: path, candidate: method, uncached: true, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := examining(t, supervisortest.New(t), tt.live, tt.candidate)
			if tt.uncached {
				e.live.Policy = cache.NewPolicy(e.live.Policy.Compiled())
			}
			candidate, err := authz.Compile(t.Context(), tt.candidate)
			if err != nil {
				t.Fatal(err)
			}
			there := cache.NewPolicy(candidate)
			if err := there.SetSize(100); err != nil {
				t.Fatal(err)
			}
			for i := range 16 {
				document := map[string]any{"method": []string{"GET", "PUT"}[i%2], "path": []string{"/a", "/b"}[i/2%2], "host": fmt.Sprint(i / 4 % 2)}
				s := e.subject(t, rehearsaltest.Request(document, time.Unix(1_700_000_000, 0)))
				s.Leaf = there.Decide(t.Context(), s.Request, authz.Conditions{}).Leaf()
				e.Examine(*s, e.pair, Group{})
				e.Wait()
			}
			if got := e.pair.Progress(); got.Items == nil || got.Pending != 0 || got.Unexamined != 0 {
				t.Errorf("got %+v; want all to be examined", got)
			}
			if n := len(e.pair.examined); n != tt.want {
				t.Errorf("%d requests are known to be examined, want %d", n, tt.want)
			}
		})
	}
}

// TestRepeatedLeavesShowOtherRows has users of whom both policies learn the same, that they are in a table, and of
// whom each shows a row of its own. Rows that both have are shown by nobody; and who comes again is counted once.
func TestRepeatedLeavesShowOtherRows(t *testing.T) {
	policy := func(users ...any) *adminpb.Policy {
		p := rehearsaltest.Allowing(`input.user in data.users`)
		list, err := structpb.NewList(users)
		if err != nil {
			t.Fatal(err)
		}
		p.Data = &structpb.Struct{Fields: map[string]*structpb.Value{"users": structpb.NewListValue(list)}}
		return p
	}
	e := known(t, policy("ada"), policy("ada", "bob", "eve", "tom"))
	group := Group{Difference: authz.NewlyAllowed, Method: "GET", Path: "/orders/*"}
	for _, user := range []string{"bob", "eve", "eve", "eve"} {
		s := e.subject(t, rehearsaltest.Request(map[string]any{"user": user}, time.Unix(1_700_000_000, 0)))
		s.Leaf = authz.Leaf{1, 1}
		e.Examine(*s, e.pair, group)
		e.Wait()
	}
	if got, want := e.shown(), [2]int32{1, 1}; got != want || e.pair.Progress().Unexamined != 0 {
		t.Errorf("got %v; want %v: bob and eve are shown once", got, want)
	}
}

// TestRepeatsHaveBounds has more requests than are examined when their leaves are known.
func TestRepeatsHaveBounds(t *testing.T) {
	var r repeats
	now := time.Unix(1_700_000_000, 0)
	taken := func(n int, differs bool) (taken int) {
		for range n {
			if r.take(now, differs, true, 0) {
				taken++
			}
		}
		return taken
	}
	if got := taken(repeatsFirst, false); got != repeatsFirst {
		t.Errorf("%d of the first %d that are decided alike are examined", got, repeatsFirst)
	}
	if got := taken(160, false); got != 10 {
		t.Errorf("%d of 160 more that are decided alike are examined, want one in 16", got)
	}
	if got := taken(10_000, false); got != repeatsAtOnce-repeatsKept-repeatsFirst-10 {
		t.Errorf("%d of 10000 that are decided alike are examined", got)
	}
	if got := taken(10_000, true); got != repeatsKept {
		t.Errorf("%d of 10000 that are decided otherwise are examined, want %d", got, repeatsKept)
	}
	now = now.Add(2 * time.Second)
	if got := taken(10_000, true); got != 2*repeatsPerSecond {
		t.Errorf("%d are examined in two seconds, want %d", got, 2*repeatsPerSecond)
	}
	now = now.Add(time.Minute)
	if r.take(now, true, true, repeatsWait) {
		t.Error("a request is examined though as many wait as may")
	}
}
