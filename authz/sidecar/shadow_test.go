package sidecar_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal"
	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/rehearsal/wire"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
	"understudy/rego"
)

// slow is a condition that takes far longer than any deadline, but heeds it.
const slow = `count([1 | some i in numbers.range(1, 3000); some j in numbers.range(1, 3000); i + j > 1]) > 0`

// TestALoopingExperimentDelaysNothing sends live requests while the evaluation of
// an experiment is provably under way: it has asked for the input, and its record
// has not come.
func TestALoopingExperimentDelaysNothing(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy:      policy("live", ""),
		Experiments: []*adminpb.PolicyExperiment{experiment("slow", "s", allowIf(slow))},
	})
	s, rec := start(t, feed, func(c *sidecar.Config) {
		c.Default = authz.Allow
		c.Preview = rehearsal.Limits{Queue: 1, Timeout: time.Hour, Drain: time.Millisecond} // it is not done in time
	})
	testkit.Closed(t, "s is ready", s.Ready())
	begun := make(chan struct{})
	r := request("GET", nil)
	source := r.Source
	r.Source = func(*authz.ReadBudget) (rego.Input, error) { close(begun); return source(nil) }
	s.Check(t.Context(), r)
	testkit.Closed(t, "the comparison to begin", begun)
	for range 100 {
		if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Allow {
			t.Fatalf("got %+v; want it allowed", d)
		}
	}
	select {
	case <-rec.arrived:
		t.Error("the experiment was done before the live requests: the test shows nothing")
	default:
	}
}

func TestAnExperimentRunsOutOfTime(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy:      policy("live", allowIf(onlyGET)),
		Experiments: []*adminpb.PolicyExperiment{experiment("slow", "s", allowIf(slow))},
	})
	s, rec := start(t, feed, func(c *sidecar.Config) { c.Preview = rehearsal.Limits{Timeout: time.Millisecond} })
	testkit.Closed(t, "s is ready", s.Ready())
	s.Check(t.Context(), request("GET", nil))
	r := rec.await(t, 1)[0]
	if r.attributes["understudy.experiment.result"] != "ERROR" || r.severity != "ERROR" || r.attributes["understudy.preview.difference"] != "FAILED" {
		t.Errorf("the record is %v", r)
	}
}

// TestOneSlowExperimentStarvesNoOther decides by a looping experiment and one next to it,
// until the other has decided three times: on a busy machine its time may be over now
// and then, too.
func TestOneSlowExperimentStarvesNoOther(t *testing.T) {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy: policy("live", allowIf(onlyGET)),
		Experiments: []*adminpb.PolicyExperiment{
			experiment("a", "a", allowIf(slow)), experiment("b", "b", allowIf(onlyGET)),
		},
	})
	s, rec := start(t, feed, func(c *sidecar.Config) {
		c.Preview = rehearsal.Limits{Timeout: 10 * time.Millisecond}
	})
	testkit.Closed(t, "s is ready", s.Ready())
	counts := make(map[string]int)
	checks := 0
	testkit.Await(t, "the other experiment decides three times", func() bool {
		s.Check(t.Context(), request("GET", nil))
		for _, r := range rec.await(t, 2)[2*checks:] {
			counts[r.attributes["understudy.experiment.etag"]+" "+r.attributes["understudy.preview.difference"]]++
		}
		checks++
		return counts["b UNCHANGED"] == 3
	}, func() any { return counts })
	if counts["a FAILED"] != checks || counts["b UNCHANGED"] != 3 {
		t.Errorf("got %v after %d checks", counts, checks)
	}
}

// held returns a request whose input document is not made before release is closed,
// and says when it is asked for.
func held(release <-chan struct{}) (r *authz.Request, begun <-chan struct{}) {
	asked := make(chan struct{})
	r = request("GET", nil)
	source := r.Source
	r.Source = func(*authz.ReadBudget) (rego.Input, error) {
		close(asked)
		<-release
		return source(nil)
	}
	return r, asked
}

// rehearsed returns a feed with a live policy that reads nothing, so that only its two
// experiments ask for the input.
func rehearsed() *memoryFeed {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{
		Policy: policy("live", ""),
		Experiments: []*adminpb.PolicyExperiment{
			experiment("a", "a", allowIf(onlyGET)), experiment("b", "b", allowIf(onlyPOST)),
		},
	})
	return feed
}

// releasing returns what held requests wait for, and what ends that. It is called after the
// sidecar is started: a test that fails releases them before the sidecar is stopped, which
// waits for them.
func releasing(t *testing.T) (release chan struct{}, now func()) {
	t.Helper()
	release = make(chan struct{})
	now = sync.OnceFunc(func() { close(release) })
	t.Cleanup(now)
	return release, now
}

func label(name, value string) attribute.KeyValue { return attribute.String(name, value) }

func TestWhatDoesNotFitIsShedAndCounted(t *testing.T) {
	m := newMeter()
	feed := rehearsed()
	s, rec := start(t, feed, func(c *sidecar.Config) {
		c.Meters, c.Preview = m, rehearsal.Limits{Queue: 2}
	})
	// An experiment that has not compiled would keep the first request in its queue.
	feed.awaitApplied(t, 1)
	release, now := releasing(t)
	first, begun := held(release)
	s.Check(t.Context(), first)
	testkit.Closed(t, "the comparison to begin", begun)
	for range 5 {
		s.Check(t.Context(), request("GET", nil))
	}
	// One is under way, two wait, three are shed, each with two experiments. An experiment
	// that has not taken the first one from its queue yet, or is only about to, sheds more.
	dropped := func() int64 { return m.count(t, "understudy.preview.dropped", label("reason", "queue_full")) }
	testkit.Await(t, "shedding six", func() bool { return dropped() >= 6 })
	for _, experiment := range []string{"web/a", "web/b"} {
		if got := m.count(t, "understudy.preview.dropped", label("reason", "queue_full"), label("experiment", experiment)); got < 3 || got > 5 {
			t.Errorf("%d comparisons of %s are shed, want 3 to 5", got, experiment)
		}
	}
	now()
	testkit.Await(t, "twelve that are made or shed", func() bool { return m.count(t, "understudy.preview.comparisons")+dropped() == 12 })
	rec.await(t, 12-int(dropped()))
	if got := m.count(t, "understudy.checks", label("policy", "web"), label("result", "DENY")); got != 6 {
		t.Errorf("%d checks are counted, want 6", got)
	}
}

// TestLargeRequestsDoNotPileUp sends bodies that together are more than may wait.
func TestLargeRequestsDoNotPileUp(t *testing.T) {
	m := newMeter()
	feed := rehearsed()
	s, rec := start(t, feed, func(c *sidecar.Config) {
		c.Meters, c.Preview = m, rehearsal.Limits{QueueBytes: 1000}
	})
	// An experiment that has not compiled would keep the first request in its queue.
	feed.awaitApplied(t, 1)
	release, now := releasing(t)
	first, begun := held(release)
	first.Size = 200
	s.Check(t.Context(), first)
	testkit.Closed(t, "the comparison to begin", begun)
	for range 3 {
		r := request("GET", nil)
		r.Size = 300
		s.Check(t.Context(), r)
	}
	// Each experiment may hold half of it: one fits beside the one under way, two are shed.
	testkit.Await(t, "shedding four", func() bool { return m.count(t, "understudy.preview.dropped", label("reason", "queue_bytes")) == 4 })
	now()
	rec.await(t, 4)
	last := request("GET", nil)
	last.Size = 500
	// What was done gives its room back; the worker may still be at that.
	testkit.Await(t, "the room is given back", func() bool {
		s.Check(t.Context(), last)
		return m.count(t, "understudy.preview.comparisons") >= 6
	})
}

func TestWhatWaitsAtShutdownIsStillCompared(t *testing.T) {
	m := newMeter()
	feed := rehearsed()
	rec := newRecording()
	s, stop := startWith(t, feed, rec, func(c *sidecar.Config) {
		c.Meters = m
	})
	// An experiment that has not compiled would keep the first request in its queue.
	feed.awaitApplied(t, 1)
	release, now := releasing(t)
	first, begun := held(release)
	s.Check(t.Context(), first)
	testkit.Closed(t, "the comparison to begin", begun)
	s.Check(t.Context(), request("GET", nil))
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	// From its end on, the pool takes nothing any more; what it took, it finishes.
	testkit.Await(t, "closing the pool", func() bool {
		s.Check(t.Context(), &authz.Request{Policy: "web", Source: request("GET", nil).Source})
		return m.count(t, "understudy.preview.dropped", label("reason", "shutdown")) > 0
	})
	now()
	testkit.Closed(t, "the sidecar to stop", stopped)
	if got := len(rec.await(t, 4)); got < 4 {
		t.Errorf("%d records, want those of both requests", got)
	}
}

func TestAPanicOfAnExperimentIsARecord(t *testing.T) {
	m := newMeter()
	s, rec := start(t, rehearsed(), func(c *sidecar.Config) { c.Meters = m })
	testkit.Closed(t, "s is ready", s.Ready())
	r := request("GET", nil)
	r.Source = func(*authz.ReadBudget) (rego.Input, error) { panic("broken") }
	s.Check(t.Context(), r)
	for _, r := range rec.await(t, 2) {
		if r.attributes["understudy.experiment.result"] != "ERROR" || r.severity != "ERROR" {
			t.Errorf("the record is %v", r)
		}
	}
	if got := m.count(t, "understudy.preview.comparisons", label("difference", "FAILED"), label("failure", "PANIC")); got != 1 {
		t.Errorf("%d panics are counted, want 1", got)
	}
}

// TestAPanicInTheRehearsalProcessIsCounted, and is the decision of the experiment: the
// process goes on.
func TestAPanicInTheRehearsalProcessIsCounted(t *testing.T) {
	m := newMeter()
	broken, err := supervisor.New(supervisor.Config{Start: supervisortest.StartWith(child.Options{
		Before: func(context.Context, wire.DecisionRequest) { panic("broken") },
	}), Memory: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broken.Close)
	s, rec := start(t, rehearsed(), func(c *sidecar.Config) { c.Meters, c.Rehearsal = m, broken })
	testkit.Closed(t, "s is ready", s.Ready())
	s.Check(t.Context(), request("GET", nil))
	for _, r := range rec.await(t, 2) {
		if r.attributes["understudy.experiment.result"] != "ERROR" || !strings.Contains(r.attributes["understudy.experiment.reason"], "panicked") {
			t.Errorf("the record is %v", r)
		}
	}
	if got := m.count(t, "understudy.panics", label("place", "evaluation")); got != 2 {
		t.Errorf("%d panics are counted, want 2", got)
	}
}

// brokenExporter panics with each record.
type brokenExporter struct{}

func (brokenExporter) Export(context.Context, []sdklog.Record) error { panic("broken") }
func (brokenExporter) ForceFlush(context.Context) error              { return nil }
func (brokenExporter) Shutdown(context.Context) error                { return nil }

func TestAPanicBesideThePolicyCostsOneComparison(t *testing.T) {
	m := newMeter()
	s, stop := startWith(t, rehearsed(), brokenExporter{}, func(c *sidecar.Config) { c.Meters = m })
	t.Cleanup(stop)
	testkit.Closed(t, "s is ready", s.Ready())
	s.Check(t.Context(), request("GET", nil))
	testkit.Await(t, "counting both", func() bool {
		return m.count(t, "understudy.preview.dropped", label("reason", "panic")) == 2
	})
	if got := m.count(t, "understudy.preview.comparisons"); got != 2 {
		t.Errorf("%d comparisons are counted, want 2: they were made", got)
	}
}

// TestAPanicBeforeTheExperimentsCostsThem: a request whose span cannot be read ends no
// process.
func TestAPanicBeforeTheExperimentsCostsThem(t *testing.T) {
	m := newMeter()
	s, _ := start(t, rehearsed(), func(c *sidecar.Config) { c.Meters = m })
	testkit.Closed(t, "s is ready", s.Ready())
	r := request("GET", nil)
	r.Span = func() trace.SpanContext { panic("broken") }
	s.Check(t.Context(), r)
	testkit.Await(t, "counting both", func() bool {
		return m.count(t, "understudy.preview.dropped", label("reason", "panic")) == 2
	})
}

// BenchmarkCheck is the cost of a live answer while experiments are rehearsed.
func BenchmarkCheck(b *testing.B) {
	for _, experiments := range []int{0, 1, 4, 10} {
		b.Run(fmt.Sprintf("experiments=%d", experiments), func(b *testing.B) {
			state := authz.PolicyState{Policy: policy("live", allowIf(onlyGET))}
			for i := range experiments {
				state.Experiments = append(state.Experiments, experiment(fmt.Sprintf("e%02d", i), "e", allowIf(onlyGET)))
			}
			feed := newFeed()
			feed.put(webName, state)
			m := newMeter()
			s, stop := startWith(b, feed, newRecording(), func(c *sidecar.Config) { c.Meters, c.Recorder = m, nil })
			defer stop()
			testkit.Closed(b, "s is ready", s.Ready())
			b.ReportAllocs()
			for b.Loop() {
				if s.Check(b.Context(), request("GET", nil)).Effect != authz.Allow {
					b.Fatal("denied")
				}
			}
			b.ReportMetric(float64(m.count(b, "understudy.preview.dropped"))/float64(b.N), "shed/op")
		})
	}
}
