package rehearsal

import (
	"maps"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/rehearsal/supervisor/supervisortest"
)

// sampled has n requests decided by the live policy, each of which may be sampled.
func sampled(t *testing.T, live *adminpb.Policy, dice uint64, n int) (*rehearsed, Noise) {
	t.Helper()
	r := rehearse(t, supervisortest.New(t), live, allowing(`input.x == "b"`))
	r.shadow.dice = func() uint64 { return dice }
	for range n {
		c := r.comparing(t, readAs(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0)))
		r.shadow.sample(&c.job)
		r.shadow.underWay.Wait()
	}
	return r, r.experiment.Noise()
}

// TestAPolicyThatDiffersFromItself decides by chance: about every second time otherwise, so
// that none of so many has a chance of 10^-30.
func TestAPolicyThatDiffersFromItself(t *testing.T) {
	r, got := sampled(t, module(`default allow := false
allow if rand.intn("x", 2) == 1`), 0, 100)
	if got.Sampled != 100 || got.Differed == 0 || got.Differed == 100 {
		t.Errorf("got %+v; want 100 sampled, of which some differed", got)
	}
	if got.Kinds[authz.NewlyAllowed]+got.Kinds[authz.NewlyDenied] != got.Differed || len(got.Kinds) != 2 {
		t.Errorf("got the kinds %v; want both verdicts to have changed, %d times", got.Kinds, got.Differed)
	}
	r.shadow.underWay.Wait()
	if n := r.shadow.bytes.Load(); n != 0 || r.shadow.sampling.Load() != 0 {
		t.Errorf("%d bytes are held, want none", n)
	}
	if n := counted(t, r.reader, "understudy.verification.mismatches", ""); n != 0 {
		t.Errorf("%d mismatches of shortcuts are counted; want none, for it is chance", n)
	}
}

// TestAPolicyThatAgreesWithItself has the clock of the request, a decision that is cached, an
// undefined rule, and texts that differ where nobody sees it.
func TestAPolicyThatAgreesWithItself(t *testing.T) {
	for name, live := range map[string]*adminpb.Policy{
		"cached":    allowing(`input.x == "a"`),
		"undefined": allowing(`input.x == "z"`),
		"the clock": allowing(`time.now_ns() == 1700000000000000000`),
		"a reason":  module(`allow := {"allowed": false, "body": "no", "reason": uuid.rfc4122("x")}`),
	} {
		t.Run(name, func(t *testing.T) {
			if _, got := sampled(t, live, 0, 20); got.Sampled != 20 || got.Differed != 0 || len(got.Kinds) > 0 {
				t.Errorf("got %+v; want 20 that are the same", got)
			}
		})
	}
}

// TestTheFirstRequestsAreSampled whatever chance says; of the others one in so many is.
func TestTheFirstRequestsAreSampled(t *testing.T) {
	for _, tt := range []struct {
		dice uint64
		want int64
	}{{1, sampleFirst}, {sampleEvery, 30}} {
		if _, got := sampled(t, allowing(`input.x == "a"`), tt.dice, 30); got.Sampled != tt.want {
			t.Errorf("dice %d: %d are sampled, want %d", tt.dice, got.Sampled, tt.want)
		}
	}
}

// TestAllExperimentsOfAPolicyHaveItsNoise samples once for two of them.
func TestAllExperimentsOfAPolicyHaveItsNoise(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), allowing(`input.x == "a"`), allowing(`input.x == "b"`))
	c := r.comparing(t, readAs(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0)))
	other := NewExperiment(r.experiment.Version, r.experiment.Candidate)
	c.job.experiments = append(c.job.experiments, other)
	r.shadow.sample(&c.job)
	r.shadow.underWay.Wait()
	if a, b := r.experiment.Noise(), other.Noise(); a.Sampled != 1 || b.Sampled != 1 || !maps.Equal(a.Kinds, b.Kinds) {
		t.Errorf("got %+v and %+v, want one sample of each", a, b)
	}
}

// TestWhatCannotBeSampledIsNot counted: no process, no policy, too many.
func TestWhatCannotBeSampledIsNot(t *testing.T) {
	for name, spoil := range map[string]func(*rehearsed, *comparing){
		"too many are under way": func(r *rehearsed, _ *comparing) { r.shadow.sampling.Store(maxSampling) },
		"no memory":              func(r *rehearsed, c *comparing) { r.shadow.bytes.Store(int64(r.shadow.config.Limits.QueueBytes)) },
		"no process":             func(r *rehearsed, _ *comparing) { r.shadow.config.Process.Close() },
		"an end":                 func(_ *rehearsed, c *comparing) { c.job.request.Operation = authz.OperationOnEnd },
		"it ran out of time":     func(_ *rehearsed, c *comparing) { c.job.decision = authz.Failed(authz.FailureDeadline, "") },
	} {
		t.Run(name, func(t *testing.T) {
			r := rehearse(t, supervisortest.New(t), allowing(`input.x == "a"`), allowing(`input.x == "b"`))
			c := r.comparing(t, readAs(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0)))
			spoil(r, c)
			r.shadow.sample(&c.job)
			r.shadow.underWay.Wait()
			if got := r.experiment.Noise(); got.Sampled != 0 {
				t.Errorf("got %+v, want nothing", got)
			}
		})
	}
}
