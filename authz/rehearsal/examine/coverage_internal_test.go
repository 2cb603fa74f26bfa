package examine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/rego"
)

// know has it found out what the change is: the first request asks.
func (e *examined) know(t testing.TB) {
	t.Helper()
	e.send(t, map[string]any{"x": "nothing"})
	if !e.pair.Coverage().Known {
		t.Fatal("it is not known what the change is")
	}
}

// covered is a pair of which it is known what the change is.
func covered(t testing.TB, live, candidate *adminpb.Policy) *examined {
	t.Helper()
	e := examining(t, supervisortest.New(t), live, candidate)
	e.know(t)
	return e
}

// report is the coverage as text.
func (e *examined) report() (out []string) {
	for _, rule := range e.pair.Coverage().Rules {
		out = append(out, fmt.Sprintf("%s %s:%d %s true=%v false=%v", rule.Side, rule.File, rule.Line, rule.Name, rule.SeenTrue, rule.SeenFalse))
	}
	return out
}

// TestTheChangeIsCovered has traffic exercise a part of the change.
func TestTheChangeIsCovered(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	never := []string{
		"live a.rego:5 data.envoy.authz.allow true=false false=false",
		"candidate a.rego:5 data.envoy.authz.allow true=false false=false",
		"candidate a.rego:10 data.envoy.authz.allow true=false false=false",
	}
	if got := e.report(); !slices.Equal(got, never) {
		t.Errorf("got %q, want %q", got, never)
	}
	e.send(t, map[string]any{"x": "a", "method": "GET"})
	want := []string{
		"live a.rego:5 data.envoy.authz.allow true=true false=false",
		"candidate a.rego:5 data.envoy.authz.allow true=false false=true",
		"candidate a.rego:10 data.envoy.authz.allow true=false false=false",
	}
	if got := e.report(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	e.send(t, map[string]any{"x": "b", "method": "GET"}, map[string]any{"x": "root", "method": "DELETE"}, map[string]any{"x": "eve", "method": "DELETE"})
	for _, rule := range e.pair.Coverage().Rules {
		if !rule.SeenTrue || !rule.SeenFalse {
			t.Errorf("%+v; want all to be seen", rule)
		}
	}
	if !e.pair.over.Load() {
		t.Error("there is nothing more to learn, and requests are evaluated all the same")
	}
}

// TestOneOfManyEqualRequestsIsCovered counts those that are evaluated.
func TestOneOfManyEqualRequestsIsCovered(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	for range 3 {
		e.send(t, map[string]any{"x": "a", "method": "PUT"}, map[string]any{"x": "c", "method": "PUT"})
	}
	if n := len(e.pair.covered); n != 3 { // with that of know
		t.Errorf("%d distinct requests were covered, want 3", n)
	}
}

// TestANewPairBeginsAnew has another live policy beside the same candidate.
func TestANewPairBeginsAnew(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	e.send(t, map[string]any{"x": "a", "method": "GET"})
	e.pair = &Pair{}
	if e.pair.Coverage().Known {
		t.Error("a new pair knows something already")
	}
	e.know(t)
	e.send(t, map[string]any{"x": "a", "method": "GET"})
	if got := e.report()[1]; got != "candidate a.rego:5 data.envoy.authz.allow true=false false=true" {
		t.Errorf("got %q; want the request to be covered again, whatever is cached", got)
	}
}

// TestEqualPoliciesHaveNothingToCover asks once, and never again.
func TestEqualPoliciesHaveNothingToCover(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredLive)
	if got := e.pair.Coverage(); len(got.Rules) > 0 || !e.pair.over.Load() {
		t.Errorf("got %+v; want no rules, and an end", got)
	}
}

// TestWhatIsNotEvaluatedIsNotCovered has requests that neither policy decides, and an experiment that ended the
// process once.
func TestWhatIsNotEvaluatedIsNotCovered(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	s := e.subject(t, rehearsaltest.Request(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0)))
	s.Request.Operation = authz.OperationOnEnd
	e.Cover(*s, e.pair, Group{})
	e.Wait()
	e.candidate.examined(&supervisor.Guilt{})
	e.send(t, map[string]any{"x": "a", "method": "GET"})
	if got := e.report()[0]; got != "live a.rego:5 data.envoy.authz.allow true=false false=false" {
		t.Errorf("got %q; want nothing to be covered", got)
	}
	if got := e.pair.Coverage(); got.Pending != 0 || got.Unexamined != 1 {
		t.Errorf("%d are pending and %d unexamined, want 0 and 1", got.Pending, got.Unexamined)
	}
}

// failing is a request of which the document cannot be made the first times.
func failing(document map[string]any, times int) *authz.Request {
	r := rehearsaltest.Request(document, time.Unix(1_700_000_000, 0))
	source := r.Source
	var mu sync.Mutex
	r.Source = func(reading *authz.Reading) (rego.Input, error) {
		mu.Lock()
		defer mu.Unlock()
		if times--; times >= 0 && reading != nil {
			return rego.Input{}, errors.New("not now")
		}
		return source(reading)
	}
	return r
}

// TestWhatFailedToBeCoveredIsTriedOnceMore for each request, whichever side failed.
func TestWhatFailedToBeCoveredIsTriedOnceMore(t *testing.T) {
	for times, want := range map[int]int64{1: 0, 2: 1} {
		e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
		e.Cover(*e.subject(t, failing(map[string]any{"x": "a", "method": "GET"}, times)), e.pair, Group{})
		e.Wait()
		got := e.pair.Coverage()
		if got.Unexamined != want || got.Pending != 0 || got.Rules[0].SeenTrue != (want == 0) {
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
	r.Source = func(reading *authz.Reading) (rego.Input, error) {
		once.Do(func() { close(held); <-hold })
		return source(reading)
	}
	e.Cover(*s, e.pair, Group{})
	<-held
	return func() { close(hold) }
}

// maxWaiting is how many requests may wait in a lane.
const maxWaiting = 256

// TestWhatCannotBeExaminedIsCounted has more requests than may wait, each of them twice.
func TestWhatCannotBeExaminedIsCounted(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	release := e.behind(t)
	for i := range maxWaiting + 3 {
		for range 2 {
			e.Cover(*e.subject(t, rehearsaltest.Request(map[string]any{"x": fmt.Sprint(i)}, time.Unix(1_700_000_000, 0))), e.pair, Group{})
		}
	}
	if got := e.pair.Coverage(); got.Pending != maxWaiting+1 || got.Unexamined != 3 {
		t.Errorf("%d are pending and %d unexamined, want %d and 3", got.Pending, got.Unexamined, maxWaiting+1)
	}
	release()
	e.Wait()
	if got := e.pair.Coverage(); got.Pending != 0 || got.Unexamined != 3 {
		t.Errorf("%d are pending and %d unexamined, want 0 and 3", got.Pending, got.Unexamined)
	}
}

// TestFirstsOfAGroupAreExamined whatever comes after them, also if an equal request waits already that is none;
// and no more of them than three.
func TestFirstsOfAGroupAreExamined(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	release := e.behind(t)
	put := func(x string, g Group) {
		e.Cover(*e.subject(t, rehearsaltest.Request(map[string]any{"x": x}, time.Unix(1_700_000_000, 0))), e.pair, g)
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
		return e.pair.covered[key] == lost
	}
	release()
	e.Wait()
	for x, want := range map[string]bool{"equal": false, "second": false, "third": false, "fourth": true, "other0": true, "other200": false} {
		if got := missed(x); got != want {
			t.Errorf("%s was not examined: %v, want %v", x, got, want)
		}
	}
}

// TestCoverageGoesOnAfterOverload has evaluations of coverage take longer than they may, one after the other, and
// then a process that has nothing else to do. What is offered from then on is evaluated by itself: no time has
// to pass, and no other request to come.
func TestCoverageGoesOnAfterOverload(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	for i := range 20 {
		e.Cover(*e.subject(t, failing(map[string]any{"x": fmt.Sprint("late", i)}, 100)), e.pair, Group{})
	}
	release := e.behind(t)
	for i := range 2 * maxWaiting {
		e.Cover(*e.subject(t, rehearsaltest.Request(map[string]any{"x": fmt.Sprint(i)}, time.Unix(1_700_000_000, 0))), e.pair, Group{})
	}
	before := e.pair.Coverage()
	if before.Pending != maxWaiting+1 || before.Unexamined < maxWaiting {
		t.Errorf("%d are pending and %d unexamined, want %d and at least %d", before.Pending, before.Unexamined, maxWaiting+1, maxWaiting)
	}
	release()
	e.send(t, map[string]any{"x": "b", "method": "GET"})
	if got := e.pair.Coverage(); got.Pending != 0 || !got.Rules[1].SeenTrue {
		t.Errorf("got %+v; want nothing to wait, and the rule to have been true", got)
	}
}

// TestTheEndLeavesOutWhatWaits: at shutdown nothing is evaluated any more.
func TestTheEndLeavesOutWhatWaits(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	release := e.behind(t)
	e.Cover(*e.subject(t, rehearsaltest.Request(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0))), e.pair, Group{})
	e.End()
	release()
	e.Wait()
	if got := e.report()[0]; !strings.HasSuffix(got, "true=false false=false") {
		t.Errorf("got %q; want nothing to be covered", got)
	}
}

// TestACandidateThatIsClosedIsNotCovered: what waits is counted as not examined.
func TestACandidateThatIsClosedIsNotCovered(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	release := e.behind(t)
	e.Cover(*e.subject(t, rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0))), e.pair, Group{})
	e.candidate.Remote.Close()
	release()
	e.Wait()
	e.send(t, map[string]any{"x": "b"})
	if got := e.pair.Coverage(); got.Pending != 0 || got.Unexamined != 3 {
		t.Errorf("%d are pending and %d unexamined, want 0 and 3", got.Pending, got.Unexamined)
	}
}

// TestEvidenceIsToldWhenNothingWaits, if it had requests that do.
func TestEvidenceIsToldWhenNothingWaits(t *testing.T) {
	e := covered(t, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	told := make(chan struct{}, 1)
	e.pair.Changed = func() {
		if e.pair.Coverage().Pending == 0 {
			told <- struct{}{}
		}
	}
	release := e.behind(t)
	e.pair.Coverage()
	release()
	<-told
}

// TestOneRequestOfAPairOfLeavesIsCovered has requests that differ in what each policy asks and in what none asks.
// A side that has no rules asks nothing; of one whose decisions are not cached it is not known.
func TestOneRequestOfAPairOfLeavesIsCovered(t *testing.T) {
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
				e.Cover(*s, e.pair, Group{})
				e.Wait()
			}
			if got := e.pair.Coverage(); !got.Known || got.Pending != 0 || got.Unexamined != 0 {
				t.Errorf("got %+v; want all to be examined", got)
			}
			if n := len(e.pair.covered); n != tt.want {
				t.Errorf("%d requests are known to be covered, want %d", n, tt.want)
			}
		})
	}
}
