package sidecar_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/authz/sidecar"
	"understudy/cmd/testkit"
	"understudy/rego"
)

const (
	location = authz.Location("projects/p1/locations/l1")
	webName  = "projects/p1/locations/l1/policies/web"
)

// memoryFeed is a Feed that a test writes to. The contract suite of the stores
// holds the real ones to the same.
type memoryFeed struct {
	mu     sync.Mutex
	cursor authz.Cursor
	// last is the last number that was given: it never goes back.
	last int64
	// watermark and ahead are those of the answers to heartbeats.
	watermark int64
	ahead     int
	policies  map[authz.PolicyName]authz.PolicyState
	changed   chan struct{}
	// log :: sequence → the policy that changed with it.
	log   map[int64]authz.PolicyName
	down  bool
	trim  bool
	left  []string
	loads int
	nodes chan *adminpb.Node
}

func newFeed() *memoryFeed {
	return &memoryFeed{
		policies: make(map[authz.PolicyName]authz.PolicyState),
		changed:  make(chan struct{}),
		log:      make(map[int64]authz.PolicyName),
		nodes:    make(chan *adminpb.Node, 1000),
	}
}

var errDown = errors.New("the store is down")

// put changes a policy; one with a nil Policy is deleted.
func (f *memoryFeed) put(name authz.PolicyName, state authz.PolicyState) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	f.cursor = authz.Cursor{Sequence: f.last, Nonce: "n" + strconv.FormatInt(f.last, 10)}
	state.Sequence = f.last
	f.policies[name] = state
	f.log[f.cursor.Sequence] = name
	close(f.changed)
	f.changed = make(chan struct{})
	return f.cursor.Sequence
}

func (f *memoryFeed) setDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
	close(f.changed)
	f.changed = make(chan struct{})
}

// loaded returns how often everything was asked for.
func (f *memoryFeed) loaded() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loads
}

func (f *memoryFeed) Load(_ context.Context, of authz.Scope) (authz.Update, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads++
	if f.down {
		return authz.Update{}, errDown
	}
	f.trim = false
	u := authz.Update{Cursor: f.cursor, Policies: make(map[authz.PolicyName]authz.PolicyState)}
	for name, state := range f.policies {
		if of.Has(name) {
			u.Policies[name] = state
		}
	}
	return u, nil
}

func (f *memoryFeed) Next(ctx context.Context, of authz.Scope, after authz.Cursor) (authz.Update, error) {
	for {
		f.mu.Lock()
		changed := f.changed
		if f.down {
			f.mu.Unlock()
			return authz.Update{}, errDown
		}
		if f.trim || f.cursor.Sequence <= after.Sequence && f.cursor != after {
			f.mu.Unlock()
			return authz.Update{}, authz.ErrTrimmed
		}
		if f.cursor != after {
			u := authz.Update{Cursor: f.cursor, Policies: make(map[authz.PolicyName]authz.PolicyState)}
			for s := after.Sequence + 1; s <= f.cursor.Sequence; s++ {
				if name, changed := f.log[s]; changed && of.Has(name) {
					u.Policies[name] = f.policies[name]
				}
			}
			f.mu.Unlock()
			return u, nil
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return authz.Update{}, ctx.Err()
		case <-changed:
		}
	}
}

func (f *memoryFeed) Heartbeat(_ context.Context, n *adminpb.Node) (authz.Head, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case f.nodes <- n:
	default:
	}
	if f.down {
		return authz.Head{}, errDown
	}
	return authz.Head{Cursor: f.cursor, Watermark: f.watermark, Ahead: f.ahead}, nil
}

func (f *memoryFeed) Chunk(context.Context, authz.Content, int) ([]byte, error) {
	return nil, authz.ErrNoChunk
}

func (f *memoryFeed) Leave(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = append(f.left, name)
	return nil
}

// awaitNode returns the first report that the condition likes.
func (f *memoryFeed) awaitNode(t testing.TB, like func(*adminpb.Node) bool) *adminpb.Node {
	t.Helper()
	for {
		if n := testkit.Receive(t, "a report of the node that the test waits for", f.nodes); like(n) {
			return n
		}
	}
}

func (f *memoryFeed) awaitApplied(t testing.TB, sequence int64) {
	t.Helper()
	f.awaitNode(t, func(n *adminpb.Node) bool { return n.AppliedSequence >= sequence })
}

// policy returns a live policy with one module.
func policy(etag, module string) *adminpb.Policy {
	p := &adminpb.Policy{Name: webName, Etag: etag}
	if module != "" {
		p.Rules = []*adminpb.PolicyRule{{RuleId: "main", Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}}
		p.Modules = map[string]string{"authz.rego": module}
	}
	return p
}

func experiment(id, etag, module string) *adminpb.PolicyExperiment {
	return &adminpb.PolicyExperiment{Name: webName + "/experiments/" + id, Etag: etag, Policy: policy("", module)}
}

// allowIf is a module that allows when the body of a rule holds.
func allowIf(body string) string {
	return "package envoy.authz\ndefault allow := false\nallow if { " + body + " }"
}

// request returns a request whose input has the method, and what is given.
func request(method string, more map[string]any) *authz.Request {
	document := map[string]any{"method": method}
	for k, v := range more {
		document[k] = v
	}
	return &authz.Request{
		ID: "id", Operation: authz.OperationCheck, Method: method, Path: "/x", Host: "h", Principal: "p",
		Source: func(*authz.ReadBudget) (rego.Input, error) { return rego.NewInput(document) },
	}
}

// recording keeps records in memory. It implements sdklog.Exporter.
type recording struct {
	mu      sync.Mutex
	records []record
	arrived chan struct{}
}

type record struct {
	body       string
	severity   string
	event      string
	traceID    string
	spanID     string
	time       time.Time
	attributes map[string]string
}

func newRecording() *recording { return &recording{arrived: make(chan struct{}, 100_000)} }

func (r *recording) Export(_ context.Context, records []sdklog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range records {
		out := record{
			body: in.Body().AsString(), severity: in.Severity().String(), event: in.EventName(),
			traceID: in.TraceID().String(), spanID: in.SpanID().String(), time: in.Timestamp(), attributes: make(map[string]string),
		}
		in.WalkAttributes(func(kv attribute.KeyValue) bool {
			out.attributes[string(kv.Key)] = kv.Value.String()
			return true
		})
		r.records = append(r.records, out)
		r.arrived <- struct{}{}
	}
	return nil
}

func (r *recording) ForceFlush(context.Context) error { return nil }
func (r *recording) Shutdown(context.Context) error   { return nil }

func (r *recording) await(t testing.TB, n int) []record {
	t.Helper()
	for i := range n {
		testkit.Receive(t, fmt.Sprintf("record %d of %d", i+1, n), r.arrived)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]record{}, r.records...)
}

// start runs a sidecar on a feed until the test ends.
func start(t testing.TB, feed authz.Feed, change func(*sidecar.Config)) (*sidecar.Sidecar, *recording) {
	t.Helper()
	rec := newRecording()
	s, stop := startWith(t, feed, rec, change)
	t.Cleanup(stop)
	return s, rec
}

// recordingProvider hands each record to an exporter at once.
func recordingProvider(exporter sdklog.Exporter) *sdklog.LoggerProvider {
	return sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(exporter)))
}

// startWith runs a sidecar that records to an exporter until stop is called.
func startWith(
	t testing.TB, feed authz.Feed, exporter sdklog.Exporter, change func(*sidecar.Config),
) (s *sidecar.Sidecar, stop func()) {
	t.Helper()
	config := sidecar.Config{
		Feed: feed, Scope: authz.Scope{Location: location}, Policy: "web", Node: "n1",
		Experiments: sidecar.Experiments{
			Recorder: rehearsal.NewRecorder(recordingProvider(exporter), rehearsal.PreviewLog{}), Rehearsal: supervisortest.New(t),
		},
	}
	if change != nil {
		change(&config)
	}
	// However busy the machine is, only a test that sets a time limit reaches it.
	config.Preview.Timeout = cmp.Or(config.Preview.Timeout, time.Hour)
	// What a comparison is explained with may take longer than a test, and ends with this.
	config.Preview.Drain = cmp.Or(config.Preview.Drain, testkit.Patience/3)
	config.DecisionLog.Drain = cmp.Or(config.DecisionLog.Drain, testkit.Patience)
	config.DecisionLog.Timeout = cmp.Or(config.DecisionLog.Timeout, time.Hour)
	config.External.Timeout = cmp.Or(config.External.Timeout, testkit.Patience)
	s, err := sidecar.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, sync.OnceFunc(func() {
		cancel()
		if err := testkit.Receive(t, "the sidecar to end", done); err != nil {
			t.Error(err)
		}
	})
}

// meter is a real meter provider that a test reads.
type meter struct {
	*sdkmetric.MeterProvider
	reader *sdkmetric.ManualReader
}

func newMeter() meter {
	reader := sdkmetric.NewManualReader()
	return meter{sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), reader}
}

// count returns the sum of a counter over the series that have all the labels.
func (m meter) count(t testing.TB, name string, labels ...attribute.KeyValue) int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	var sum int64
	for _, scope := range all.ScopeMetrics {
		for _, found := range scope.Metrics {
			data, ok := found.Data.(metricdata.Sum[int64])
			if !ok || found.Name != name {
				continue
			}
			for _, p := range data.DataPoints {
				if hasAll(p.Attributes, labels) {
					sum += p.Value
				}
			}
		}
	}
	return sum
}

// gauge returns the value of a gauge without labels.
func (m meter) gauge(t testing.TB, name string) int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, found := range scope.Metrics {
			if data, ok := found.Data.(metricdata.Gauge[int64]); ok && found.Name == name {
				return data.DataPoints[0].Value
			}
		}
	}
	t.Fatalf("there is no gauge %s", name)
	return 0
}

func hasAll(set attribute.Set, labels []attribute.KeyValue) bool {
	for _, l := range labels {
		if v, ok := set.Value(l.Key); !ok || v != l.Value {
			return false
		}
	}
	return true
}

func (f *memoryFeed) Publish(context.Context, string, []authz.PublishedEvidence) (authz.Publication, error) {
	return authz.Publication{Nodes: 1}, nil
}
