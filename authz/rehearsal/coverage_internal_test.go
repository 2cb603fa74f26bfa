package rehearsal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	"understudy/authz/rehearsal/supervisor/supervisortest"
)

// module returns a policy of one module.
func module(text string) *adminpb.Policy {
	p := allowing("true")
	p.Modules["a.rego"] = "package envoy.authz\n\n" + text
	return p
}

// covered is a pair whose coverage nothing bounds in time.
func covered(t testing.TB, live, candidate *adminpb.Policy) *rehearsed {
	t.Helper()
	r := rehearse(t, supervisortest.New(t), live, candidate)
	r.shadow.coverPause = func(time.Duration) time.Duration { return 0 }
	return r
}

// send has requests covered, one after the other.
func (r *rehearsed) send(t testing.TB, documents ...map[string]any) {
	t.Helper()
	for _, document := range documents {
		c := r.comparing(t, readAs(document, time.Unix(1_700_000_000, 0)))
		r.shadow.cover(&c.job, r.experiment)
		r.shadow.underWay.Wait()
	}
}

// know waits until it is known what the change is: it takes a request to ask.
func (r *rehearsed) know(t testing.TB) {
	t.Helper()
	for !r.experiment.Coverage().Known {
		r.send(t, map[string]any{"x": "nothing"})
		if t.Context().Err() != nil {
			t.Fatal("it never gets known what the change is")
		}
	}
}

// report is the coverage as text.
func (r *rehearsed) report() (out []string) {
	for _, rule := range r.experiment.Coverage().Rules {
		out = append(out, fmt.Sprintf("%s %s:%d %s true=%v false=%v", rule.Side, rule.File, rule.Line, rule.Name, rule.SeenTrue, rule.SeenFalse))
	}
	return out
}

var (
	coveredLive = module(`default allow := false

allow if {
	input.method == "GET"
	input.x == "a"
}
`)
	coveredCandidate = module(`default allow := false

allow if {
	input.method == "GET"
	input.x == "b"
}

allow if {
	input.method == "DELETE"
	input.x == "root"
}
`)
)

// TestTheChangeIsCovered has traffic exercise a part of the change.
func TestTheChangeIsCovered(t *testing.T) {
	r := covered(t, coveredLive, coveredCandidate)
	r.know(t)
	never := []string{
		"live a.rego:5 data.envoy.authz.allow true=false false=false",
		"candidate a.rego:5 data.envoy.authz.allow true=false false=false",
		"candidate a.rego:10 data.envoy.authz.allow true=false false=false",
	}
	if got := r.report(); !slices.Equal(got, never) {
		t.Errorf("got %q, want %q", got, never)
	}
	r.send(t, map[string]any{"x": "a", "method": "GET"})
	want := []string{
		"live a.rego:5 data.envoy.authz.allow true=true false=false",
		"candidate a.rego:5 data.envoy.authz.allow true=false false=true",
		"candidate a.rego:10 data.envoy.authz.allow true=false false=false",
	}
	if got := r.report(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	r.send(t, map[string]any{"x": "b", "method": "GET"}, map[string]any{"x": "root", "method": "DELETE"}, map[string]any{"x": "eve", "method": "DELETE"})
	for _, rule := range r.experiment.Coverage().Rules {
		if !rule.SeenTrue || !rule.SeenFalse {
			t.Errorf("%+v; want all to be seen", rule)
		}
	}
	if !r.experiment.coverage.over.Load() {
		t.Error("there is nothing more to learn, and requests are evaluated all the same")
	}
}

// TestOneOfManyEqualRequestsIsCovered counts those that are evaluated.
func TestOneOfManyEqualRequestsIsCovered(t *testing.T) {
	r := covered(t, coveredLive, coveredCandidate)
	r.know(t)
	for range 3 {
		r.send(t, map[string]any{"x": "a", "method": "PUT"}, map[string]any{"x": "c", "method": "PUT"})
	}
	if n := len(r.experiment.coverage.covered); n != 3 { // with that of know
		t.Errorf("%d distinct requests were covered, want 3", n)
	}
	if n := r.shadow.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are held, want none", n)
	}
}

// TestANewPairBeginsAnew has another live policy beside the same candidate.
func TestANewPairBeginsAnew(t *testing.T) {
	r := covered(t, coveredLive, coveredCandidate)
	r.know(t)
	r.send(t, map[string]any{"x": "a", "method": "GET"})
	r.experiment = NewExperiment(r.experiment.Version, r.experiment.Candidate)
	if r.experiment.Coverage().Known {
		t.Error("a new pair knows something already")
	}
	r.know(t)
	r.send(t, map[string]any{"x": "a", "method": "GET"})
	if got := r.report()[1]; got != "candidate a.rego:5 data.envoy.authz.allow true=false false=true" {
		t.Errorf("got %q; want the request to be covered again, whatever is cached", got)
	}
}

// TestEqualPoliciesHaveNothingToCover asks once, and never again.
func TestEqualPoliciesHaveNothingToCover(t *testing.T) {
	r := covered(t, coveredLive, coveredLive)
	r.know(t)
	if got := r.experiment.Coverage(); len(got.Rules) > 0 || !r.experiment.coverage.over.Load() {
		t.Errorf("got %+v; want no rules, and an end", got)
	}
}

// TestWhatIsNotEvaluatedIsNotCovered has requests that neither policy decides.
func TestWhatIsNotEvaluatedIsNotCovered(t *testing.T) {
	r := covered(t, coveredLive, coveredCandidate)
	r.know(t)
	c := r.comparing(t, readAs(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0)))
	c.job.request.Operation = authz.OperationOnEnd
	r.shadow.cover(&c.job, r.experiment)
	r.shadow.underWay.Wait()
	r.experiment.Candidate.unexamined.Store(true)
	r.send(t, map[string]any{"x": "a", "method": "GET"})
	if got := r.report()[0]; got != "live a.rego:5 data.envoy.authz.allow true=false false=false" {
		t.Errorf("got %q; want nothing to be covered", got)
	}
}

// TestWhatFailedToBeCoveredIsTriedAgain closes the live side.
func TestWhatFailedToBeCoveredIsTriedAgain(t *testing.T) {
	r := covered(t, coveredLive, coveredCandidate)
	r.know(t)
	policies := r.shadow.policies
	r.shadow.policies = NewLivePolicies(nil)
	r.send(t, map[string]any{"x": "a", "method": "GET"})
	r.shadow.policies = policies
	r.send(t, map[string]any{"x": "a", "method": "GET"})
	if got := r.report()[0]; got != "live a.rego:5 data.envoy.authz.allow true=true false=false" {
		t.Errorf("got %q; want the live side covered by the next request", got)
	}
}

// TestADifferenceIsCoveredWheneverItComes has one request of many turned away, shortly after
// another one was evaluated.
func TestADifferenceIsCoveredWheneverItComes(t *testing.T) {
	r := covered(t, coveredLive, coveredCandidate)
	r.know(t)
	r.shadow.coverPause = func(time.Duration) time.Duration { return time.Hour }
	r.send(t, map[string]any{"x": "c", "method": "GET"})
	r.experiment.Evidence = evidence.NewTally("policies/web/experiments/next", "uid", "2", evidence.NewPatterns())

	c := r.comparing(t, readAs(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0)))
	r.shadow.cover(&c.job, r.experiment)
	c.job.fold()
	c.count(newComparison(c.job.request, r.live, &r.experiment.Version, c.job.decision, denied("")))
	r.shadow.underWay.Wait()
	if got := r.report()[0]; got != "live a.rego:5 data.envoy.authz.allow true=true false=true" {
		t.Errorf("got %q; want the rule that allowed the request to have been true", got)
	}
	if r.shadow.bytes.Load() != 0 || r.experiment.coverage.underWay != 0 {
		t.Errorf("%d bytes are held by %d evaluations, want none", r.shadow.bytes.Load(), r.experiment.coverage.underWay)
	}
}

// BenchmarkWarm is what a comparison of two cached decisions costs the worker, and what
// examinations add to it: of a request that is covered already, while something of the change
// was not seen; when all was; and of the chance to be sampled.
func BenchmarkWarm(b *testing.B) {
	r := covered(b, coveredLive, coveredCandidate)
	r.know(b)
	request := readAs(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0))
	c := r.comparing(b, request)
	r.shadow.one(&c.job, r.experiment) // is cached then
	r.shadow.cover(&c.job, r.experiment)
	r.shadow.underWay.Wait()
	r.experiment.noise.asked.Store(sampleFirst)
	r.shadow.dice = func() uint64 { return rand.Uint64() | 1 }
	compare := func() { r.shadow.one(&c.job, r.experiment) }
	cover := func() { r.shadow.cover(&c.job, r.experiment) }
	for _, bench := range []struct {
		name string
		over bool
		do   []func()
	}{
		{"compared", false, []func(){compare}},
		{"and covered", false, []func(){compare, cover}},
		{"and covered, all was seen", true, []func(){compare, cover}},
		{"and perhaps sampled", true, []func(){compare, cover, func() { r.shadow.sample(&c.job) }}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r.experiment.coverage.over.Store(bench.over)
			b.ReportAllocs()
			for b.Loop() {
				for _, do := range bench.do {
					do()
				}
			}
		})
	}
}
