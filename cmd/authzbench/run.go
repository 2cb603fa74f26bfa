package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// run is the comparison of servers: the main measurement.
//
//	for each policy: start all servers -> they agree -> prime -> rounds -> stop
type run struct {
	comparison
	kinds   []string
	targets []string
	// foreign are those that targets name.
	foreign []target
}

func newRun() *cobra.Command {
	r := &run{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Compare what a check costs, by policy and server",
		Long: `Compare what a check costs, by policy and server.

For each policy, every server is started with it and asked the same requests first:
a difference in effect, status, headers or body ends the run. Then the servers are
measured in turn, round by round: in a closed loop (--inflight requests under way:
processor time, throughput, allocations), and in an open loop (--rate: latencies).

  noop        stock grpc-go, always OK: what all others are measured by
  stock       the whole request as JSON, OPA's rego package with its defaults
  understudy  the binary of this tree, its policy put by its REST API

Any other server joins with --target, if it decides by the policy of the run (see
README.md for opa-envoy-plugin). Its processor time is read from its pid, its
allocations from its Prometheus page.`,
		Example: `  authzbench run --policy prefix,rbac
  authzbench run --policy rbac --traffic unique --servers noop,understudy
  authzbench run --understudy before=/tmp/old --understudy after=/tmp/new --rounds 9
  authzbench run --policy rbac --target opa=127.0.0.1:9191,pid=4711,metrics=http://127.0.0.1:8282/metrics`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.do(cmd) },
	}
	r.bind(cmd.Flags())
	cmd.Flags().StringSliceVar(&r.kinds, "servers", []string{"noop", "stock", "understudy"}, "the servers to start")
	cmd.Flags().StringArrayVar(&r.targets, "target", nil, "another server: name=host:port[,pid=N][,metrics=URL]; may be repeated")
	return cmd
}

// do runs the command: all policies one after the other, then one report.
func (r *run) do(cmd *cobra.Command) error {
	if err := errors.Join(r.validate(), r.validateServers()); err != nil {
		return err
	}
	defer r.end()
	policies, err := eachPolicy(&r.comparison, cmd, r.kinds, r.policy)
	if err != nil {
		return err
	}
	return r.finish(&report{reportHead: r.head(), Policies: policies})
}

// validateServers finds mistakes before anything is built or started, which takes half
// a minute.
func (r *run) validateServers() error {
	for _, k := range r.kinds {
		if k != "noop" && k != "stock" && k != "understudy" {
			return fmt.Errorf("--servers: there is no %q; there are noop, stock and understudy", k)
		}
	}
	for _, text := range r.targets {
		t, err := parseTarget(text)
		if err != nil {
			return err
		}
		r.foreign = append(r.foreign, t)
	}
	return nil
}

// policy measures all servers with one policy. Servers are started anew for each, so
// that caches and memory are of this policy alone.
func (r *run) policy(ctx context.Context, w workload) (out policyReport, err error) {
	w.start.foreign = r.foreign
	f, err := w.start.start(ctx, w.policy)
	if err != nil {
		return out, err
	}
	defer f.stop()
	if err := f.agree(ctx, w.traffic); err != nil {
		return out, err
	}
	out.Policy = w.policy.Name
	out.Series, err = r.compare(ctx, f, w.traffic, func(what string) { r.progress(w.policy.Name + ", " + what) })
	return out, err
}

// finish publishes the report, and then shows the warnings on standard error: last,
// where they are seen.
func (r *run) finish(result *report) error {
	if err := r.publish(result.write, result); err != nil {
		return err
	}
	for _, p := range result.Policies {
		for _, w := range p.warnings() {
			r.progress("warning: " + w)
		}
	}
	return nil
}
