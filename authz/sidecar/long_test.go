package sidecar

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"understudy/authz"
	"understudy/authz/background"
)

// TestALongEvaluationWaitsForAPlace: a short one never asks for one.
func TestALongEvaluationWaitsForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make(places, 1)
		all <- background.WithoutPipe()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		first, second, short := newPace(ctx, all), newPace(ctx, all), newPace(ctx, all)
		short.next(nil)
		if short.place != nil {
			t.Error("what has just begun is taken for long")
		}
		time.Sleep(longAfter)
		first.next(nil)
		if first.place == nil {
			t.Fatal("a long evaluation has no place, though one is free")
		}
		waiting := make(chan struct{})
		go func() { second.next(nil); close(waiting) }()
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		select {
		case <-waiting:
			t.Error("a second one does not wait")
		default:
		}
		first.Leave()
		<-waiting
		if second.place == nil || second.waited != 20*time.Millisecond {
			t.Errorf("the second one has waited %s, and its place is %v", second.waited, second.place)
		}
		// It is never kept beyond its time.
		first.next(nil)
		if failure, _ := first.TimedOut(); failure != authz.FailureOverloaded {
			t.Errorf("got %s; want that there was no place", failure)
		}
		second.Leave()
		if len(all) != 1 {
			t.Errorf("%d places are free in the end, want 1", len(all))
		}
	})
}

// TestAReasonTellsWaitingFromEvaluating by what an evaluation got done in its time.
func TestAReasonTellsWaitingFromEvaluating(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 100 * time.Millisecond
		busy := int(all / leastStep)
		reasons := make(map[string]string)
		for name, p := range map[string]*pace{
			"evaluating":            {calls: busy},
			"waiting in the system": {calls: 3},
			"waiting for a place":   {calls: busy / 10, waited: 80 * time.Millisecond},
			"a little of both":      {calls: busy, waited: 20 * time.Millisecond},
		} {
			p.begin = time.Now()
			time.Sleep(all)
			failure, reason := p.TimedOut()
			want := authz.FailureDeadline
			if name == "waiting for a place" {
				want = authz.FailureOverloaded
			}
			if failure != want {
				t.Errorf("%s: got %s, want %s", name, failure, want)
			}
			reasons[name] = reason
		}
		if reasons["evaluating"] != reasons["a little of both"] || reasons["evaluating"] == reasons["waiting in the system"] {
			t.Errorf("the reasons are %v", reasons)
		}
	})
}

// TestExpensiveRequestsLeaveRoom takes all places, as others that evaluate for long would:
// one more is shed with a failure of its own, and a short one is decided beside them.
func TestExpensiveRequestsLeaveRoom(t *testing.T) {
	const endless = `{ input.x == "slow"; count([1 | some a in numbers.range(1, 3000); some b in numbers.range(1, 3000); a + b > 1]) > 0 }`
	s, e, _ := holding(t, allowing("1", endless))
	s.config.DecisionTimeout = 500 * time.Millisecond
	var taken []*background.Yielder
	for range cap(s.places) {
		taken = append(taken, <-s.places)
	}
	now := time.Unix(1_700_000_000, 0)
	slow := documentRequest(map[string]any{"x": "slow"}, now)
	if d, _ := s.decide(t.Context(), e, slow); d.Failure != authz.FailureOverloaded || d.Verdict != authz.Deny {
		t.Errorf("got %+v; want it shed", d)
	}
	s.config.DecisionTimeout = time.Hour
	if d, _ := s.decide(t.Context(), e, documentRequest(map[string]any{"x": "short"}, now)); d.Failure != authz.FailureUndefined && d.Failure != "" {
		t.Errorf("a short one gets %+v", d)
	}
	for _, place := range taken {
		s.places <- place
	}
	s.config.DecisionTimeout = 500 * time.Millisecond
	if d, _ := s.decide(t.Context(), e, documentRequest(map[string]any{"x": "slow"}, now)); d.Failure != authz.FailureDeadline {
		t.Errorf("got %+v; want it to run out of time in its place", d)
	}
	if len(s.places) != cap(s.places) {
		t.Errorf("%d places are free in the end, want all %d", len(s.places), cap(s.places))
	}
	s.places.close()
	if len(s.places) != cap(s.places) {
		t.Errorf("%d places are there after the end", len(s.places))
	}
}
