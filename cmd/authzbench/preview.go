package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// previewRun measures what experiments add to a check of the live policy. That has two
// parts: what live callers wait longer (the open loop's p50 and p99), and what the
// processor does for experiments after the answer was sent. The second has no request
// to be seen in, so it is measured as the server's processor time until its counters
// stand still:
//
//	drain -- open loop -- drain
//	       |<---- processor time ---->|
type previewRun struct {
	comparison
	experiments []int
	// otlp exports the records to a receiver in this process.
	otlp bool
}

// subject is an understudy with a number of ACTIVE experiments: a process for each
// number.
type subject struct {
	*target
	experiments int
	receiver    *receiver // nil without export
}

// previewSample is what one round says of one subject.
type previewSample struct {
	// CPU is the processor time for one check, with all that its experiments take
	// afterwards.
	CPU time.Duration `json:"cpu_ns"`
	// Full is that of the no-op in a closed loop, where no time goes into waking up:
	// the unit of all costs. Of the no-op alone.
	Full time.Duration `json:"cpu_full_ns,omitempty"`
	P50  time.Duration `json:"p50_ns"`
	P99  time.Duration `json:"p99_ns"`
	// Checks is the number of requests, Compared that of comparisons, Dropped of those
	// that were not made.
	Checks   int `json:"checks"`
	Compared int `json:"compared"`
	Dropped  int `json:"dropped"`
	// Records is what the collector got, Lost what the export's queue shed.
	Records int `json:"records"`
	Lost    int `json:"lost"`
	Errors  int `json:"errors"`
}

func newPreview() *cobra.Command {
	p := &previewRun{}
	cmd := &cobra.Command{
		Use:   "preview",
		Short: "Measure what ACTIVE experiments add, and whether live traffic feels them",
		Long: `Measure what ACTIVE experiments add, and whether live traffic feels them.

One understudy is started for each number of experiments; each experiment is the
live policy with one rule changed. All get the same open loop, in turn: a part of
what the one without experiments takes (--rate). The processor time includes what
the experiments take after the answer; what one of them adds is given as a ratio to
a check of the no-op server in a closed loop, as in run.

With --otlp each record is exported to a collector in this process, over gRPC.`,
		Example: `  authzbench preview --policy rbac
  authzbench preview --policy prefix,rbac --experiments 0,10 --otlp --rounds 9`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.do(cmd) },
	}
	p.bind(cmd.Flags())
	cmd.Flags().IntSliceVar(&p.experiments, "experiments", []int{0, 1, 4, 10},
		"numbers of ACTIVE experiments; the first is what the others are compared with")
	cmd.Flags().BoolVar(&p.otlp, "otlp", false, "export the records to a collector in this process")
	return cmd
}

// do runs the command: all policies one after the other, then one report.
func (p *previewRun) do(cmd *cobra.Command) error {
	if err := errors.Join(p.validate(), p.validateExperiments()); err != nil {
		return err
	}
	defer p.end()
	policies, err := eachPolicy(&p.comparison, cmd, []string{"noop", "understudy"}, p.policy)
	if err != nil {
		return err
	}
	result := &previewReport{reportHead: p.head(), OTLP: p.otlp, Policies: policies}
	return p.publish(result.write, result)
}

// validateExperiments also refuses a rate of zero: without an open loop there is
// nothing to measure here. Ten is the limit of the admin API for one policy.
func (p *previewRun) validateExperiments() error {
	for _, n := range p.experiments {
		if n < 0 || n > 10 {
			return errors.New("--experiments: a policy has at most 10")
		}
	}
	if len(p.experiments) == 0 || p.Rate.of(1) == 0 {
		return errors.New("--experiments and --rate: neither can be empty here")
	}
	return nil
}

// policy measures all subjects with one policy. All get the same rate, a part of what
// the first of them (without experiments, by default) takes: a rate of their own would
// be lower for those with experiments, and hide what these cost. All are primed at that
// rate.
func (p *previewRun) policy(ctx context.Context, w workload) (r previewPolicy, err error) {
	t, name := w.traffic, w.policy.Name
	f := &fleet{}
	defer f.stop()
	subjects, err := p.startSubjects(ctx, w.start, f, w.policy)
	if err != nil {
		return r, err
	}
	if err := f.agree(ctx, t); err != nil {
		return r, err
	}
	senders := newSenders(subjects[0].client, t, p.Inflight)
	closedLoop(ctx, senders, p.Prime)
	capacity, _, err := p.closed(ctx, subjects[0].target, senders)
	if err != nil {
		return r, err
	}
	for _, one := range f.targets {
		openLoop(ctx, newSenders(one.client, t, openSenders), p.Rate.of(capacity.Throughput), p.Prime, sleepPrecisely)
	}
	r = previewPolicy{Policy: name, Rate: p.Rate.of(capacity.Throughput)}
	return r, p.rounds(ctx, f.targets[len(f.targets)-1], subjects, t, &r)
}

// startSubjects starts an understudy for each number of experiments, and at last the
// no-op: policy takes the last target of the fleet for it. Each has a receiver of its
// own, so that records are counted by subject.
func (p *previewRun) startSubjects(
	ctx context.Context, start *starter, f *fleet, policy policySpec,
) (subjects []subject, err error) {
	for _, n := range p.experiments {
		s := subject{experiments: n}
		u := start.understudies[0]
		u.name = fmt.Sprintf("understudy-%d", n)
		if p.otlp {
			if s.receiver, err = startReceiver(); err != nil {
				return nil, err
			}
			f.closers = append(f.closers, s.receiver.stop)
			// The slice is cut to its length, so that append copies: all subjects share
			// the array below.
			u.environment = append(u.environment[:len(u.environment):len(u.environment)], s.receiver.environment()...)
		}
		node, err := start.startUnderstudy(ctx, f, u, policy)
		if err != nil {
			return nil, err
		}
		s.target = f.targets[len(f.targets)-1]
		if err := node.startExperiments(ctx, policy, n); err != nil {
			return nil, err
		}
		subjects = append(subjects, s)
	}
	return subjects, start.startOwn(ctx, f, "noop", "server", "noop")
}

// rounds measures the no-op and all subjects in turn. The no-op comes first in the
// series, and has a closed loop as well, whose cost for a check is the unit of the
// report.
func (p *previewRun) rounds(ctx context.Context, noop *target, subjects []subject, t *traffic, r *previewPolicy) error {
	all := append([]subject{{target: noop}}, subjects...)
	r.Series = make([]previewSeries, len(all))
	for i, s := range all {
		r.Series[i] = previewSeries{Server: s.name, Experiments: s.experiments, Samples: make([]previewSample, p.Rounds)}
	}
	for round := range p.Rounds {
		for turn := range all {
			i := (round + turn) % len(all)
			p.progress(fmt.Sprintf("%s, round %d of %d: %s", r.Policy, round+1, p.Rounds, all[i].name))
			sample, err := p.rehearse(ctx, all[i], t, r.Rate)
			if i == 0 && err == nil {
				_, sample.Full, err = p.closed(ctx, noop, newSenders(noop.client, t, p.Inflight))
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return fmt.Errorf("measuring %s: %w", all[i].name, err)
			}
			r.Series[i].Samples[round] = sample
		}
	}
	return nil
}

// rehearse measures one subject once: an open loop, and the work that follows its
// answers. drain is within what is charged, since experiments are decided and records
// exported after the answer.
func (p *previewRun) rehearse(ctx context.Context, s subject, t *traffic, rate float64) (out previewSample, err error) {
	senders := newSenders(s.client, t, openSenders)
	start, err := s.counters(ctx)
	if err != nil {
		return out, err
	}
	warm := openLoop(ctx, senders, rate, p.Warmup, sleepPrecisely)
	before, err := s.drain(ctx, start, warm.checks())
	if err != nil {
		return out, err
	}
	var o *outcome
	var after previewCounters
	var drainErr error
	cpu, err := s.charge(func() {
		o = openLoop(ctx, senders, rate, p.Duration, sleepPrecisely)
		after, drainErr = s.drain(ctx, before, o.checks())
	})
	if err = errors.Join(err, drainErr); err != nil {
		return out, err
	}
	if o.checks() == 0 {
		return out, fmt.Errorf("nothing was answered: %w", o.firstError)
	}
	return previewSample{
		CPU: cpu / time.Duration(o.checks()), P50: o.latency.percentile(.5), P99: o.latency.percentile(.99),
		Checks: o.checks(), Errors: o.errors,
		Compared: after.compared - before.compared, Dropped: after.dropped - before.dropped,
		Records: after.records - before.records, Lost: after.lost - before.lost,
	}, nil
}

// previewCounters are totals since a subject started. What a round did is a difference.
type previewCounters struct{ compared, dropped, records, lost int }

const (
	// drainPause is longer than the export of records waits for a batch to fill.
	drainPause = 1200 * time.Millisecond
	// drainTime bounds the wait. Queues are bounded too, so work that lasts longer
	// than this is a fault of the server, and the measurement fails.
	drainTime = startTime
)

// drain waits until all work of a load is done, and returns the counters: each of so many
// checks since earlier counters is counted for each experiment, and the counters stand still for
// one drainPause. Without experiments nothing follows an answer, and nothing is waited for.
func (s *subject) drain(ctx context.Context, since previewCounters, checks int) (previewCounters, error) {
	deadline := time.Now().Add(drainTime)
	last, err := s.counters(ctx)
	for err == nil && s.experiments > 0 {
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-time.After(drainPause):
		}
		var now previewCounters
		now, err = s.counters(ctx)
		if now == last && s.complete(since, now, checks) {
			break
		}
		if last = now; time.Now().After(deadline) {
			return last, fmt.Errorf("%s still compares %s after the load", s.name, drainTime)
		}
	}
	return last, err
}

// complete reports whether every check has been compared or dropped for each experiment, and
// every comparison has been received or lost. Earlier checks may be counted too.
func (s *subject) complete(since, now previewCounters, checks int) bool {
	compared := now.compared - since.compared
	return compared+now.dropped-since.dropped >= checks*s.experiments &&
		(s.receiver == nil || now.records-since.records+now.lost-since.lost >= compared)
}

// counters reads them from the server's Prometheus page, and what arrived at the
// receiver.
func (s *subject) counters(ctx context.Context) (c previewCounters, err error) {
	page, err := readMetrics(ctx, s.metrics)
	if err != nil {
		return c, err
	}
	c.compared = int(page.sum("understudy_preview_comparisons_total"))
	c.dropped = int(page.sum("understudy_preview_dropped_total"))
	c.lost = int(page.sum("understudy_export_dropped_total"))
	if s.receiver != nil {
		c.records = int(s.receiver.records.Load())
	}
	return c, nil
}
