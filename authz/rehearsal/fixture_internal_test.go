package rehearsal

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/cache"
	"understudy/authz/diagnostics"
	"understudy/authz/diagnostics/metrictest"
	"understudy/authz/rehearsal/decisionrequest"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/cmd/testkit"
)

// rehearsed is a shadow with a live policy and one experiment.
type rehearsed struct {
	shadow     *Shadow
	live       *decisionrequest.Live
	experiment *Experiment
	reader     metrictest.Metrics
	log        *bytes.Buffer
}

// rehearse compiles both policies.
func rehearse(t testing.TB, process *supervisor.Supervisor, live, candidate *adminpb.Policy) *rehearsed {
	t.Helper()
	reader, out := metrictest.New(), &bytes.Buffer{}
	logger := slog.New(slog.NewTextHandler(out, nil))
	s, err := New(Config{
		Limits: Limits{Timeout: time.Hour}, Bodies: authz.NewBodyMemory(0), Process: process,
		Output: diagnostics.Output{
			Logger: logger, Meters: reader.Provider,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := authz.Compile(t.Context(), live)
	if err != nil {
		t.Fatal(err)
	}
	r := &rehearsed{shadow: s, reader: reader, log: out}
	r.live = &decisionrequest.Live{Name: "policies/web", Etag: "1", Policy: cache.NewPolicy(compiled), Source: rehearsaltest.Packed(t, live)}
	if err := r.live.Policy.SetSize(100); err != nil {
		t.Fatal(err)
	}
	c := s.NewCandidate("policies/web/experiments/next", candidate)
	testkit.Closed(t, "c is ready", c.Ready())
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r.experiment = NewExperiment(c, "2")
	return r
}

// pendingComparison is the comparison of a request that is to be made.
func (r *rehearsed) comparing(t testing.TB, request *authz.Request) *pendingComparison {
	d := r.live.Policy.Decide(t.Context(), request, authz.Conditions{})
	j := job{ctx: t.Context(), live: r.live, experiments: []*Experiment{r.experiment}, request: request, decision: d, bytes: 100}
	return &pendingComparison{shadow: r.shadow, job: j, experiment: r.experiment}
}
