package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"understudy/admin/redisstore"
	"understudy/authz/sidecar"
)

// applied is one event of a process of sidecars: one of them enforces a newer change.
// It is one line of JSON on standard output.
type applied struct {
	Node     int   `json:"node"`
	Sequence int64 `json:"sequence"`
	// At is in nanoseconds since 1970: all processes are on one machine.
	At int64 `json:"at"`
}

// lookEvery is how often the state of a sidecar is read, and so the precision of every
// time that is derived from it.
const lookEvery = time.Millisecond

// sidecarFlags are the flags of a process of sidecars.
type sidecarFlags struct {
	store        string
	first, count int
}

// newSidecars is how this program starts itself as a number of sidecars. Each has
// connections of its own to the store, as if it were alone. They serve no checks: a
// commit is enforced when the snapshot is swapped, whether there is traffic or not.
func newSidecars() *cobra.Command {
	f := &sidecarFlags{}
	cmd := &cobra.Command{
		Use: "sidecars", Short: "Be a number of sidecars", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	cmd.Flags().StringVar(&f.store, "store", "", "the URL of the store")
	cmd.Flags().IntVar(&f.first, "first", 0, "the number of the first sidecar")
	cmd.Flags().IntVar(&f.count, "count", 1, "how many there are")
	return cmd
}

// run follows the store until ctx is done, or until standard output cannot be written.
func (f *sidecarFlags) run(ctx context.Context, stdout io.Writer) error {
	sidecars := make([]*sidecar.Sidecar, f.count)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	// The sidecars take leave of their stores before those are closed.
	var closers []func() error
	defer func() {
		cancel()
		running.Wait()
		for _, c := range closers {
			_ = c()
		}
	}()
	for i := range sidecars {
		store, err := redisstore.Open(f.store)
		if err != nil {
			return fmt.Errorf("opening the store: %w", err)
		}
		closers = append(closers, store.Close)
		if sidecars[i], err = sidecar.New(sidecar.Config{
			Feed: store, Location: benchLocation, Policy: benchPolicy, Node: fmt.Sprintf("n%03d", f.first+i),
		}); err != nil {
			return err
		}
		running.Go(func() { _ = sidecars[i].Run(ctx) })
	}
	return f.watch(ctx, sidecars, json.NewEncoder(stdout))
}

// watch writes an event for each change that a sidecar enforces. It reads their status
// again and again: a sidecar has no hook for this, and needs none for anything else. A
// sidecar that applies two changes within lookEvery has one event, for the later.
func (f *sidecarFlags) watch(ctx context.Context, sidecars []*sidecar.Sidecar, out *json.Encoder) error {
	seen := make([]int64, len(sidecars))
	for ctx.Err() == nil {
		for i, s := range sidecars {
			status := s.Status()
			if !status.Ready || status.Sequence == seen[i] {
				continue
			}
			seen[i] = status.Sequence
			if err := out.Encode(applied{f.first + i, status.Sequence, time.Now().UnixNano()}); err != nil {
				return err
			}
		}
		sleepPrecisely(lookEvery)
	}
	return nil
}

// sidecarGroup is sidecars in a few processes, and the reader of their events:
//
//	sidecars in processes --lines of JSON--> events --> until, settled
//
// until and settled are for one goroutine.
type sidecarGroup struct {
	size      int
	processes []*process
	// events has room for several from each sidecar, so that processes are not held up
	// while nobody reads, as between two commits.
	events chan applied
	// latest :: number of a sidecar → what it enforces. Only until and settled touch
	// it.
	latest []int64
}

// startSidecarGroup starts size sidecars, `each` in a process, and waits until all have
// policies.
func startSidecarGroup(ctx context.Context, cpus cpuList, store string, size, each int) (*sidecarGroup, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &sidecarGroup{size: size, events: make(chan applied, 16*size), latest: make([]int64, size)}
	for first := 0; first < size; first += each {
		cmd := exec.Command(self, "sidecars", "--store", store,
			"--first", fmt.Sprint(first), "--count", fmt.Sprint(min(each, size-first)))
		cmd.Stdout = &tail{line: c.receive}
		p, err := startProcess("sidecars", cpus, cmd, nil)
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		c.processes = append(c.processes, p)
	}
	if _, err := c.until(ctx, 1); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

// receive takes one line of a process. It blocks when events is full, and the process
// waits then.
func (c *sidecarGroup) receive(line string) {
	var a applied
	if json.Unmarshal([]byte(line), &a) == nil {
		c.events <- a
	}
}

// stop ends all processes at the same time: each leaves the store in order, which takes
// a moment.
func (c *sidecarGroup) stop() error {
	var wait sync.WaitGroup
	for _, p := range c.processes {
		wait.Go(p.stop)
	}
	wait.Wait()
	return nil
}

// groupTimeout bounds the wait for all sidecars.
const groupTimeout = 3 * time.Minute

// until waits until every sidecar enforces a change that none has enforced yet, and
// returns when each first enforced it or a later one.
func (c *sidecarGroup) until(ctx context.Context, sequence int64) ([]time.Time, error) {
	at := make([]time.Time, c.size)
	missing := c.size
	deadline := time.After(groupTimeout)
	for missing > 0 {
		select {
		case a := <-c.events:
			if c.latest[a.Node] < sequence && a.Sequence >= sequence {
				at[a.Node] = time.Unix(0, a.At)
				missing--
			}
			c.latest[a.Node] = a.Sequence
		case <-deadline:
			return nil, fmt.Errorf("%d of %d sidecars do not have change %d after %s", missing, c.size, sequence, groupTimeout)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return at, nil
}

// settledAfter is how long no sidecar may have reported a change for a group to be
// settled.
const settledAfter = 50 * time.Millisecond

// settled waits until all sidecars enforce the same change and nothing more comes, and
// returns that change. It drains events, so that `until` sees those of the next change
// only.
func (c *sidecarGroup) settled(ctx context.Context) (int64, error) {
	deadline := time.After(groupTimeout)
	for {
		select {
		case a := <-c.events:
			c.latest[a.Node] = a.Sequence
		case <-time.After(settledAfter):
			if slices.Min(c.latest) == slices.Max(c.latest) {
				return c.latest[0], nil
			}
		case <-deadline:
			return 0, fmt.Errorf("the sidecars enforce changes %d to %d after %s", slices.Min(c.latest), slices.Max(c.latest), groupTimeout)
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}
