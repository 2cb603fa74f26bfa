package rehearsal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/rehearsal/examine"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/cmd/testkit"
)

// run has the shadow work until the test ends, with an experiment whose evidence is counted.
func (r *rehearsed) run(t *testing.T) {
	t.Helper()
	r.experiment.Evidence = evidence.NewTally(evidence.Content{Experiment: "policies/web/experiments/next", UID: "uid", Etag: "2"}, nil, evidence.NewPatterns())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.shadow.Run(ctx) }()
	t.Cleanup(func() { stop(); testkit.Closed(t, "the rehearsal to end", done) })
}

// offer hands a request over as the sidecar does.
func (r *rehearsed) offer(t *testing.T, document map[string]any) {
	t.Helper()
	request := rehearsaltest.Request(document, time.Unix(1_700_000_000, 0))
	r.shadow.Offer(t.Context(), r.live, []*Experiment{r.experiment}, request, r.live.Policy.Decide(t.Context(), request, authz.Conditions{}))
}

// published waits until the pair of the evidence is as it should be, each time after there is
// something new in it, and returns it.
func (r *rehearsed) published(t *testing.T, is func(*evidencepb.Pair) bool) *evidencepb.Pair {
	t.Helper()
	ledger := evidence.NewLedger(time.Now())
	ledger.Follow([]evidence.Active{r.experiment.Active(r.live.Etag)})
	for {
		e := &evidencepb.Evidence{}
		due := ledger.Due(time.Second)[0]
		if err := proto.Unmarshal(due.Value, e); err != nil {
			t.Fatal(err)
		}
		ledger.Published(due.Tally, due.Serial)
		pair := e.GetPairs()[0]
		if is(pair) {
			return pair
		}
		testkit.Await(t, "evidence has something new", func() bool { return ledger.Changed() || ledger.Fresh() }, func() any { return pair })
	}
}

// shown is how many requests have shown the literal and the rule in which the two policies of the fixture differ.
func shown(p *evidencepb.Pair) (out [2]int32) {
	for _, list := range p.GetItems() {
		copy(out[:], list.GetShown())
	}
	return out
}

// TestExaminationsNeedNoMoreTraffic has one request alone, and many at once, of which a single one shows an item.
// Evidence says that there is something to come until it has all of it.
func TestExaminationsNeedNoMoreTraffic(t *testing.T) {
	for _, n := range []int{1, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := rehearse(t, supervisortest.New(t), rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
			r.run(t)
			for i := range n - 1 {
				r.offer(t, map[string]any{"x": fmt.Sprint("nobody", i), "method": "PUT"})
			}
			r.offer(t, map[string]any{"x": "b", "method": "GET"})
			want := [2]int32{1, 0}
			p := r.published(t, func(p *evidencepb.Pair) bool {
				c := p.GetCounts()
				counted := c.GetBothAllow() + c.GetBothDeny() + c.GetNewlyAllowed()
				if got := shown(p); counted > 0 && p.GetPending() == 0 && counted == int64(n) && got != want {
					t.Errorf("got %v and nothing pending, want %v", got, want)
				}
				return counted == int64(n) && p.GetPending() == 0
			})
			if got := shown(p); got != want || p.GetUnexamined() != 0 {
				t.Errorf("got %v and %d unexamined, want %v", got, p.GetUnexamined(), want)
			}
		})
	}
}

// explained is what is said of a comparison in which the experiment decides so.
func (r *rehearsed) explained(t testing.TB, c *pendingComparison, d authz.Decision) (out []string) {
	t.Helper()
	causes := make(chan []*evidencepb.Cause, 1)
	c.explain(newComparison(c.job.request, r.live, r.experiment, c.job.decision, d), func(_ evidence.ExplainResult, all []*evidencepb.Cause) { causes <- all })
	for _, cause := range testkit.Receive(t, "the causes", causes) {
		out = append(out, fmt.Sprintf("%s:%d %s", cause.GetFile(), cause.GetLine(), cause.GetText()))
	}
	return out
}

// examine has a request examined, and waits for that.
func (r *rehearsed) examine(c *pendingComparison, leaf authz.Leaf) {
	r.shadow.examiner.Examine(c.job.subject(r.experiment, leaf), &r.experiment.pair, examine.Group{})
	r.shadow.examiner.Wait()
}

// noise is what was counted of it.
func (r *rehearsed) noise() *evidencepb.Noise {
	e := r.experiment.Evidence.Snapshot(time.Unix(1_700_000_000, 0))
	if len(e.GetPairs()) == 0 {
		return nil
	}
	return e.GetPairs()[0].GetNoise()
}

// TestAllExperimentsOfAPolicyHaveItsNoise samples once for two of them.
func TestAllExperimentsOfAPolicyHaveItsNoise(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), rehearsaltest.Allowing(`input.x == "a"`), rehearsaltest.Allowing(`input.x == "b"`))
	c := r.comparing(t, rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0)))
	for range 2 {
		r.experiment = NewExperiment(r.experiment.Candidate, r.experiment.Etag)
		r.experiment.Evidence = evidence.NewTally(evidence.Content{Experiment: r.experiment.Name, UID: "uid", Etag: "2"}, nil, evidence.NewPatterns())
		c.job.experiments = append(c.job.experiments, r.experiment)
	}
	c.job.experiments = c.job.experiments[1:]
	r.shadow.sample(&c.job)
	r.shadow.examiner.Wait()
	for _, r.experiment = range c.job.experiments {
		if got := r.noise(); got.GetSampled() != 1 || got.GetDiffered() != 0 {
			t.Errorf("got %v, want one sample of each", got)
		}
	}
}

// TestADifferenceIsOfItsGroup, by which examinations tell its first requests from others.
func TestADifferenceIsOfItsGroup(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), rehearsaltest.Allowing(`input.x == "a"`), rehearsaltest.Allowing(`input.x == "b"`))
	r.experiment.Evidence = evidence.NewTally(evidence.Content{Experiment: r.experiment.Name, UID: "uid", Etag: "2"}, nil, evidence.NewPatterns())
	request := rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0))
	request.Method, request.Path = "GET", "/orders/1"
	c := r.comparing(t, request)
	c.job.fold()
	of := func(d authz.Decision) examine.Group {
		return c.job.group(newComparison(request, r.live, r.experiment, c.job.decision, d))
	}
	if got := of(authz.Decision{Effect: authz.Allow}); got != (examine.Group{}) {
		t.Errorf("got %+v of what does not differ, want no group", got)
	}
	if got, want := of(denied("")), (examine.Group{Difference: authz.NewlyDenied, Method: "GET", Path: "/orders/*", Rule: "main"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestBytesAreExamined: causes, items and noise come of the bytes, and a body that neither
// policy reads prevents none of them, however bad it is.
func TestBytesAreExamined(t *testing.T) {
	for name, content := range map[string]string{"small": "{", "large": strings.Repeat("{", 5000), "too many values": strings.Repeat("[1,", 60_000)} {
		t.Run(name, func(t *testing.T) {
			method := func(is string) *adminpb.Policy {
				return rehearsaltest.Allowing(`input.attributes.request.http.method == "` + is + `"`)
			}
			r := rehearse(t, supervisortest.New(t), method("POST"), method("GET"))
			r.experiment.Evidence = evidence.NewTally(evidence.Content{Experiment: r.experiment.Name, UID: "uid", Etag: "2"}, nil, evidence.NewPatterns())
			request := newCrossing(t, r.shadow.config.Process, method("GET")).read(t, posting(t, content))
			c := r.comparing(t, request)
			if request.Sent == nil || c.job.decision.Effect != authz.Allow {
				t.Fatalf("the live policy decides %+v", c.job.decision)
			}
			want := []string{`a.rego:2 input.attributes.request.http.method == "GET"`}
			if got := r.explained(t, c, denied(authz.FailureUndefined)); !slices.Equal(got, want) {
				t.Errorf("got the causes %v, want %v", got, want)
			}
			r.shadow.sample(&c.job)
			r.examine(c, authz.Leaf{1})
			if got := r.noise(); got.GetSampled() != 1 || got.GetDiffered() != 0 {
				t.Errorf("got the noise %v, want that both decisions are the same", got)
			}
			if progress := r.experiment.pair.Progress(); !slices.Equal(progress.Items.GetShown(), []int32{1}) {
				t.Errorf("got %+v, want that the request has shown the literal", progress)
			}
			if request.Held() != request.Size {
				t.Errorf("the request holds %d bytes and has %d: something of it was parsed here", request.Held(), request.Size)
			}
		})
	}
}

// denied is a denial by the Rego rule of policies of one module.
func denied(f authz.Failure) authz.Decision {
	return authz.Decision{Rule: "main", Failure: f}.WithRulePath("envoy/authz/allow")
}
