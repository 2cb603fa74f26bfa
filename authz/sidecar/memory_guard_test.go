package sidecar

import (
	"math"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"

	"understudy/authz"
	"understudy/cmd/testkit"
)

// TestMemoryThatRunsOut has one request take memory by many small steps, as much as there
// is time for, while others are decided: it is ended, and they are not. They have a few steps alone: on a busy
// machine more of them may be long, and a long one may be ended, too, if the memory is exhausted before the
// garbage of the first is collected.
func TestMemoryThatRunsOut(t *testing.T) {
	const hungry = `{ input.x == "hungry"; count({s | some i in numbers.range(1, 100000); s := sprintf("%0100000d", [i])}) > 0 }
allow if input.x == "modest"`
	s, e, _ := holding(t, allowing("1", hungry))
	s.config.DecisionTimeout = time.Minute
	runtime.GC()
	debug.SetMemoryLimit(int64(readMemory().used) + 64<<20)
	t.Cleanup(func() { debug.SetMemoryLimit(math.MaxInt64) })
	done := make(chan authz.Decision)
	now := time.Unix(1_700_000_000, 0)
	go func() {
		d, _ := s.decide(t.Context(), e, documentRequest(map[string]any{"x": "hungry"}, now))
		done <- d
	}()
	for ended := false; !ended; {
		// The hungry one gives way to short ones: if they came all the time, it would take nothing.
		collected := readMemory().cycles
		testkit.Await(t, "a collection of garbage, or the end of the hungry one", func() bool {
			select {
			case d := <-done:
				if d.Failure != authz.FailureOverloaded || d.Effect != authz.Deny || !strings.Contains(d.Reason, "memory") {
					t.Errorf("the hungry one gets %+v", d)
				}
				ended = true
			default:
			}
			return ended || readMemory().cycles > collected
		}, func() any { return readMemory() })
		if d, _ := s.decide(t.Context(), e, documentRequest(map[string]any{"x": "modest"}, now)); d.Effect != authz.Allow {
			t.Errorf("a modest one gets %+v", d)
		}
	}
	if n := len(s.memory.long); n != 0 {
		t.Errorf("%d evaluations are watched in the end", n)
	}
}

// TestTheLongestIsEndedFirst, and the next one only when that is gone and its memory free.
func TestTheLongestIsEndedFirst(t *testing.T) {
	g, err := newMemoryGuard(nil, noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	g.watching = true // by nobody
	now := time.Now()
	old, young := &slot{begin: now}, &slot{begin: now.Add(time.Second)}
	var endedOld, endedYoung stopped
	g.add(young, &endedYoung)
	g.add(old, &endedOld)
	full := memory{used: 1000, live: 950, limit: 1000, cycles: 1 << 40}
	for _, step := range []struct {
		name       string
		memory     memory
		old, young bool
	}{
		{"there is enough", memory{used: 990, live: 500, limit: 1000, cycles: 1 << 40}, false, false},
		{"there is no limit", memory{used: 1000, live: 1000, limit: math.MaxInt64}, false, false},
		{"it is scarce", full, true, false},
		{"it is still scarce", full, true, false},
	} {
		if !g.look(step.memory) || bool(endedOld) != step.old || bool(endedYoung) != step.young {
			t.Errorf("%s: the old one was ended: %v, the young one: %v", step.name, endedOld, endedYoung)
		}
	}
	g.remove(old)
	full.cycles = g.after - 1
	if g.look(full); endedYoung {
		t.Error("the young one was ended before the garbage of the old one was collected")
	}
	full.cycles = g.after
	if g.look(full); !endedYoung {
		t.Error("the young one was not ended")
	}
	g.remove(young)
	if g.look(full) {
		t.Error("it is looked at for nobody")
	}
}

// stopped is a rego.Stopper.
type stopped bool

func (s *stopped) Cancel() { *s = true }
