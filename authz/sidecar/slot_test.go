package sidecar

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"understudy/authz"
)

// TestAReasonTellsWaitingFromEvaluating by what an evaluation got done in its time.
func TestAReasonTellsWaitingFromEvaluating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 100 * time.Millisecond
		busy := int(all / leastStep)
		for name, tt := range map[string]struct {
			calls        int
			used, waited time.Duration
			shed         string
			stopped      bool
			failure      authz.Failure
			reason       string
		}{
			"evaluating":           {calls: busy, used: all, failure: authz.FailureDeadline, reason: authz.TimedOut},
			"in one built-in":      {calls: 3, used: all, failure: authz.FailureDeadline, reason: reasonBuiltin},
			"a little of both":     {calls: busy, used: all, waited: all / 2, failure: authz.FailureDeadline, reason: authz.TimedOut},
			"never had a turn":     {shed: reasonWaited, waited: all, failure: authz.FailureOverloaded, reason: reasonWaited},
			"no room to wait":      {shed: reasonNoRoom, failure: authz.FailureOverloaded, reason: reasonNoRoom},
			"the memory is scarce": {calls: busy, used: all, stopped: true, failure: authz.FailureOverloaded, reason: reasonMemory},
		} {
			p := bubble(t, 1).policy().begin(t.Context(), 0)
			p.calls, p.used, p.shed = tt.calls, tt.used, tt.shed
			p.stopped.Store(tt.stopped)
			time.Sleep(tt.used + tt.waited)
			if failure, reason := p.TimedOut(); failure != tt.failure || reason != tt.reason {
				t.Errorf("%s: got %s, %s", name, failure, reason)
			}
		}
	})
}

// TestTheCallerGetsAnAnswer before its own deadline: the one evaluation that went on all the
// time was too slow, and the others waited for it.
func TestTheCallerGetsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := bubble(t, 1).policy()
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		var failures [10]authz.Failure
		begun := time.Now()
		var all sync.WaitGroup
		for i := range failures {
			p := policy.begin(ctx, time.Minute)
			all.Go(func() {
				if p.work(time.Minute) {
					t.Error("it came to its end")
				}
				failures[i], _ = p.TimedOut()
			})
			time.Sleep(time.Microsecond)
		}
		all.Wait()
		if took := time.Since(begun); took > 250*time.Millisecond-replyTime+2*time.Millisecond || ctx.Err() != nil {
			t.Errorf("it took %s", took)
		}
		for i, failure := range failures {
			if want := authz.FailureOverloaded; i > 0 && failure != want {
				t.Errorf("%d: got %s, want %s", i, failure, want)
			}
		}
		if failures[0] != authz.FailureDeadline {
			t.Errorf("the first one got %s", failures[0])
		}
	})
}

// TestWaitingForAServiceIsCounted: it is part of the decision, and takes nobody's turn.
func TestWaitingForAServiceIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := bubble(t, 1)
		p := turns.policy().begin(t.Context(), 100*time.Millisecond)
		if err := p.Enter(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Millisecond)
		ctx, done := p.Outside()
		idle(t, turns)
		begun := time.Now()
		<-ctx.Done()
		if took := time.Since(begun); took != 70*time.Millisecond || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("it ended after %s, %v", took, ctx.Err())
		}
		done()
		if err := p.Enter(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("afterwards: %v", err)
		}
		p.Leave()
	})
}

// TestExpensiveRequestsEnd: one that never ends runs out of its time, also where all turns
// are taken by others that never give them back, and a short one is decided there.
func TestExpensiveRequestsEnd(t *testing.T) {
	const endless = `{ input.x == "slow"; count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); a + b > 1]) > 0 }`
	s, e, _ := holding(t, allowing("1", endless))
	s.config.DecisionTimeout = 200 * time.Millisecond
	for range s.turns.most {
		if stuck := s.turns.policy().begin(t.Context(), 0); stuck.Enter() != nil {
			t.Fatal("there is no turn")
		}
	}
	now := time.Unix(1_700_000_000, 0)
	if d, _ := s.decide(t.Context(), e, documentRequest(map[string]any{"x": "slow"}, now)); d.Failure != authz.FailureDeadline || d.Effect != authz.Deny {
		t.Errorf("got %+v; want it to run out of time", d)
	}
	s.config.DecisionTimeout = time.Hour
	if d, _ := s.decide(t.Context(), e, documentRequest(map[string]any{"x": "short"}, now)); d.Failure != authz.FailureUndefined && d.Failure != "" {
		t.Errorf("a short one gets %+v", d)
	}
	s.turns.close()
}
