package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// committing measures what live traffic feels of a commit: an open loop goes on while an
// experiment becomes the live policy.
//
//	fill caches -- start the experiment -- open loop: seconds before | commit | seconds after
type committing struct {
	comparison
	// seconds are those of the open loop before the commit, and again from it on.
	seconds int
}

func newCommit() *cobra.Command {
	c := &committing{}
	cmd := &cobra.Command{
		Use:   "commit",
		Short: "Measure what live traffic feels of a commit",
		Long: `Measure what live traffic feels of a commit.

An understudy with filled caches gets an open loop: a part of what it takes (--rate).
Beside it an experiment, the policy with one rule changed, is previewed. After some
seconds (--seconds) the experiment is committed through the REST API, while the loop
goes on for as long again. The next round has another experiment.

A request has failed if the server could not decide it: there was no time, or too
much to do. If some fail before the commit, the rate is too much for the machine.
A p99 is that of the requests that were due in one second. "p99 ×" is the worst
second from the commit on, as a ratio to the median of the seconds before it in the
same round.`,
		Example: `  authzbench commit
  authzbench commit --policy list,rbac --rounds 9 --seconds 10
  authzbench commit --understudy /tmp/old --rate 4000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.do(cmd) },
	}
	c.bind(cmd.Flags())
	f := cmd.Flags()
	f.IntVar(&c.seconds, "seconds", 5, "of the open loop before the commit, and again from it on")
	c.policies, f.Lookup("policy").DefValue = []string{"list"}, "[list]"
	return cmd
}

// do runs the command: all policies one after the other, then one report.
func (c *committing) do(cmd *cobra.Command) error {
	if err := errors.Join(c.validate(), c.validateLoop()); err != nil {
		return err
	}
	if err := c.begin(cmd); err != nil {
		return err
	}
	defer c.end()
	start, k, err := c.prepare(cmd.Context(), []string{"understudy"})
	if err != nil {
		return err
	}
	result := &committedReport{reportHead: c.head(), Seconds: c.seconds}
	for _, name := range c.policies {
		one, err := c.policy(cmd.Context(), start, k, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		result.Policies = append(result.Policies, one)
	}
	return c.publish(result.write, result)
}

func (c *committing) validateLoop() error {
	if c.seconds < 1 || c.Rate.of(1) == 0 {
		return errors.New("--seconds and --rate: they are above zero")
	}
	return nil
}

// policy measures all rounds of one policy, on one server.
func (c *committing) policy(ctx context.Context, start *starter, k *keys, name string) (r committedPolicy, err error) {
	policy, err := newPolicy(name, k)
	if err != nil {
		return r, err
	}
	t, err := newTraffic(c.Traffic, policy, k)
	if err != nil {
		return r, err
	}
	f := &fleet{}
	defer f.stop()
	n, err := start.startUnderstudy(ctx, f, start.understudies[0].tellingFailures(), policy)
	if err != nil {
		return r, err
	}
	if err := f.agree(ctx, t); err != nil {
		return r, err
	}
	full := newSenders(f.targets[0].client, t, c.Inflight)
	closedLoop(ctx, full, c.Prime)
	capacity, _, err := c.closed(ctx, f.targets[0], full)
	if err != nil {
		return r, err
	}
	r = committedPolicy{Policy: name, Rate: c.Rate.of(capacity.Throughput)}
	// As many may be under way as Envoy would have after 250 ms without an answer, when it gives up.
	open := newSenders(f.targets[0].client, t, max(openSenders, int(r.Rate/4)))
	for i := range c.Rounds {
		c.progress(fmt.Sprintf("%s, round %d of %d", name, i+1, c.Rounds))
		closedLoop(ctx, full, c.Prime)
		round, err := c.round(ctx, n, open, policy, r.Rate, i)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return r, err
		}
		r.Rounds = append(r.Rounds, round)
	}
	return r, nil
}

// round previews an experiment and commits it.
func (c *committing) round(
	ctx context.Context, n *node, senders []sender, p policySpec, rate float64, number int,
) (r committedRound, err error) {
	candidate, err := p.candidate(number)
	if err != nil {
		return r, err
	}
	if err := n.startExperiment(ctx, "next", candidate); err != nil {
		return r, err
	}
	openLoop(ctx, senders, rate, c.Prime, sleepPrecisely)
	committed := make(chan error, 1)
	time.AfterFunc(time.Duration(c.seconds)*time.Second, func() {
		begin := time.Now()
		err := n.commit(ctx, "next")
		r.Took = time.Since(begin)
		committed <- err
	})
	var failure error
	for _, o := range openLoopBySecond(ctx, senders, rate, 2*c.seconds, sleepPrecisely) {
		r.Seconds = append(r.Seconds, committedSecond{Checks: o.checks(), Failed: o.errors, P99: o.latency.percentile(.99)})
		failure = cmp.Or(failure, o.firstError)
	}
	if failure != nil {
		c.progress("the first failure: " + failure.Error())
	}
	return r, <-committed
}

// commit makes an experiment of the policy live, and returns when that is enforced.
func (n *node) commit(ctx context.Context, id string) error {
	experiment := "policies/" + benchPolicy + "/experiments/" + id
	current, err := n.etagOf(ctx, experiment)
	if err != nil {
		return err
	}
	return n.mutate(ctx, http.MethodPost, experiment+":commit", current)
}
