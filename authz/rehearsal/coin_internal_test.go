package rehearsal

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"google.golang.org/protobuf/proto"

	"understudy/authz/background"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor/supervisortest"
	"understudy/cmd/testkit"
)

// overload is traffic of three times what the process can do: cheap requests that come steadily, and expensive
// ones that come in bursts, a second of each five.
type overload struct {
	coin  coin
	dice  *rand.Rand
	queue []time.Duration // what those that wait cost
	free  time.Duration   // when the process will have done all of them
	// offered, and those that were drawn by class: their number, weights and squares.
	offered, drawn, weights, squares [2]float64
	lost                             float64
}

const (
	simulatedQueue = 4096
	cheap          = 200 * time.Microsecond
	expensive      = 2 * time.Millisecond
	simulated      = 40 * time.Second
)

// one has a request come at a time.
func (o *overload) one(now time.Duration, class int, cost time.Duration) {
	for len(o.queue) > 0 && o.free+o.queue[0] <= now {
		o.free += o.queue[0]
		o.queue = o.queue[1:]
	}
	if len(o.queue) == 0 {
		o.free = max(o.free, now)
	}
	o.offered[class]++
	filled := func() float64 { return float64(len(o.queue)) / simulatedQueue }
	weight, drawn := o.coin.toss(time.Unix(1_700_000_000, 0).Add(now), o.dice.Uint64(), filled)
	switch {
	case !drawn:
	case len(o.queue) >= simulatedQueue:
		o.lost++
	default:
		o.queue = append(o.queue, cost)
		o.drawn[class]++
		o.weights[class] += float64(weight)
		o.squares[class] += float64(weight * weight)
	}
}

// run has requests come for a while: 7,500 cheap ones in each second, and 3,750 expensive ones in each fifth.
func (o *overload) run() {
	const step = time.Second / 7500
	for i := range int(simulated / step) {
		now := time.Duration(i) * step
		o.one(now, 0, cheap)
		if now%(5*time.Second) < time.Second && i%2 == 0 {
			o.one(now, 1, expensive)
		}
	}
}

// TestTheSampleDoesNotLean: under overload, the shares of two classes of requests are what was offered, however
// cheap or expensive they are and whenever they come, and hardly anything is lost otherwise than by chance.
// The runs are the same each time: nothing here depends on the machine.
func TestTheSampleDoesNotLean(t *testing.T) {
	runs, within := testkit.RaceCases(100), [2]int{}
	for seed := range uint64(runs) {
		o := &overload{dice: rand.New(rand.NewPCG(seed, 1))}
		o.run()
		all := o.offered[0] + o.offered[1]
		if part := o.lost / all; part >= 0.01 {
			t.Errorf("run %d: %.4f of the comparisons are lost otherwise than by chance", seed, part)
		}
		if drawn := o.drawn[0] + o.drawn[1]; drawn > 0.6*all {
			t.Fatalf("run %d: %.0f of %.0f are compared: there is no overload", seed, drawn, all)
		}
		weights := o.weights[0] + o.weights[1]
		n := weights * weights / (o.squares[0] + o.squares[1])
		if drawn := o.drawn[0] + o.drawn[1]; n < drawn/4 {
			t.Errorf("run %d: %.0f comparisons are as precise as %.0f", seed, drawn, n)
		}
		for class := range within {
			share, want := o.weights[class]/weights, o.offered[class]/all
			if math.Abs(share-want) <= 1.96*math.Sqrt(want*(1-want)/n) {
				within[class]++
			}
		}
	}
	for class, n := range within {
		if want := runs * 95 / 100; n < want {
			t.Errorf("class %d: in %d of %d runs its share is within the interval, want %d", class, n, runs, want)
		}
	}
}

// TestHowRarelyIsDrawn follows how full the queue is: up at once, and down with patience.
func TestHowRarelyIsDrawn(t *testing.T) {
	var c coin
	now := time.Unix(1_700_000_000, 0)
	for i, step := range []struct {
		after  time.Duration
		filled float64
		want   int64
	}{
		{0, 0.4, 1}, {coinTick, 0.6, 2}, {coinTick / 2, 1, 2}, {coinTick / 2, 0.6, 4}, {coinTick, 0.5, 4},
		{coinTick, 0.1, 4}, {coinCalm - 1, 0.1, 4}, {coinTick, 0.1, 2}, {coinTick, 0.3, 2}, {coinTick, 0.1, 2}, {coinTick, 0.1, 2},
		{time.Hour, 0, 1}, // nothing came for long
		{coinTick, 0.6, 2}, {coinTick, 0.1, 2}, {coinTick, 0.6, 4}, {coinCalm, 0.1, 4},
		{coinTick, 0.9, 8}, {coinTick, 0.8, 8}, {coinTick, 0.7, 8}, {coinTick, 0.75, 16}, // it drains in between
	} {
		now = now.Add(step.after)
		if got, _ := c.toss(now, 0, func() float64 { return step.filled }); got != step.want {
			t.Errorf("step %d: one stands for %d, want %d", i, got, step.want)
		}
	}
	for range 100 {
		now = now.Add(coinTick)
		c.toss(now, 0, func() float64 { return 1 })
	}
	if weight, drawn := c.toss(now, 1<<10, nil); weight != 1024 || !drawn {
		t.Errorf("at most, one stands for %d, and it is drawn: %v", weight, drawn)
	}
	if _, drawn := c.toss(now, 1<<9, nil); drawn {
		t.Error("a request is drawn that has not one of so many numbers")
	}
}

// TestExperimentsAreComparedOnTheSameRequests: two that draw as rarely draw the same ones, and one that draws less
// rarely those too. What is not drawn is counted as such, and what is stands for it.
func TestExperimentsAreComparedOnTheSameRequests(t *testing.T) {
	p := rehearsaltest.Allowing(`input.x == "a"`)
	r := rehearse(t, supervisortest.New(t), p, p)
	var experiments []*Experiment
	for _, halvings := range []int{1, 1, 0} {
		candidate := r.shadow.NewCandidate("policies/web/experiments/next", p)
		t.Cleanup(candidate.Close)
		testkit.Closed(t, "candidate is ready", candidate.Ready())
		candidate.coin.halvings = halvings
		e := NewExperiment(candidate, "2")
		e.Evidence = evidence.NewTally(evidence.Content{Experiment: e.Name, UID: "uid", Etag: "2"}, nil, evidence.NewPatterns())
		experiments = append(experiments, e)
	}
	draw := uint64(0)
	r.shadow.dice = func() uint64 { draw++; return draw }
	for range 10 {
		c := r.comparing(t, rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0)))
		c.job.experiments = experiments
		r.shadow.rehearse(t.Context(), &background.Yielder{NoPipe: true}, c.job)
		r.shadow.underWay.Wait()
	}
	r.shadow.examiner.Wait()
	drawn := &evidencepb.Pair{
		Counts: &evidencepb.Counts{BothAllow: 5, Dropped: 5}, Weights: &evidencepb.Counts{BothAllow: 10, Dropped: 5},
		Squares: &evidencepb.Counts{BothAllow: 20, Dropped: 5}, Drops: map[string]int64{"sampled": 5},
	}
	for i, want := range []*evidencepb.Pair{drawn, drawn, {Counts: &evidencepb.Counts{BothAllow: 10}}} {
		got := experiments[i].Evidence.Snapshot(time.Unix(1_700_000_001, 0)).GetPairs()[0]
		got = &evidencepb.Pair{Counts: got.GetCounts(), Weights: got.GetWeights(), Squares: got.GetSquares(), Drops: got.GetDrops()}
		if !proto.Equal(got, want) {
			t.Errorf("experiment %d: got %v, want %v", i, got, want)
		}
		if n, weight := experiments[i].waiting.Load(), experiments[i].standing.Load(); n != 0 || weight != 0 {
			t.Errorf("experiment %d: %d requests wait, and stand for %d", i, n, weight)
		}
	}
	if n := r.reader.Count(t, "understudy.preview.dropped", attribute.String("reason", "sampled")); n != 10 {
		t.Errorf("%d comparisons are counted as not drawn, want 10", n)
	}
}

// recorded are the weights of records that were written; 0 of one without.
type recorded struct {
	mu      sync.Mutex
	weights []int64
}

func (r *recorded) OnEmit(_ context.Context, record *sdklog.Record) error {
	weight := int64(0)
	record.WalkAttributes(func(kv attribute.KeyValue) bool {
		if kv.Key == weightKey {
			weight = kv.Value.AsInt64()
		}
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.weights = append(r.weights, weight)
	return nil
}

func (*recorded) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }

func (*recorded) Shutdown(context.Context) error   { return nil }
func (*recorded) ForceFlush(context.Context) error { return nil }

// TestARecordSaysHowManyItStandsFor, if not all are compared.
func TestARecordSaysHowManyItStandsFor(t *testing.T) {
	p, seen := rehearsaltest.Allowing(`input.x == "a"`), &recorded{}
	r := rehearse(t, supervisortest.New(t), p, p)
	r.shadow.config.Recorder = NewRecorder(sdklog.NewLoggerProvider(sdklog.WithProcessor(seen)), PreviewLog{})
	r.shadow.dice = func() uint64 { return 0 }
	for _, halvings := range []int{0, 3} {
		r.experiment.Candidate.coin.halvings = halvings
		c := r.comparing(t, rehearsaltest.Request(map[string]any{"x": "a"}, time.Unix(1_700_000_000, 0)))
		r.shadow.rehearse(t.Context(), &background.Yielder{NoPipe: true}, c.job)
		r.shadow.underWay.Wait()
	}
	if !slices.Equal(seen.weights, []int64{0, 8}) {
		t.Errorf("the records have the weights %v, want none and 8", seen.weights)
	}
}

// TestTheCoinSeesWhatIsFull by number, by the memory of the experiment, and by that of all.
func TestTheCoinSeesWhatIsFull(t *testing.T) {
	r := rehearse(t, supervisortest.New(t), rehearsaltest.Allowing(`input.x == "a"`), rehearsaltest.Allowing(`input.x == "a"`))
	c, limit := r.experiment.Candidate, int64(r.shadow.config.Limits.QueueBytes)
	for _, tt := range []struct {
		own, all int64
		want     float64
	}{{0, 0, 0}, {limit / 4, limit / 4, 0.5}, {0, limit * 3 / 4, 0.75}} {
		c.bytes.Store(tt.own)
		r.shadow.bytes.Store(tt.all)
		if got := r.shadow.filled(c); got != tt.want {
			t.Errorf("of %d and %d bytes, the queue is filled to %v, want %v", tt.own, tt.all, got, tt.want)
		}
	}
	c.bytes.Store(0)
	r.shadow.bytes.Store(0)
	alone := &Candidate{}
	if got := r.shadow.filled(alone); got != 0 {
		t.Errorf("without a process the queue is filled to %v", got)
	}
	r.shadow.config.Process.Close()
	if got := r.shadow.filled(c); got != 0 {
		t.Errorf("of a process that has ended the queue is filled to %v", got)
	}
}
