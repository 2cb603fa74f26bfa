package authz

import (
	"context"
	"crypto/sha256"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	adminpb "understudy/admin/v1"
	"understudy/rego"
)

// readAs is a request of which policies read one document, by shortcut as well as
// whole.
func readAs(document map[string]any, now time.Time) *Request {
	input := func() (rego.Input, error) { return rego.NewInput(document) }
	return &Request{ID: "id", Operation: OperationCheck, Time: now, Source: input, Projector: projectorOf{document["x"], input}}
}

// projectorOf makes the same input for every set.
type projectorOf struct {
	x     any
	input func() (rego.Input, error)
}

func (p projectorOf) Key(_ *ReadSet, b []byte) []byte {
	text, _ := p.x.(string)
	return append(b, text...)
}

func (p projectorOf) Input(*ReadSet) (rego.Input, error) { return p.input() }

// verifying is a sidecar that follows nothing, with one policy that has a memory.
func verifying(t *testing.T, condition string) (*Sidecar, *entry, *sdkmetric.ManualReader) {
	t.Helper()
	return verifyingPolicy(t, allowing("1", condition))
}

func verifyingPolicy(t *testing.T, policy *adminpb.Policy) (*Sidecar, *entry, *sdkmetric.ManualReader) {
	t.Helper()
	reader := sdkmetric.NewManualReader()
	s, err := NewSidecar(Config{
		Feed: nobody{}, Location: "projects/p1/locations/l1", Node: "n",
		Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		// Nothing here is decided by the time that it takes; see TestVerifyingEndsInTime.
		Preview: PreviewConfig{Timeout: time.Hour},
	})
	if err != nil {
		t.Fatal(err)
	}
	next := (&snapshot{}).with(t.Context(), Update{Policies: map[PolicyName]PolicyState{web: state(policy)}})
	s.giveMemory(next)
	return s, next.policies[web], reader
}

// nobody is a Feed that is never asked.
type nobody struct{ Feed }

// mismatches returns how many are counted.
func mismatches(t *testing.T, reader *sdkmetric.ManualReader) (n int64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "understudy.verification.mismatches" {
				n += data.DataPoints[0].Value
			}
		}
	}
	return n
}

// TestAWrongShortcutEndsAllOfItsPolicy remembers a decision that is wrong: it is found
// out, counted, and never used again.
func TestAWrongShortcutEndsAllOfItsPolicy(t *testing.T) {
	s, e, reader := verifying(t, `input.x == "a"`)
	now := time.Unix(1_700_000_000, 0)
	ask := func() *Request { return readAs(map[string]any{"x": "b"}, now) }
	wrong := Decision{Verdict: Allow, Plain: true, Value: true, until: forever}
	e.live.policy.memory.keep(sha256.Sum256([]byte("b")), wrong, now)

	d := s.decideLive(t.Context(), e, ask())
	if d.Verdict != Allow {
		t.Fatalf("got %+v; want the one that is remembered", d)
	}
	s.shadow.verify(t.Context(), rehearsal{entry: e, request: ask(), live: d, verify: true})
	if n := mismatches(t, reader); n != 1 {
		t.Errorf("%d mismatches are counted, want 1", n)
	}
	if d := s.decideLive(t.Context(), e, ask()); d.Verdict != Deny {
		t.Errorf("got %+v; want what the whole input gives", d)
	}
	if s.dueForVerification(e, ask(), d) {
		t.Error("what takes no shortcut is verified")
	}
}

// TestARightShortcutStays verifies the decision that the whole input gives.
func TestARightShortcutStays(t *testing.T) {
	s, e, reader := verifying(t, `input.x == "a"`)
	r := readAs(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0))
	for range 2 { // made, then remembered
		d := s.decideLive(t.Context(), e, r)
		s.shadow.verify(t.Context(), rehearsal{entry: e, request: r, live: d, verify: true})
	}
	if n := mismatches(t, reader); n != 0 || e.live.policy.distrusted.Load() {
		t.Errorf("%d mismatches are counted, want none", n)
	}
}

// TestWhatIsVerified decides so often that one decision is due, if any ever is: not
// where the chain that is run again says something else by right.
func TestWhatIsVerified(t *testing.T) {
	change := func(f func(*adminpb.Policy)) *adminpb.Policy {
		p := allowing("1", `input.x == "a"`)
		f(p)
		return p
	}
	service := &adminpb.PolicyRule{RuleId: "s", Filter: &adminpb.PolicyRule_ExternalService{ExternalService: &adminpb.ExternalServiceFilter{EndpointUrl: "https://usage.example.com"}}}
	for name, tt := range map[string]struct {
		policy *adminpb.Policy
		due    int
	}{
		"a rule":                   {change(func(*adminpb.Policy) {}), 1},
		"all of the input is read": {change(func(p *adminpb.Policy) { p.Modules["a.rego"] = "package envoy.authz\nallow if count(input) == 1" }), 1},
		"a clock":                  {allowing("1", `{ round(time.now_ns() / 1000000000) > 5; input.x == "a" }`), 1},
		"dice":                     {allowing("1", `{ rand.intn("x", 2) == 1; input.x == "b" }`), 0},
		"a modifier":               {allowing("1", `input.x == "a" with input.x as "a"`), 0},
		"no rules":                 {change(func(p *adminpb.Policy) { p.Rules = nil }), 0},
		"an exempted project":      {change(func(p *adminpb.Policy) { p.ExemptedProjects = []string{"free"} }), 0},
		"an external service":      {change(func(p *adminpb.Policy) { p.Rules = append(p.Rules, service) }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, e, reader := verifyingPolicy(t, tt.policy)
			due := 0
			for range verifyEvery {
				r := readAs(map[string]any{"x": "b"}, time.Unix(1_700_000_000, 0))
				r.Project = Project{ID: "free"}
				d := s.decideLive(t.Context(), e, r)
				if s.dueForVerification(e, r, d) {
					due++
					s.shadow.verify(t.Context(), rehearsal{entry: e, request: r, live: d, verify: true})
				}
			}
			if n := mismatches(t, reader); due != tt.due || n != 0 {
				t.Errorf("%d are verified and %d mismatches counted, want %d and none", due, n, tt.due)
			}
		})
	}
}

// TestVerifyingEndsInTime: who decides again is bounded as an experiment is, and an
// evaluation that has not ended proves nothing.
func TestVerifyingEndsInTime(t *testing.T) {
	s, e, reader := verifying(t, `count([1 | some a in numbers.range(1, 100000); some b in numbers.range(1, 100000); a == b]) == 1`)
	s.shadow.timeout = time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r := readAs(nil, time.Unix(1_700_000_000, 0))
	s.shadow.verify(ctx, rehearsal{entry: e, request: r, live: Decision{Verdict: Allow, Plain: true}, verify: true})
	if ctx.Err() != nil {
		t.Error("only the test ended it")
	}
	if n := mismatches(t, reader); n != 0 {
		t.Errorf("%d mismatches are counted, want none", n)
	}
}
