package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// commitReport is how soon commits were enforced on a number of sidecars.
type commitReport struct {
	Sidecars int `json:"sidecars"`
	// Each is the time of every sidecar and commit.
	Each histogram `json:"-"`
	P50  float64   `json:"p50_ms"`
	P99  float64   `json:"p99_ms"`
	// Last is the time of the last sidecar of each commit.
	Last []time.Duration `json:"last_ns"`
	// Answered is the time until the API answered, which waits for the sidecars.
	Answered []time.Duration `json:"answered_ns"`
}

// measureCommits measures each number of sidecars, each on a Redis that begins empty.
func (s *scaling) measureCommits(ctx context.Context, start *starter, p policySpec) (out []commitReport, err error) {
	for _, n := range s.sidecars {
		r, err := s.commitOn(ctx, start, p, n)
		if err != nil {
			return nil, fmt.Errorf("with %d sidecars: %w", n, err)
		}
		r.P50, r.P99 = float64(r.Each.percentile(.5))/1e6, float64(r.Each.percentile(.99))/1e6
		out = append(out, r)
	}
	return out, nil
}

// commitOn commits again and again on a Redis of its own. All processors are for all:
// this is about time, not about who uses it.
//
//	control (admin only) --> Redis --> sidecars of this program, a few in each process
//
// The API runs in a process without a sidecar, since a sidecar in it would see its own
// commits sooner than any other.
func (s *scaling) commitOn(ctx context.Context, start *starter, p policySpec, sidecars int) (r commitReport, err error) {
	everywhere := cpuList{}
	for _, cpu := range append(s.servers.numbers(), s.generator.numbers()...) {
		everywhere.set.Set(cpu)
	}
	// One letter: the path of a unix socket must be short.
	folder, err := os.MkdirTemp(s.folder, "r")
	if err != nil {
		return r, err
	}
	redis, url, err := startRedis(ctx, s.redis, folder, everywhere)
	if err != nil {
		return r, err
	}
	defer redis.stop()
	control, err := start.understudies[0].start(ctx, everywhere, s.folder, "--enable", "admin", "--store", url)
	if err != nil {
		return r, err
	}
	defer control.stop()
	if err := control.putPolicy(ctx, p); err != nil {
		return r, err
	}
	s.progress(fmt.Sprintf("starting %d sidecars", sidecars))
	c, err := startSidecarGroup(ctx, everywhere, url, sidecars, s.each)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	r.Sidecars = sidecars
	for i := range s.commits {
		if err := r.commit(ctx, control, c, p, i); err != nil {
			return r, fmt.Errorf("commit %d: %w", i+1, err)
		}
	}
	return r, nil
}

// commit makes an experiment, waits until all sidecars have it, and commits it. Only
// the commit is timed. Waiting before is what makes the commit the next change,
// known+1; a sidecar that is still behind would count the time of the experiment too.
func (r *commitReport) commit(ctx context.Context, control *node, c *sidecarGroup, p policySpec, i int) error {
	candidate, err := p.candidate(i)
	if err != nil {
		return err
	}
	if err := control.startExperiment(ctx, "next", candidate); err != nil {
		return err
	}
	experiment := "policies/" + benchPolicy + "/experiments/next"
	current, err := control.etagOf(ctx, experiment)
	if err != nil {
		return err
	}
	known, err := c.settled(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	answered := make(chan error, 1)
	var took time.Duration
	go func() {
		err := control.mutate(ctx, http.MethodPost, experiment+":commit", current)
		took = time.Since(begin)
		answered <- err
	}()
	at, err := c.until(ctx, known+1)
	if err := errors.Join(err, <-answered); err != nil {
		return err
	}
	var last time.Duration
	for _, t := range at {
		// Round(0) takes the monotonic clock away (package time): t comes from another
		// process, and has the wall clock only.
		d := t.Round(0).Sub(begin.Round(0))
		r.Each.add(d)
		last = max(last, d)
	}
	r.Last, r.Answered = append(r.Last, last), append(r.Answered, took)
	return nil
}

// etagged is the body of a commit: the API commits exactly the version whose etag it is
// given.
type etagged struct {
	Etag string `json:"etag"`
}

// etagOf reads the etag of a resource of the location.
func (n *node) etagOf(ctx context.Context, resource string) (current etagged, err error) {
	err = n.call(ctx, http.MethodGet, benchLocation+"/"+resource, nil, &current)
	return current, err
}
