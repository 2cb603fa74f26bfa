package sidecar_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
	"understudy/rego"
)

// caching asks a sidecar with requests whose decisions can be cached.
type caching struct {
	*sidecar.Sidecar
	meter
	feed *memoryFeed
}

func newCaching(t *testing.T, live *adminpb.Policy, experiments ...*adminpb.PolicyExperiment) caching {
	t.Helper()
	m, feed := newMeter(), newFeed()
	feed.put(webName, authz.PolicyState{Policy: live, Experiments: experiments})
	s, _ := start(t, feed, func(c *sidecar.Config) { c.Meters = m })
	testkit.Closed(t, "s is ready", s.Ready())
	return caching{s, m, feed}
}

// ask asks about a document at a moment.
func (r caching) ask(t testing.TB, document map[string]any, now time.Time) authz.Decision {
	ask := request("GET", document)
	ask.Time, ask.Parts = now, asked(document).parts
	return r.Check(t.Context(), ask)
}

// lookups returns what is counted for a policy.
func (r caching) lookups(t testing.TB) (hits, misses int64) {
	t.Helper()
	const name = "understudy.decision_cache.lookups"
	return r.count(t, name, label("policy", "web"), label("outcome", "hit")),
		r.count(t, name, label("policy", "web"), label("outcome", "miss"))
}

// asked is what can be asked of a GET request that has no more than a document.
type asked map[string]any

// parts is of [authz.Request].
func (a asked) parts(*authz.ReadBudget) (rego.Request, error) {
	document := map[string]any{"method": "GET"}
	for name, value := range a {
		document[name] = value
	}
	input, err := rego.NewInput(document)
	return rego.RequestOf(input), err
}

// late is a request of which a part takes all the time that a decision has, and is none that was asked for
// before.
type late struct {
	rego.Request
	timeout time.Duration
}

func (l late) At(*rego.Path) (rego.Value, error) {
	time.Sleep(l.timeout)
	return rego.String("PUT"), nil
}

// TestLookingForADecisionTakesOfItsTime: what is left of the time is for the evaluation.
func TestLookingForADecisionTakesOfItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 50 * time.Millisecond
		feed := newFeed()
		feed.put(webName, authz.PolicyState{Policy: policy("a", allowIf(onlyGET))})
		s, _ := start(t, feed, func(c *sidecar.Config) { c.DecisionTimeout = timeout })
		testkit.Closed(t, "s is ready", s.Ready())
		r := request("GET", nil)
		r.Parts = asked{}.parts
		s.Check(t.Context(), r)
		r.Parts = func(*authz.ReadBudget) (rego.Request, error) {
			return late{rego.RequestOf(rego.Input{}), timeout}, nil
		}
		if d := s.Check(t.Context(), r); d.Failure != authz.FailureDeadline || d.Effect != authz.Deny {
			t.Errorf("got %+v; want it to have run out of time", d)
		}
	})
}

// TestACachedDecisionNeverOutlivesItsPolicy changes a policy while requests are
// decided by it: as soon as a change is applied, nobody gets what was right before.
func TestACachedDecisionNeverOutlivesItsPolicy(t *testing.T) {
	t.Parallel()
	get, post := allowIf(onlyGET), allowIf(onlyPOST)
	r := newCaching(t, policy("a", get))
	var asking sync.WaitGroup
	var done atomic.Bool
	for range 2 {
		asking.Go(func() {
			for !done.Load() {
				r.ask(t, nil, time.Unix(1, 0))
			}
		})
	}
	defer asking.Wait()
	defer done.Store(true)
	for _, step := range []struct {
		name  string
		state authz.PolicyState
		want  authz.Effect
	}{
		{"another content, and an experiment", authz.PolicyState{
			Policy: policy("b", post), Experiments: []*adminpb.PolicyExperiment{experiment("x", "x", get)},
		}, authz.Deny},
		{"the experiment is committed", authz.PolicyState{Policy: policy("c", get)}, authz.Allow},
		{"rolled back", authz.PolicyState{Policy: policy("d", post)}, authz.Deny},
		{"one that does not compile", authz.PolicyState{Policy: policy("f", nonsense)}, authz.Deny},
		{"other data", authz.PolicyState{Policy: policy("g", allowIf("not data.closed"))}, authz.Allow},
		{"deleted", authz.PolicyState{}, authz.Deny},
		{"created again", authz.PolicyState{Policy: policy("h", get)}, authz.Allow},
		{"no rules", authz.PolicyState{Policy: policy("i", "")}, authz.Deny},
		{"the first", authz.PolicyState{Policy: policy("a", get)}, authz.Allow},
		{"the last", authz.PolicyState{Policy: policy("j", post)}, authz.Deny},
	} {
		r.feed.awaitApplied(t, r.feed.put(webName, step.state))
		for range 2 {
			if got := r.ask(t, nil, time.Unix(1, 0)); got.Effect != step.want {
				t.Errorf("%s: got %+v; want %v", step.name, got, step.want)
			}
		}
	}
	if hits, _ := r.lookups(t); hits == 0 {
		t.Error("nothing was cached")
	}
}

// TestACachedDecisionEndsByTheClock asks about one document at several moments.
func TestACachedDecisionEndsByTheClock(t *testing.T) {
	t.Parallel()
	const expiry = 1_700_000_000
	r := newCaching(t, policy("a", allowIf("input.exp > time.now_ns() / 1000000000")))
	for _, c := range []struct {
		after time.Duration
		want  authz.Effect
	}{
		{-time.Hour, authz.Allow}, {-time.Minute, authz.Allow}, {-time.Nanosecond, authz.Allow},
		{0, authz.Deny}, {time.Hour, authz.Deny},
		{-2 * time.Hour, authz.Allow}, {2 * time.Hour, authz.Deny}, // a clock that was set back
	} {
		now := time.Unix(expiry, 0).Add(c.after)
		if got := r.ask(t, map[string]any{"exp": expiry}, now); got.Effect != c.want {
			t.Errorf("%v after the expiry: got %+v; want %v", c.after, got, c.want)
		}
	}
	if hits, misses := r.lookups(t); hits == 0 || misses == 0 {
		t.Errorf("%d hits, %d misses; want some of each", hits, misses)
	}
}

// TestWhatIsNoFunctionOfTheInputIsNotCached asks twice, and by a moment later.
func TestWhatIsNoFunctionOfTheInputIsNotCached(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"random": `uuid.rfc4122("x")`, "the clock": `sprintf("%d", [time.now_ns()])`,
	} {
		r := newCaching(t, policy("a", fmt.Sprintf("package envoy.authz\nallow := {\"allowed\": false, \"body\": %s}", value)))
		first, second := r.ask(t, nil, time.Unix(1, 0)), r.ask(t, nil, time.Unix(2, 0))
		if first.Body == second.Body || first.Body == "" {
			t.Errorf("%s: both answers are %q", name, first.Body)
		}
		if hits, _ := r.lookups(t); hits != 0 {
			t.Errorf("%s: %d hits are counted", name, hits)
		}
	}
}

// TestLookupsAreCounted: by policy, from the beginning, for live decisions alone, and
// for all versions of a policy together.
func TestLookupsAreCounted(t *testing.T) {
	t.Parallel()
	r := newCaching(t, policy("a", allowIf(`input.x == "a"`)), experiment("e", "e", allowIf(`input.x == "b"`)))
	check := func(when string, wantHits, wantMisses int64) {
		t.Helper()
		if hits, misses := r.lookups(t); hits != wantHits || misses != wantMisses {
			t.Errorf("%s: %d hits and %d misses; want %d and %d", when, hits, misses, wantHits, wantMisses)
		}
	}
	check("before the first", 0, 0)
	for _, x := range []string{"a", "b", "a", "a"} {
		r.ask(t, map[string]any{"x": x}, time.Unix(1, 0))
	}
	check("two documents", 2, 2)
	r.feed.awaitApplied(t, r.feed.put(webName, authz.PolicyState{Policy: policy("b", allowIf(`input.x == "c"`))}))
	r.ask(t, map[string]any{"x": "a"}, time.Unix(1, 0))
	check("another version", 2, 3)
	r.Check(t.Context(), request("GET", nil))
	check("a request that is read whole", 2, 3)
}
