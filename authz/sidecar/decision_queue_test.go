package sidecar_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdklog "go.opentelemetry.io/otel/sdk/log"

	"understudy/authz"
	"understudy/authz/decisionlog"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
	"understudy/rego"
)

// stuckExporter does not return before it is released.
type stuckExporter struct {
	*recording
	begun, release chan struct{}
}

func newStuckExporter() *stuckExporter {
	return &stuckExporter{newRecording(), make(chan struct{}, 1000), make(chan struct{})}
}

func (e *stuckExporter) Export(ctx context.Context, records []sdklog.Record) error {
	e.begun <- struct{}{}
	<-e.release
	return e.recording.Export(ctx, records)
}

// live returns a feed with a policy and nothing else.
func live(module string) *memoryFeed {
	feed := newFeed()
	feed.put(webName, authz.PolicyState{Policy: policy("live", module)})
	return feed
}

// TestAStuckLogDelaysNoEffect asks while nothing takes the events away: what does
// not fit the queue is shed and counted.
func TestAStuckLogDelaysNoEffect(t *testing.T) {
	m, exporter := newMeter(), newStuckExporter()
	s, stop := startWith(t, live(allowIf(onlyGET)), newRecording(), func(c *sidecar.Config) {
		c.Meters = m
		logTo(exporter, func(l *decisionlog.Config) { l.Workers, l.Queue = 1, 2 })(c)
	})
	testkit.Closed(t, "s is ready", s.Ready())
	s.Check(t.Context(), request("GET", nil))
	testkit.Closed(t, "an export to begin", exporter.begun)
	for range 100 {
		if d := s.Check(t.Context(), request("GET", nil)); d.Effect != authz.Allow {
			t.Fatalf("got %+v; want it allowed", d)
		}
	}
	// One is under way, two wait.
	if got := m.count(t, "understudy.decision_log.dropped", label("reason", "queue_full")); got != 98 {
		t.Errorf("%d events are shed, want 98", got)
	}
	close(exporter.release)
	stop()
	if got := len(exporter.await(t, 3)); got != 3 {
		t.Errorf("%d events are written, want 3: what waits at shutdown is written", got)
	}
	if got := m.count(t, "understudy.decision_log.events", label("outcome", "written")); got != 3 {
		t.Errorf("%d events are counted, want 3", got)
	}
}

func TestLargeRequestsDoNotPileUpInTheLog(t *testing.T) {
	m, exporter := newMeter(), newStuckExporter()
	s, stop := startWith(t, live(allowIf(onlyGET)), newRecording(), func(c *sidecar.Config) {
		c.Meters = m
		logTo(exporter, func(l *decisionlog.Config) { l.Workers, l.QueueBytes = 1, 1000 })(c)
	})
	testkit.Closed(t, "s is ready", s.Ready())
	for i := range 4 {
		r := request("GET", nil)
		r.Size = 400
		s.Check(t.Context(), r)
		if i == 0 {
			testkit.Closed(t, "an export to begin", exporter.begun)
		}
	}
	if got := m.count(t, "understudy.decision_log.dropped", label("reason", "queue_bytes")); got != 2 {
		t.Errorf("%d events are shed, want 2", got)
	}
	close(exporter.release)
	stop()
	s.Check(t.Context(), request("GET", nil))
	if got := m.count(t, "understudy.decision_log.dropped", label("reason", "shutdown")); got != 1 {
		t.Errorf("%d events are shed after the end, want 1", got)
	}
}

func TestAPanicInTheLogCostsOneEvent(t *testing.T) {
	m := newMeter()
	s, stop := startWith(t, live(allowIf(onlyGET)), newRecording(), func(c *sidecar.Config) {
		c.Meters = m
		logTo(brokenExporter{})(c)
	})
	t.Cleanup(stop)
	testkit.Closed(t, "s is ready", s.Ready())
	for range 2 {
		s.Check(t.Context(), request("GET", nil))
	}
	testkit.Await(t, "counting both", func() bool {
		return m.count(t, "understudy.decision_log.dropped", label("reason", "panic")) == 2
	})
}

// TestAMaskThatRunsOutOfTime writes the event without what it might have masked.
func TestAMaskThatRunsOutOfTime(t *testing.T) {
	feed, rec := newFeed(), newRecording()
	p := policy("live", allowIf(onlyGET))
	p.Modules["log.rego"] = "package system.log\nmask contains \"/input/token\" if " + slow
	feed.put(webName, authz.PolicyState{Policy: p})
	s, _ := start(t, feed, logTo(rec, func(l *decisionlog.Config) { l.Timeout = time.Millisecond }))
	testkit.Closed(t, "s is ready", s.Ready())
	r := request("GET", map[string]any{"token": "secret"})
	source := r.Source
	r.Source = func(*authz.ReadBudget) (rego.Input, error) { return source(nil) }
	s.Check(t.Context(), r)
	got := rec.await(t, 1)[0].body
	for _, want := range []string{`"erased":["/input","/result"]`, `"code":"MASK_FAILED"`, `asking system/log/mask: context deadline exceeded`} {
		if !contains(got, want) {
			t.Errorf("the event has no %s: %s", want, got)
		}
	}
	if contains(got, "secret") {
		t.Error("the event has what was to be masked")
	}
}

// nowhere takes events and keeps nothing.
type nowhere struct{}

func (nowhere) Export(context.Context, []sdklog.Record) error { return nil }
func (nowhere) ForceFlush(context.Context) error              { return nil }
func (nowhere) Shutdown(context.Context) error                { return nil }

// BenchmarkDecisionLog is the cost of a live answer and of its event together: no
// check is asked before the event of the one before is written.
func BenchmarkDecisionLog(b *testing.B) {
	for name, rules := range map[string]string{
		"plain": "package system.log",
		"masks": "package system.log\nmask := [\"/input/attributes/source/principal\", \"/result\"]\ndrop if input.path == \"x\"",
	} {
		b.Run(name, func(b *testing.B) {
			feed, rec := newFeed(), &sync.WaitGroup{}
			p := policy("live", allowIf("input.attributes"))
			p.Modules["log.rego"] = rules
			feed.put(webName, authz.PolicyState{Policy: p})
			s, stop := startWith(b, feed, nowhere{}, logTo(counting{nowhere{}, rec}))
			defer stop()
			testkit.Closed(b, "s is ready", s.Ready())
			document := `{"attributes": {"source": {"principal": "spiffe://x/web"}, "request": {"http": {"path": "/a", "headers": {` +
				strings.Repeat(`"x-a-header-of-the-usual-kind-`+"%"+`": "and its value, which is longer",`, 20) + `"authorization": "Bearer 0123456789"}}}}}`
			for i := range 20 {
				document = strings.Replace(document, "%", strconv.Itoa(i), 1)
			}
			b.ReportAllocs()
			for b.Loop() {
				rec.Add(1)
				s.Check(b.Context(), requestOf(b, document))
				rec.Wait()
			}
		})
	}
}

// counting reports each event.
type counting struct {
	nowhere
	events *sync.WaitGroup
}

func (c counting) Export(_ context.Context, records []sdklog.Record) error {
	for range records {
		c.events.Done()
	}
	return nil
}
