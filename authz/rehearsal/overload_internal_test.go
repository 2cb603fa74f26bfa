package rehearsal

import (
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"understudy/authz/background"
	"understudy/authz/evidence"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/cmd/testkit"
)

// heldChild is a rehearsal process that receives nothing while the test holds the lock.
type heldChild struct {
	supervisor.Child
	held *sync.Mutex
}

func (c heldChild) Write(message []byte) (int, error) {
	c.held.Lock()
	defer c.held.Unlock()
	return c.Child.Write(message)
}

// TestEachRequestThatFindsTheQueueFullIsCounted offers requests to a candidate that decides none of
// them for now, and whose queue has room for one. Each request is compared or counted as dropped.
func TestEachRequestThatFindsTheQueueFullIsCounted(t *testing.T) {
	const requests = 100
	var held sync.Mutex
	process, err := supervisor.New(supervisor.Config{
		Start: func() (supervisor.Child, error) {
			child, err := supervisortest.Start()
			return heldChild{child, &held}, err
		},
		Memory: 1 << 40, CompileTime: time.Hour, StuckTime: time.Hour, Gathering: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Close)
	policy := rehearsaltest.Allowing(`input.x == "a"`)
	r := rehearse(t, process, policy, policy)
	r.shadow.config.Limits.Queue = 1
	candidate := r.shadow.NewCandidate(r.experiment.Name, policy)
	t.Cleanup(candidate.Close)
	testkit.Closed(t, "candidate is ready", candidate.Ready())
	if err := candidate.Err(); err != nil {
		t.Fatal(err)
	}
	r.experiment = NewExperiment(candidate, "3")
	r.experiment.Evidence = evidence.NewTally(evidence.Content{Experiment: r.experiment.Name, UID: "uid", Etag: "3"}, nil, evidence.NewPatterns())

	held.Lock()
	for range requests {
		c := r.comparing(t, rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0)))
		r.shadow.one(&c.job, r.experiment)
	}
	held.Unlock()
	r.shadow.underWay.Wait()
	r.shadow.examiner.Wait()

	pair := r.experiment.Evidence.Snapshot(time.Unix(1_700_000_001, 0)).GetPairs()[0]
	compared, dropped := pair.GetCounts().GetBothAllow(), pair.GetCounts().GetDropped()
	if compared+dropped != requests || compared == 0 || dropped == 0 {
		t.Errorf("%d requests are compared and %d dropped; want some of each, and %d in all", compared, dropped, requests)
	}
	reason := string(background.DropQueueFull)
	if got := pair.GetDrops()[reason]; got != dropped {
		t.Errorf("of %d requests that are dropped, %d found the queue full; want all", dropped, got)
	}
	if got := r.reader.Count(t, "understudy.preview.dropped", attribute.String("reason", reason)); got != dropped {
		t.Errorf("the metric counts %d requests that found the queue full, want %d", got, dropped)
	}
}
