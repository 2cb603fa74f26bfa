package examine

import (
	"sync"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor/supervisortest"
)

// noise counts what Sample says.
type noise struct {
	mu                sync.Mutex
	sampled, differed int
	kinds             map[authz.Difference]int
}

func (n *noise) count(d authz.Difference) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sampled++; d == authz.Unchanged {
		return
	}
	if n.kinds == nil {
		n.kinds = make(map[authz.Difference]int)
	}
	n.differed++
	n.kinds[d]++
}

// sample samples a request, if it is drawn.
func (e *examined) sample(s *Subject, n *noise) {
	if e.Draw(&e.sampled) {
		e.Sample(s, &e.sampled, n.count)
	}
	e.Wait()
}

// sampled has n requests decided by the live policy, each of which may be sampled.
func sampled(t *testing.T, live *adminpb.Policy, dice uint64, n int) (*examined, *noise) {
	t.Helper()
	r, out := examining(t, supervisortest.New(t), live, rehearsaltest.Allowing(`input.x == "b"`)), &noise{}
	r.dice = func() uint64 { return dice }
	for range n {
		r.sample(r.subject(t, rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0))), out)
	}
	return r, out
}

// TestAPolicyThatDiffersFromItself decides by chance: about every second time otherwise, so
// that none of so many has a chance of 10^-30.
func TestAPolicyThatDiffersFromItself(t *testing.T) {
	r, got := sampled(t, rehearsaltest.Module(`default allow := false
allow if rand.intn("x", 2) == 1`),
		0, 100)
	if got.sampled != 100 || got.differed == 0 || got.differed == 100 {
		t.Errorf("got %+v; want 100 sampled, of which some differed", got)
	}
	if got.kinds[authz.NewlyAllowed]+got.kinds[authz.NewlyDenied] != got.differed || len(got.kinds) != 2 {
		t.Errorf("got the kinds %v; want both effects to have changed, %d times", got.kinds, got.differed)
	}
	if n := r.sampling.Load(); n != 0 {
		t.Errorf("%d are under way, want none", n)
	}
}

// TestAPolicyThatAgreesWithItself has the clock of the request, a decision that is cached, an
// undefined rule, and texts that differ where nobody sees it.
func TestAPolicyThatAgreesWithItself(t *testing.T) {
	for name, live := range map[string]*adminpb.Policy{
		"cached":    rehearsaltest.Allowing(`input.x == "a"`),
		"undefined": rehearsaltest.Allowing(`input.x == "z"`),
		"the clock": rehearsaltest.Allowing(`time.now_ns() == 1700000000000000000`),
		"a reason":  rehearsaltest.Module(`allow := {"allowed": false, "body": "no", "reason": uuid.rfc4122("x")}`),
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := sampled(t, live, 0, 20); got.sampled != 20 || got.differed != 0 || len(got.kinds) > 0 {
				t.Errorf("got %+v; want 20 that are the same", got)
			}
		})
	}
}

// TestTheFirstRequestsAreSampled whatever chance says; of the others one in so many is.
func TestTheFirstRequestsAreSampled(t *testing.T) {
	for _, tt := range []struct {
		dice uint64
		want int
	}{{1, sampleFirst}, {sampleEvery, 30}} {
		if _, got := sampled(t, rehearsaltest.Allowing(`input.x == "a"`), tt.dice, 30); got.sampled != tt.want {
			t.Errorf("dice %d: %d are sampled, want %d", tt.dice, got.sampled, tt.want)
		}
	}
}

// TestWhatCannotBeSampledIsNot counted: no process, no policy, too many.
func TestWhatCannotBeSampledIsNot(t *testing.T) {
	for name, spoil := range map[string]func(*examined, *Subject){
		"too many are under way": func(r *examined, _ *Subject) { r.sampling.Store(maxSampling) },
		"no memory":              func(_ *examined, s *Subject) { s.Bytes = 1 << 30 },
		"no process":             func(r *examined, _ *Subject) { r.process.Close() },
		"an end":                 func(_ *examined, s *Subject) { s.Request.Operation = authz.OperationOnEnd },
		"it ran out of time":     func(_ *examined, s *Subject) { s.Decision = authz.Failed(authz.FailureDeadline, "") },
	} {
		t.Run(name, func(t *testing.T) {
			r, got := examining(t, supervisortest.New(t), rehearsaltest.Allowing(`input.x == "a"`), rehearsaltest.Allowing(`input.x == "b"`)), &noise{}
			s := r.subject(t, rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0)))
			spoil(r, s)
			r.sample(s, got)
			if got.sampled != 0 {
				t.Errorf("got %+v, want nothing", got.kinds)
			}
		})
	}
}
