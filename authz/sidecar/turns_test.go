package sidecar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"understudy/authz"
	"understudy/authz/background"
)

// bubble are turns in a bubble of testing/synctest: what the process has used of the
// processors is the time that went by. In the end nobody has or waits for a turn.
func bubble(t *testing.T, most int) *turns {
	all := newTurns(most)
	begun := time.Now()
	all.processorTime = func() time.Duration { return time.Since(begun) }
	all.yielder = func() *background.Yielder { return &background.Yielder{NoPipe: true} }
	t.Cleanup(func() {
		time.Sleep(2 * longAfter) // until nobody watches
		idle(t, all)
	})
	return all
}

// idle checks that nobody has or waits for a turn.
func idle(t *testing.T, turns *turns) {
	t.Helper()
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if len(turns.having) != 0 || len(turns.queues) != 0 || turns.bytes != 0 || turns.waiting.Load() != 0 {
		t.Errorf("%d have a turn in the end, %d policies wait, %d bytes of %d", len(turns.having), len(turns.queues), turns.bytes, turns.waiting.Load())
	}
}

// begin begins a decision.
func (l *scheduler) begin(ctx context.Context, timeout time.Duration) *slot {
	_, p := l.Slot(ctx, &authz.Request{Size: 1000}, timeout)
	return p.(*slot)
}

// policy begins a policy.
func (t *turns) policy() *scheduler { return &scheduler{turns: t} }

// work evaluates for so long, in steps of a millisecond. It reports whether the evaluation
// came to its end.
func (p *slot) work(long time.Duration) bool {
	defer p.Leave()
	if p.Enter() != nil {
		return false
	}
	for range long / time.Millisecond {
		time.Sleep(time.Millisecond)
		if p.next(nil); p.Err() != nil {
			return false
		}
	}
	return true
}

// TestABurstIsDecided: of many evaluations that begin at once on one processor none ends
// because of the others, however much longer than the timeout all of them take.
func TestABurstIsDecided(t *testing.T) {
	for name, each := range map[string]time.Duration{"short": 3 * time.Millisecond, "long": 30 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := bubble(t, 1)
				policy := turns.policy()
				var decided atomic.Int64
				var all sync.WaitGroup
				n := int64(900 * time.Millisecond / each)
				for range n {
					all.Go(func() {
						if p := policy.begin(t.Context(), 40*time.Millisecond); p.work(each) {
							decided.Add(1)
						}
					})
				}
				all.Wait()
				if decided.Load() != n {
					t.Errorf("%d of %d evaluations came to their end", decided.Load(), n)
				}
			})
		})
	}
}

// TestWhatIsTakenIsCounted: who takes longer than the timeout has ended, with others and
// without.
func TestWhatIsTakenIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := bubble(t, 1)
		policy := turns.policy()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				p := policy.begin(t.Context(), 50*time.Millisecond)
				if p.work(time.Hour) || p.used < 50*time.Millisecond || p.used > 52*time.Millisecond {
					t.Errorf("it went on for %s", p.used)
				}
				if failure, _ := p.TimedOut(); failure != authz.FailureDeadline {
					t.Errorf("got %s", failure)
				}
			})
		}
		all.Wait()
	})
}

// TestABusyMachineEndsNothing: what the process had no processor for is not counted, and
// makes no evaluation a long one.
func TestABusyMachineEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := bubble(t, 1)
		begun := time.Now()
		turns.processorTime = func() time.Duration { return time.Since(begun) / 100 }
		p := turns.policy().begin(t.Context(), 40*time.Millisecond)
		if !p.work(500*time.Millisecond) || p.long {
			t.Errorf("it ended after %s, and is long: %v", p.used, p.long)
		}
	})
}

// TestALongEvaluationGivesWay to each short one, and goes on afterwards.
func TestALongEvaluationGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := bubble(t, 1)
		policy := turns.policy()
		long := policy.begin(t.Context(), time.Second)
		var all sync.WaitGroup
		all.Go(func() {
			if !long.work(200 * time.Millisecond) {
				t.Error("the long one did not come to its end")
			}
		})
		time.Sleep(longAfter + time.Millisecond)
		for range 10 {
			short := policy.begin(t.Context(), time.Second)
			if !short.work(2*time.Millisecond) || short.waited > 2*time.Millisecond {
				t.Errorf("a short one waited for %s", short.waited)
			}
			time.Sleep(2 * time.Millisecond)
		}
		all.Wait()
		if long.waited != 10*2*time.Millisecond {
			t.Errorf("the long one waited for %s", long.waited)
		}
	})
}

// TestAStepThatTakesLongKeepsNobody: others go on next to it, and it waits for its turn after it.
func TestAStepThatTakesLongKeepsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := bubble(t, 1)
		policy := turns.policy()
		stuck := policy.begin(t.Context(), 0)
		var all sync.WaitGroup
		all.Go(func() {
			if err := stuck.Enter(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
			stuck.next(nil)
			stuck.Leave()
		})
		synctest.Wait()
		for range 100 {
			p := policy.begin(t.Context(), time.Second)
			if !p.work(5*time.Millisecond) || p.waited > 2*longAfter {
				t.Fatalf("another one waited for %s", p.waited)
			}
		}
		all.Wait()
	})
}

// TestPoliciesGetEqualTime: a policy with a thousand evaluations at once, or with some that
// never end, keeps those of another one waiting for a turn or two.
func TestPoliciesGetEqualTime(t *testing.T) {
	for name, evaluation := range map[string]time.Duration{"many": 3 * time.Millisecond, "endless": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				turns := bubble(t, 1)
				greedy, modest := turns.policy(), turns.policy()
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for range 1000 {
					all.Go(func() { greedy.begin(ctx, 100*time.Millisecond).work(evaluation) })
				}
				time.Sleep(50 * time.Millisecond)
				for range 20 {
					p := modest.begin(t.Context(), 100*time.Millisecond)
					if !p.work(3*time.Millisecond) || p.waited > 2*longAfter {
						t.Fatalf("it waited for %s", p.waited)
					}
				}
				// A long one of the other policy has half of the time of the long ones.
				if p := modest.begin(t.Context(), 100*time.Millisecond); name == "endless" && (!p.work(60*time.Millisecond) || p.waited > 800*time.Millisecond) {
					t.Errorf("a long one waited for %s", p.waited)
				}
				cancel()
				all.Wait()
			})
		})
	}
}

// TestWaitingEnds: when the caller leaves, after a second, and where too much waits.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := bubble(t, 1)
		policy := turns.policy()
		busy := policy.begin(t.Context(), 0)
		turns.processorTime = func() time.Duration { return 0 } // so that it stays a short one
		var all sync.WaitGroup
		all.Go(func() { busy.work(3 * time.Second) })
		synctest.Wait()
		gone, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		canceled, leave := context.WithCancel(t.Context())
		all.Go(func() { time.Sleep(200 * time.Millisecond); leave() })
		for _, tt := range []struct {
			ctx     context.Context
			size    int
			after   time.Duration
			failure authz.Failure
			err     error
		}{
			{t.Context(), 10, longestWait, authz.FailureOverloaded, context.DeadlineExceeded},
			{gone, 10, 300*time.Millisecond - replyTime, authz.FailureOverloaded, context.DeadlineExceeded},
			{canceled, 10, 200 * time.Millisecond, "", context.Canceled},
			{t.Context(), mostWaiting - 30, longestWait, authz.FailureOverloaded, context.DeadlineExceeded},
		} {
			p := policy.begin(tt.ctx, 100*time.Millisecond)
			p.size = tt.size
			all.Go(func() {
				err := p.Enter()
				defer p.Leave()
				if failure, _ := p.TimedOut(); !errors.Is(err, tt.err) || p.waited != tt.after || tt.failure != "" && failure != tt.failure {
					t.Errorf("got %v after %s, %s; want %v after %s", err, p.waited, failure, tt.err, tt.after)
				}
			})
			synctest.Wait()
		}
		p := policy.begin(t.Context(), 100*time.Millisecond)
		if err := p.Enter(); err == nil || p.shed != reasonNoRoom {
			t.Errorf("got %v, %q; want that there is no room", err, p.shed)
		}
		all.Wait()
	})
}

// TestTurnsAreNeverTooMany has evaluations of all kinds come and go at random: never more of
// them than there are turns are at work, and all of them end.
func TestTurnsAreNeverTooMany(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			most := 1 + random.IntN(3)
			turns := bubble(t, most)
			policies := []*scheduler{turns.policy(), turns.policy(), turns.policy()}
			var at atomic.Int64
			var all sync.WaitGroup
			for range 200 {
				time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+random.IntN(300))*time.Millisecond)
				p, steps := policies[random.IntN(3)].begin(ctx, 50*time.Millisecond), 1+random.IntN(80)
				all.Go(func() {
					defer cancel()
					for range 2 { // two rules
						if p.Enter() == nil {
							for range steps {
								if n := at.Add(1); n > int64(most) {
									t.Errorf("%d are at work, want at most %d", n, most)
								}
								time.Sleep(500 * time.Microsecond)
								at.Add(-1)
								if p.next(nil); p.Err() != nil {
									break
								}
							}
						}
						p.Leave()
					}
				})
			}
			all.Wait()
		})
	}
}

// TestTheOldestIsFirst, of one policy.
func TestTheOldestIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := bubble(t, 1)
		policy := turns.policy()
		var order []string
		var all sync.WaitGroup
		for i := range 9 {
			time.Sleep(time.Microsecond)
			p := policy.begin(t.Context(), 0)
			all.Go(func() {
				if err := p.Enter(); err != nil {
					t.Error(err)
				}
				order = append(order, fmt.Sprint(i))
				time.Sleep(5 * time.Millisecond)
				p.Leave()
			})
		}
		all.Wait()
		if !slices.IsSorted(order) {
			t.Errorf("the order is %v", order)
		}
	})
}
