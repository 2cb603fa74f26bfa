package rehearsal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/rego"
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
	r.shadow.coverPause = func(time.Duration, bool) time.Duration { return 0 }
	return r
}

// cover has a request covered of whose document the experiment has learned all.
func (r *rehearsed) cover(c *comparing) { r.shadow.cover(&c.job, r.experiment, leafOf(c.job.request)) }

// leafOf is the leaf of a request by an experiment that has learned all of its document.
func leafOf(r *authz.Request) authz.Leaf {
	input, err := r.Source(nil)
	if err != nil {
		panic(err)
	}
	b, err := rego.AppendInput(nil, input)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(b)
	return authz.Leaf{binary.BigEndian.Uint64(sum[:]), 1}
}

// send has requests covered, one after the other.
func (r *rehearsed) send(t testing.TB, documents ...map[string]any) {
	t.Helper()
	for _, document := range documents {
		r.cover(r.comparing(t, readAs(document, time.Unix(1_700_000_000, 0))))
		r.settle(t)
	}
}

// settle waits until no request is to be evaluated.
func (r *rehearsed) settle(t testing.TB) {
	t.Helper()
	p := &r.experiment.coverage
	left := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.changes == nil && !p.ended {
			return 1
		}
		return len(p.waiting) + p.underWay
	}
	for left() > 0 {
		if t.Context().Err() != nil {
			t.Fatal("something of the coverage is still to be evaluated")
		}
		time.Sleep(time.Millisecond)
	}
}

// know waits until it is known what the change is: the first request asks.
func (r *rehearsed) know(t testing.TB) {
	t.Helper()
	r.send(t, map[string]any{"x": "nothing"})
	if !r.experiment.Coverage().Known {
		t.Fatal("it is not known what the change is")
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
	r.shadow.underWay.Wait()
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
	r.cover(c)
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
	close := func(closed bool) {
		r.shadow.policies.mu.Lock()
		defer r.shadow.policies.mu.Unlock()
		r.shadow.policies.closed = closed
	}
	close(true)
	c := r.comparing(t, readAs(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0)))
	r.cover(c)
	close(false)
	r.settle(t)
	if got := r.report()[0]; got != "live a.rego:5 data.envoy.authz.allow true=true false=false" {
		t.Errorf("got %q; want the live side covered without another request", got)
	}
}

// TestADifferenceIsCoveredWheneverItComes has one request of many turned away, shortly after
// another one was evaluated.
func TestADifferenceIsCoveredWheneverItComes(t *testing.T) {
	r := covered(t, coveredLive, coveredCandidate)
	r.know(t)
	r.shadow.coverPause = func(time.Duration, bool) time.Duration { return time.Hour }
	r.send(t, map[string]any{"x": "c", "method": "GET"})
	r.experiment.Evidence = evidence.NewTally("policies/web/experiments/next", "uid", "2", evidence.NewPatterns())

	c := r.comparing(t, readAs(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0)))
	r.cover(c)
	c.job.fold()
	c.count(newComparison(c.job.request, r.live, &r.experiment.Version, c.job.decision, denied("")), leafOf(c.job.request))
	r.settle(t)
	r.shadow.underWay.Wait()
	if got := r.report()[0]; got != "live a.rego:5 data.envoy.authz.allow true=true false=true" {
		t.Errorf("got %q; want the rule that allowed the request to have been true", got)
	}
	if r.shadow.bytes.Load() != 0 || r.experiment.coverage.underWay != 0 {
		t.Errorf("%d bytes are held by %d evaluations, want none", r.shadow.bytes.Load(), r.experiment.coverage.underWay)
	}
}

// run has the shadow work until the test ends, with an experiment whose evidence is counted.
func (r *rehearsed) run(t *testing.T) {
	t.Helper()
	r.experiment.Evidence = evidence.NewTally("policies/web/experiments/next", "uid", "2", evidence.NewPatterns())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.shadow.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
}

// offer hands a request over as the sidecar does.
func (r *rehearsed) offer(t *testing.T, document map[string]any) {
	t.Helper()
	request := readAs(document, time.Unix(1_700_000_000, 0))
	r.shadow.Offer(t.Context(), r.live, []*Experiment{r.experiment}, request, r.live.Policy.Decide(t.Context(), request, authz.Conditions{}))
}

// published waits until the pair of the evidence is as it should be, each time after there is
// something new in it, and returns it.
func (r *rehearsed) published(t *testing.T, is func(*evidencepb.Pair) bool) *evidencepb.Pair {
	t.Helper()
	ledger := evidence.NewLedger(time.Now())
	ledger.Follow([]evidence.Active{r.experiment.Active(r.live.Etag)})
	for t.Context().Err() == nil {
		e := &evidencepb.Evidence{}
		due := ledger.Due(time.Second)[0]
		if err := proto.Unmarshal(due.Value, e); err != nil {
			t.Fatal(err)
		}
		ledger.Published(due.Tally, due.Serial)
		if p := e.GetPairs()[0]; is(p) {
			return p
		}
		for !ledger.Changed() && !ledger.Fresh() && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	t.Fatal("evidence never gets what it should have")
	return nil
}

// exercised :: line of a rule that differs → whether it was true and whether it was false.
func exercised(p *evidencepb.Pair) map[int32][2]bool {
	out := make(map[int32][2]bool)
	for _, rule := range p.GetRules() {
		if rule.GetSide() == int32(adminpb.Report_ChangedRule_EXPERIMENT) {
			out[rule.GetLine()] = [2]bool{rule.GetEvaluatedTrue(), rule.GetEvaluatedFalse()}
		}
	}
	return out
}

// TestCoverageNeedsNoMoreTraffic has one request alone, and many at once, of which each rule
// but one is exercised by a single one. Evidence says that there is something to come until
// it has all of it.
func TestCoverageNeedsNoMoreTraffic(t *testing.T) {
	for _, n := range []int{1, 300} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := rehearse(t, supervisortest.New(t), coveredLive, coveredCandidate)
			r.run(t)
			for i := range n - 1 {
				r.offer(t, map[string]any{"x": fmt.Sprint("nobody", i), "method": "PUT"})
			}
			r.offer(t, map[string]any{"x": "b", "method": "GET"})
			want := map[int32][2]bool{5: {true, false}, 10: {false, false}}
			p := r.published(t, func(p *evidencepb.Pair) bool {
				c := p.GetCounts()
				counted := c.GetBothAllow() + c.GetBothDeny() + c.GetNewlyAllowed()
				if got := exercised(p); counted > 0 && p.GetPending() == 0 && counted == int64(n) && !maps.Equal(got, want) {
					t.Errorf("got %v and nothing pending, want %v", got, want)
				}
				return counted == int64(n) && p.GetPending() == 0
			})
			if got := exercised(p); !maps.Equal(got, want) || p.GetUnexamined() != 0 {
				t.Errorf("got %v and %d unexamined, want %v", got, p.GetUnexamined(), want)
			}
		})
	}
}

// TestWhatCannotBeExaminedIsCounted has more requests than may wait, an experiment that may not
// be examined any more, and then traffic that shows the rest.
func TestWhatCannotBeExaminedIsCounted(t *testing.T) {
	r := covered(t, coveredLive, coveredCandidate)
	r.know(t)
	r.shadow.coverPause = func(time.Duration, bool) time.Duration { return time.Hour }
	r.send(t, map[string]any{"x": "first"}) // the others wait for an hour
	put := func(i int) {
		c := r.comparing(t, readAs(map[string]any{"x": fmt.Sprint(i)}, time.Unix(1_700_000_000, 0)))
		r.cover(c)
	}
	for i := range maxUncovered + 3 {
		put(i)
		put(i)
	}
	if got := r.experiment.Coverage(); got.Pending != maxUncovered || got.Unexamined != 3 {
		t.Errorf("%d are pending and %d unexamined, want %d and 3", got.Pending, got.Unexamined, maxUncovered)
	}
	r.experiment.Candidate.unexamined.Store(true)
	put(maxUncovered)
	if got := r.experiment.Coverage(); got.Pending != 0 || got.Unexamined != maxUncovered+3 {
		t.Errorf("%d are pending and %d unexamined, want 0 and %d", got.Pending, got.Unexamined, maxUncovered+3)
	}
	if n := r.shadow.bytes.Load() + r.shadow.uncovered.Load(); n != 0 {
		t.Errorf("%d bytes are held, want none", n)
	}
}

// TestANewPairTakesWhatWaits has the entry of a policy made anew while requests wait.
func TestANewPairTakesWhatWaits(t *testing.T) {
	r := covered(t, coveredLive, coveredCandidate)
	r.know(t)
	pause := r.shadow.coverPause
	r.shadow.coverPause = func(time.Duration, bool) time.Duration { return time.Hour }
	r.send(t, map[string]any{"x": "first"})
	c := r.comparing(t, readAs(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0)))
	r.cover(c)
	r.shadow.coverPause = pause
	r.experiment = NewExperiment(r.experiment.Version, r.experiment.Candidate)
	r.know(t)
	if got := r.report()[0]; got != "live a.rego:5 data.envoy.authz.allow true=true false=false" {
		t.Errorf("got %q; want what waited in the pair before to be evaluated", got)
	}
	r.shadow.underWay.Wait()
	if n := r.shadow.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are held, want none", n)
	}
}

// TestCoveragePauses: a process that stood still for long is not left alone for long.
func TestCoveragePauses(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: minCoverPause, 10 * time.Millisecond: 40 * time.Millisecond, 6 * time.Second: maxCoverPause,
	} {
		if got := pauseAfter(took, false); got != want {
			t.Errorf("after %v it waits for %v, want %v", took, got, want)
		}
		if got := pauseAfter(took, true); got != 0 {
			t.Errorf("an idle process waits for %v after %v", got, took)
		}
	}
}
