package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sender sends one request and says whether it was allowed. Each worker has its
// own.
type sender func(ctx context.Context) (allowed bool, err error)

// outcome is what a load saw. For one goroutine, until it is merged.
type outcome struct {
	latency         histogram
	allowed, denied int
	errors          int
	firstError      error
	elapsed         time.Duration
}

func (o *outcome) checks() int { return o.allowed + o.denied }

// throughput is in checks per second.
func (o *outcome) throughput() float64 { return float64(o.checks()) / o.elapsed.Seconds() }

func (o *outcome) count(allowed bool, err error, latency time.Duration) {
	switch {
	case err != nil:
		o.errors++
		if o.firstError == nil {
			o.firstError = err
		}
		return
	case allowed:
		o.allowed++
	default:
		o.denied++
	}
	o.latency.add(latency)
}

func (o *outcome) merge(other *outcome) {
	o.latency.merge(&other.latency)
	o.allowed += other.allowed
	o.denied += other.denied
	o.errors += other.errors
	if o.firstError == nil {
		o.firstError = other.firstError
	}
}

// closedLoop keeps every sender busy for a time: as much load as the server takes.
// Its latencies are those of a server that is full.
func closedLoop(ctx context.Context, senders []sender, duration time.Duration) *outcome {
	begin := time.Now()
	deadline := begin.Add(duration)
	total := each(senders, func(send sender, own *outcome) {
		for sent := time.Now(); sent.Before(deadline) && ctx.Err() == nil; sent = time.Now() {
			ok, err := send(ctx)
			own.count(ok, err, time.Since(sent))
		}
	})
	total.elapsed = time.Since(begin)
	return total
}

// openLoop sends at a fixed rate per second, whatever the server does. A latency
// counts from the moment at which the request was due, not from when a sender was
// free for it: a server that stalls is charged for all whom it kept waiting
// (coordinated omission). pause sleeps.
func openLoop(
	ctx context.Context, senders []sender, rate float64, duration time.Duration, pause func(time.Duration),
) *outcome {
	begin := time.Now()
	requests := int(rate * duration.Seconds())
	// All that is due fits: the clock never waits for a sender.
	due := make(chan time.Time, requests)
	go func() {
		defer close(due)
		for i := range requests {
			at := begin.Add(time.Duration(float64(i) / rate * float64(time.Second)))
			if wait := time.Until(at); wait > 0 {
				pause(wait)
			}
			if ctx.Err() != nil {
				return
			}
			due <- at
		}
	}()
	total := each(senders, func(send sender, own *outcome) {
		for at := range due {
			ok, err := send(ctx)
			own.count(ok, err, time.Since(at))
		}
	})
	total.elapsed = time.Since(begin)
	return total
}

// each runs a loop for each sender at the same time.
func each(senders []sender, loop func(sender, *outcome)) *outcome {
	var wait sync.WaitGroup
	outcomes := make([]outcome, len(senders))
	for i, s := range senders {
		wait.Go(func() { loop(s, &outcomes[i]) })
	}
	wait.Wait()
	total := &outcome{}
	for i := range outcomes {
		total.merge(&outcomes[i])
	}
	return total
}

// precisely sleeps in the system: the timers of Go may be a millisecond late, which
// is more than what is measured here.
func precisely(d time.Duration) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil)
}

// seeds gives each sender of a process another stream.
var seeds atomic.Uint64

// newSenders makes senders for a server.
func newSenders(c *client, t *traffic, n int) []sender {
	senders := make([]sender, n)
	for i := range senders {
		s := t.newStream(seeds.Add(1))
		var request, response []byte
		senders[i] = func(ctx context.Context) (bool, error) {
			request = s.next(request[:0])
			err := c.check(ctx, i, &request, &response)
			return err == nil && allowed(response), err
		}
	}
	return senders
}
