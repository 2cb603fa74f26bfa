package main

import (
	"context"
	"fmt"
	"time"
)

// plan is how servers are measured: the same for all servers of a run, and part of its
// report. The order for each server is Prime once; then in each round Warmup, the
// closed loop, the open loop.
type plan struct {
	// Connections is the number of connections to a server; Inflight how many requests
	// are under way at once in the closed loop, over all connections.
	Connections int `json:"connections"`
	Inflight    int `json:"inflight"`
	// Duration is that of each loop in a round.
	Duration time.Duration `json:"duration_ns"`
	// Prime is the load before the first round, which fills the caches of a server;
	// Warmup is before each loop, after the other servers have used the processor.
	Prime  time.Duration `json:"prime_ns"`
	Warmup time.Duration `json:"warmup_ns"`
	Rounds int           `json:"rounds"`
	// Rate is that of the open loop; zero leaves it out.
	Rate    rate        `json:"rate"`
	Traffic trafficKind `json:"traffic"`
}

// sample is what one round measured of one server. All costs are for one check.
type sample struct {
	// CPU is the processor time for one check in the closed loop, CPUOpen in the
	// open loop; 0 if the process is not known.
	CPU     time.Duration `json:"cpu_ns"`
	CPUOpen time.Duration `json:"cpu_open_ns"`
	// Checks is the number of checks in the closed loop.
	Checks int `json:"checks"`
	// Throughput is in checks per second, in the closed loop.
	Throughput float64 `json:"throughput"`
	// Rate is that of the open loop, per second; the latencies are of it, or of the
	// closed loop if there was none.
	Rate float64       `json:"rate"`
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	// Allocations and Bytes are for one check, 0 if the server has no metrics page.
	Allocations float64 `json:"allocations"`
	Bytes       float64 `json:"bytes"`
	// Memory is what the process holds after the round, in bytes.
	Memory int64 `json:"memory"`
	// Allowed is the part of checks that was allowed.
	Allowed float64 `json:"allowed"`
	Errors  int     `json:"errors"`
}

// openSenders is how many requests of an open loop may be under way: enough to queue at
// a server that stalls for a moment. Beyond that requests wait here, and the wait
// counts, since latencies begin when a request was due (openLoop).
const openSenders = 256

// measure measures one server once. The rate of the open loop is a part of this
// server's own throughput in the same round: at one absolute rate a slow server would
// be full and a fast one idle, and their latencies would say no more than that.
func (p plan) measure(ctx context.Context, t *target, traffic *traffic) (sample, error) {
	closed := newSenders(t.client, traffic, p.Inflight)
	closedLoop(ctx, closed, p.Warmup)
	s, cpu, err := p.closed(ctx, t, closed)
	if err != nil {
		return s, err
	}
	s.CPU = cpu
	if s.Rate = p.Rate.of(s.Throughput); s.Rate > 0 {
		err = s.open(ctx, t, newSenders(t.client, traffic, openSenders), p.Duration)
	}
	if err == nil && t.pid > 0 {
		s.Memory, err = residentMemory(t.pid)
	}
	return s, err
}

// closed runs the closed loop between two reads of the server's counters. Allocations
// come from counters that only grow, so their difference is exact; what the read itself
// allocates is divided by tens of thousands of checks. cpu is that of one check.
func (p plan) closed(ctx context.Context, t *target, senders []sender) (s sample, cpu time.Duration, err error) {
	before, err := readMetrics(ctx, t.metrics)
	if err != nil {
		return s, 0, err
	}
	var o *outcome
	cpu, err = t.charge(func() { o = closedLoop(ctx, senders, p.Duration) })
	if err != nil {
		return s, 0, err
	}
	after, err := readMetrics(ctx, t.metrics)
	if err != nil {
		return s, 0, err
	}
	if o.checks() == 0 {
		return s, 0, fmt.Errorf("%s answered nothing: %w", t.name, o.firstError)
	}
	checks := float64(o.checks())
	s = sample{
		Checks: o.checks(), Throughput: o.throughput(), Allowed: float64(o.allowed) / checks, Errors: o.errors,
		Allocations: (after.sum("go_memstats_mallocs_total") - before.sum("go_memstats_mallocs_total")) / checks,
		Bytes:       (after.sum("go_memstats_alloc_bytes_total") - before.sum("go_memstats_alloc_bytes_total")) / checks,
	}
	s.latencies(o)
	return s, cpu / time.Duration(o.checks()), nil
}

// open adds what the open loop measured. Its latencies take the place of the closed
// loop's; its processor time stays next to it, since a server that is not full also pays
// for waking up.
func (s *sample) open(ctx context.Context, t *target, senders []sender, duration time.Duration) error {
	var o *outcome
	cpu, err := t.charge(func() { o = openLoop(ctx, senders, s.Rate, duration, sleepPrecisely) })
	if err != nil {
		return err
	}
	if o.checks() == 0 {
		return fmt.Errorf("%s answered nothing: %w", t.name, o.firstError)
	}
	s.CPUOpen = cpu / time.Duration(o.checks())
	s.Errors += o.errors
	s.latencies(o)
	return nil
}

func (s *sample) latencies(o *outcome) {
	s.P50, s.P90 = o.latency.percentile(.5), o.latency.percentile(.9)
	s.P99, s.P999 = o.latency.percentile(.99), o.latency.percentile(.999)
}

// charge returns the processor time that a server and its children use while something
// is done; 0 if its process is not known. It is what the system charged, user and
// system time, so that other programs on the machine do not count.
func (t *target) charge(do func()) (time.Duration, error) {
	if t.pid == 0 {
		do()
		return 0, nil
	}
	before, err := cpuTime(t.pid)
	if err != nil {
		return 0, err
	}
	do()
	after, err := cpuTime(t.pid)
	return after - before, err
}

// series is all samples of one server, in the order of the rounds.
type series struct {
	Server  string   `json:"server"`
	Samples []sample `json:"samples"`
}

// compare measures all servers of a policy in turn, so that what disturbs a machine for
// a while (another program, the clock of a warm processor) disturbs all of them. Each
// round begins with another one. Before the first, every server gets some load to warm
// up and to fill its caches. progress gets a line for a person who waits.
func (p plan) compare(ctx context.Context, f *fleet, traffic *traffic, progress func(string)) ([]series, error) {
	out := make([]series, len(f.targets))
	for i, t := range f.targets {
		closedLoop(ctx, newSenders(t.client, traffic, p.Inflight), p.Prime)
		out[i] = series{Server: t.name, Samples: make([]sample, p.Rounds)}
	}
	for round := range p.Rounds {
		for turn := range f.targets {
			i := (round + turn) % len(f.targets)
			t := f.targets[i]
			progress(fmt.Sprintf("round %d of %d: %s", round+1, p.Rounds, t.name))
			s, err := p.measure(ctx, t, traffic)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, fmt.Errorf("measuring %s: %w", t.name, err)
			}
			out[i].Samples[round] = s
		}
	}
	return out, nil
}
