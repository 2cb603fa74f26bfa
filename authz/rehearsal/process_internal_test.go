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
	s, err := supervisor.New(supervisor.Config{Build: "test", Start: func() (supervisor.Child, error) {
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

// TestExaminationsInAnotherProcess has causes, coverage and noise from a process of their
// own, before and after it is killed.
func TestExaminationsInAnotherProcess(t *testing.T) {
	s, last := real(t)
	r := rehearse(t, s, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
	r.experiment.Evidence = evidence.NewTally(r.experiment.Name, "uid", "2", evidence.NewPatterns())
	for i, x := range []string{"a", "c"} {
		c := r.comparing(t, rehearsaltest.Request(map[string]any{"x": x, "method": "GET"}, time.Unix(1_700_000_000, 0)))
		r.cover(c, authz.Leaf{uint64(i), 1})
		r.shadow.sample(&c.job)
		r.shadow.examiner.Wait()
		if got := r.noise(); got.GetSampled() != int64(i+1) || got.GetDiffered() != 0 {
			t.Errorf("got the noise %v; want %d that are the same", got, i+1)
		}
		if x == "a" {
			if got, want := r.explained(t, c, denied("")), []string{`a.rego:7 input.x == "b"`}; !slices.Equal(got, want) {
				t.Errorf("got the causes %v, want %v", got, want)
			}
			if d := c.job.decision; d.Verdict != authz.Allow {
				t.Errorf("the live policy decided %+v, want that it allows", d)
			}
			last().Kill()
		}
	}
	if got := r.experiment.pair.Coverage().Rules[0]; !got.SeenTrue || !got.SeenFalse {
		t.Errorf("got %+v; want what was seen before and after", got)
	}
}

// BenchmarkCold is what comparisons cost of which the other process makes each, 32 at a time:
// alone, with coverage of a change that is never all seen, and with every difference explained.
func BenchmarkCold(b *testing.B) {
	for _, bench := range []struct {
		name           string
		cover, explain bool
	}{{name: "compared"}, {name: "and covered", cover: true}, {name: "and explained", explain: true}} {
		b.Run(bench.name, func(b *testing.B) {
			s, _ := real(b)
			r := rehearse(b, s, rehearsaltest.CoveredLive, rehearsaltest.CoveredCandidate)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				c := r.comparing(b, rehearsaltest.Request(map[string]any{"x": strconv.Itoa(i), "method": "GET"}, time.Unix(1_700_000_000, 0)))
				r.shadow.one(&c.job, r.experiment)
				if bench.cover {
					r.shadow.examiner.Cover(c.job.subject(r.experiment, authz.Leaf{uint64(i), 1}), &r.experiment.pair, examine.Group{})
				}
				if bench.explain {
					c.explain(newComparison(c.job.request, r.live, r.experiment, authz.Decision{Verdict: authz.Allow}, denied("")), func([]*evidencepb.Cause) {})
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
	r := rehearse(b, s, rehearsaltest.CoveredLive, rehearsaltest.Module(`allow if {
		n := numbers.range(1, 3000); some i in n; some j in n; some k in n; i + j + k < 0; input.x == "a"; input.method == "GET" }`))
	c := r.comparing(b, rehearsaltest.Request(map[string]any{"x": "a", "method": "GET"}, time.Unix(1_700_000_000, 0)))
	dropped := func() int64 { return r.experiment.Candidate.tally.dropped[background.DropQueueFull] }
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
