package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// stalling is a server that takes a millisecond, but for one request that takes a
// second.
func stalling(slow int) sender {
	n := 0
	return func(context.Context) (bool, error) {
		if n++; n == slow {
			time.Sleep(time.Second)
		} else {
			time.Sleep(time.Millisecond)
		}
		return n%2 == 0, nil
	}
}

// TestOpenLoopCountsFromDue: a second in which the server stands still delays the
// hundred requests that were due in it, though it answered only one late.
func TestOpenLoopCountsFromDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := openLoop(t.Context(), []sender{stalling(200)}, 100, 10*time.Second, time.Sleep)
		if o.checks() != 1000 || o.allowed != 500 {
			t.Fatalf("%d checks, %d allowed; want 1000 and 500", o.checks(), o.allowed)
		}
		// While it catches up, each is 9 ms better off than the one before: 111 requests
		// or so wait for longer than a millisecond.
		late := 0
		for i, n := range o.latency.counts {
			if upperBound(i) > 2*time.Millisecond {
				late += int(n)
			}
		}
		if late < 105 || late > 115 {
			t.Errorf("%d requests were late; want about 111", late)
		}
		for _, c := range []struct {
			part float64
			want time.Duration
		}{{.5, time.Millisecond}, {.95, 550 * time.Millisecond}, {.99, 910 * time.Millisecond}, {1, time.Second}} {
			if got := o.latency.percentile(c.part); got < c.want || got > c.want+c.want/50 {
				t.Errorf("percentile %v is %v; want about %v", c.part, got, c.want)
			}
		}
	})
}

// TestClosedLoopCountsFromSent: the same stall is one slow request here, which is
// why latencies are not taken from a closed loop.
func TestClosedLoopCountsFromSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := closedLoop(t.Context(), []sender{stalling(200)}, 2*time.Second)
		if o.checks() != 1001 {
			t.Errorf("%d checks in two seconds; want 1001", o.checks())
		}
		if got := o.latency.percentile(.99); got > 2*time.Millisecond {
			t.Errorf("percentile 0.99 is %v", got)
		}
		if got := o.throughput(); got < 500 || got > 501 {
			t.Errorf("throughput is %v per second", got)
		}
	})
}

func TestOpenLoopKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var due []time.Duration
		begin := time.Now()
		openLoop(t.Context(), []sender{func(context.Context) (bool, error) {
			due = append(due, time.Since(begin))
			return true, nil
		}}, 4, time.Second, time.Sleep)
		if len(due) != 4 || due[3] != 750*time.Millisecond {
			t.Errorf("sent at %v; want every 250 ms", due)
		}
	})
}

// TestSecondsAreThoseOfDue: what was due while the server stood still counts for that second,
// whenever it was answered.
func TestSecondsAreThoseOfDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seconds := openLoopBySecond(t.Context(), []sender{stalling(150)}, 100, 4, time.Sleep)
		for i, o := range seconds {
			if o.checks() != 100 {
				t.Errorf("%d checks in second %d; want 100", o.checks(), i)
			}
		}
		if before, during := seconds[0].latency.percentile(.99), seconds[1].latency.percentile(.99); before > 2*time.Millisecond || during < 900*time.Millisecond {
			t.Errorf("p99 is %v before the stall, and %v in its second", before, during)
		}
	})
}

func TestLoadsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		open := openLoop(ctx, []sender{stalling(0)}, 100, time.Hour, time.Sleep)
		closed := closedLoop(ctx, []sender{stalling(0)}, time.Hour)
		if open.checks() > 101 || closed.checks() != 0 {
			t.Errorf("%d and %d checks after the end", open.checks(), closed.checks())
		}
	})
}

func TestErrorsAreNoChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no route")
		o := openLoop(t.Context(), []sender{func(context.Context) (bool, error) { return false, failure }}, 10, time.Second, time.Sleep)
		if o.checks() != 0 || o.errors != 10 || !errors.Is(o.firstError, failure) || o.latency.total != 0 {
			t.Errorf("the outcome is %d checks, %d errors, first %v", o.checks(), o.errors, o.firstError)
		}
	})
}
