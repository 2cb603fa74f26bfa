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

// commitRun measures what live traffic feels of a commit: an open loop goes on while an
// experiment becomes the live policy.
//
//	fill caches -- start the experiment -- open loop: seconds before | commit | seconds after
type commitRun struct {
	comparison
	// seconds are those of the open loop before the commit, and again from it on.
	seconds int
}

func newCommit() *cobra.Command {
	c := &commitRun{}
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
func (c *commitRun) do(cmd *cobra.Command) error {
	if err := errors.Join(c.validate(), c.validateLoop()); err != nil {
		return err
	}
	defer c.end()
	policies, err := eachPolicy(&c.comparison, cmd, []string{"understudy"}, c.policy)
	if err != nil {
		return err
	}
	result := &committedReport{reportHead: c.head(), Seconds: c.seconds, Policies: policies}
	return c.publish(result.write, result)
}

func (c *commitRun) validateLoop() error {
	if c.seconds < 1 || c.Rate.of(1) == 0 {
		return errors.New("--seconds and --rate: they are above zero")
	}
	return nil
}

// policy measures all rounds of one policy, on one server.
func (c *commitRun) policy(ctx context.Context, w workload) (r committedPolicy, err error) {
	policy, t, name := w.policy, w.traffic, w.policy.Name
	f := &fleet{}
	defer f.stop()
	n, err := w.start.startUnderstudy(ctx, f, w.start.understudies[0].withFailureStatus(), policy)
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
	open := offered{newSenders(f.targets[0].client, t, max(openSenders, int(r.Rate/4))), r.Rate}
	for i := range c.Rounds {
		c.progress(fmt.Sprintf("%s, round %d of %d", name, i+1, c.Rounds))
		closedLoop(ctx, full, c.Prime)
		candidate, err := policy.candidate(i)
		if err != nil {
			return r, err
		}
		round, err := c.round(ctx, n, open, candidate)
		if err = errors.Join(err, ctx.Err()); err != nil {
			return r, err
		}
		r.Rounds = append(r.Rounds, round)
	}
	return r, nil
}

// offered is the load of an open loop: who sends, and how many requests per second.
type offered struct {
	senders []sender
	rate    float64
}

// round previews an experiment with a policy, and commits it.
func (c *commitRun) round(ctx context.Context, n *node, open offered, candidate policySpec) (r committedRound, err error) {
	if err := n.startExperiment(ctx, "next", candidate); err != nil {
		return r, err
	}
	openLoop(ctx, open.senders, open.rate, c.Prime, sleepPrecisely)
	committed := make(chan error, 1)
	time.AfterFunc(time.Duration(c.seconds)*time.Second, func() {
		begin := time.Now()
		err := n.commit(ctx, "next")
		r.Took = time.Since(begin)
		committed <- err
	})
	var failure error
	for _, o := range openLoopBySecond(ctx, open.senders, open.rate, 2*c.seconds, sleepPrecisely) {
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
