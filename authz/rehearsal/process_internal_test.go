package rehearsal

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"understudy/authz"
	"understudy/authz/background"
	"understudy/authz/evidence"
	evidencepb "understudy/authz/evidence/v1"
	"understudy/authz/rehearsal/child"
	"understudy/authz/rehearsal/examine"
	"understudy/authz/rehearsal/process"
	"understudy/authz/rehearsal/rehearsaltest"
	"understudy/authz/rehearsal/supervisor"
	"understudy/authz/rehearsal/supervisor/supervisortest"
)

// TestMain is the rehearsal process as well: a test starts this binary again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.Argument {
		os.Exit(child.Main("test"))
	}
	os.Exit(m.Run())
}

// real is a supervisor with a process of its own; last is the one that was started last.
func real(t testing.TB) (s *supervisor.Supervisor, last func() *process.Process) {
	t.Helper()
	var started *process.Process
	s, err := supervisor.New(supervisor.Config{Build: "test", Overhead: supervisortest.Overhead(), Start: func() (supervisor.Child, error) {
		p, err := process.Start()
		started = p
		return p, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, func() *process.Process { return started }
}

// TestExaminationsInAnotherProcess has causes, items and noise from a process of their
// own, before and after it is killed.
func TestExaminationsInAnotherProcess(t *testing.T) {
	s, last := real(t)
	r := rehearse(t, s, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
	r.experiment.Evidence = evidence.NewTally(evidence.Content{Experiment: r.experiment.Name, UID: "uid", Etag: "2"}, nil, evidence.NewPatterns())
	for i, x := range []string{"a", "b"} {
		c := r.comparing(t, rehearsaltest.Request(map[string]any{"x": x, "method": "GET"}, time.Unix(1_700_000_000, 0)))
		r.examine(c, authz.Leaf{uint64(i), 1})
		r.shadow.sample(&c.job)
		r.shadow.examiner.Wait()
		if got := r.noise(); got.GetSampled() != int64(i+1) || got.GetDiffered() != 0 {
			t.Errorf("got the noise %v; want %d that are the same", got, i+1)
		}
		if x == "a" {
			if got, want := r.explained(t, c, denied("")), []string{`a.rego:7 input.x == "b"`}; !slices.Equal(got, want) {
				t.Errorf("got the causes %v, want %v", got, want)
			}
			if d := c.job.decision; d.Effect != authz.Allow {
				t.Errorf("the live policy decided %+v, want that it allows", d)
			}
			last().Kill()
		}
	}
	if got := r.experiment.pair.Progress(); !slices.Equal(got.Items.GetShown(), []int32{2}) || got.Unexamined != 0 {
		t.Errorf("got %+v; want that the literal was shown before and after", got)
	}
}

// BenchmarkCold is what comparisons cost of which the other process makes each, 32 at a time:
// alone, with items that are never all seen, and with every difference explained.
func BenchmarkCold(b *testing.B) {
	for _, bench := range []struct {
		name             string
		examine, explain bool
	}{{name: "compared"}, {name: "and examined", examine: true}, {name: "and explained", explain: true}} {
		b.Run(bench.name, func(b *testing.B) {
			s, _ := real(b)
			r := rehearse(b, s, rehearsaltest.ItemsLive, rehearsaltest.ItemsCandidate)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c := r.comparing(b, rehearsaltest.Request(map[string]any{"x": strconv.Itoa(i), "method": "GET"}, time.Unix(1_700_000_000, 0)))
				r.shadow.one(&c.job, r.experiment)
				if bench.examine {
					r.shadow.examiner.Examine(c.job.subject(r.experiment, authz.Leaf{uint64(i), 1}), &r.experiment.pair, examine.Group{})
				}
				if bench.explain {
					c.explain(newComparison(c.job.request, r.live, r.experiment, authz.Decision{Effect: authz.Allow}, denied("")), func(evidence.ExplainResult, []*evidencepb.Cause) {})
				}
				if i%32 == 31 {
					r.shadow.underWay.Wait()
					r.shadow.examiner.Wait()
				}
			}
		})
	}
}

// BenchmarkDropped is what a comparison costs for which there is no room: the queue of an
// experiment is full that never comes to an end.
func BenchmarkDropped(b *testing.B) {
	s, _ := real(b)
	r := rehearse(b, s, rehearsaltest.ItemsLive, rehearsaltest.Module(`allow if {
		n := numbers.range(1, 3000); some i in n; some j in n; some k in n; i + j + k < 0; input.x == "a"; input.method == "GET" }`))
	c := r.comparing(b, rehearsaltest.Request(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0)))
	dropped := func() int64 { return r.experiment.Candidate.metrics.dropped[background.DropQueueFull] }
	offer := func() {
		j := c.job
		r.shadow.one(&j, r.experiment)
	}
	for dropped() == 0 {
		offer()
	}
	before := dropped()
	b.ReportAllocs()
	for b.Loop() {
		offer()
	}
	if got, want := dropped()-before, int64(b.N); got < want {
		b.Errorf("%d of %d comparisons were dropped, want all", got, want)
	}
}
