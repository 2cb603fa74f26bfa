package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// throughEnvoy measures what a check costs where it is made: in a real Envoy.
//
// The servers alone (run) do not show the whole price of a check: Envoy encodes the
// request, waits, decodes the response and applies it, and pays for the protocol, such
// as for each HTTP/2 PING. Of each server there is one chain:
//
//	clients --HTTP/1.1--> Envoy (one worker) --ext_authz--> server
//
// An Envoy without the filter shows what remains if no check is made; one that calls
// the no-op is the unit of the ratios, as in run.
type throughEnvoy struct {
	comparison
	envoy       string
	experiments []int
}

func newThroughEnvoy() *cobra.Command {
	e := &throughEnvoy{}
	cmd := &cobra.Command{
		Use:   "envoy",
		Short: "Measure checks through a real Envoy",
		Long: `Measure checks through a real Envoy.

One Envoy with one worker thread is started for each of: no filter, the no-op server,
and understudy with each number of experiments. Clients send HTTP/1.1 to Envoy, which
answers by itself what is allowed. Each is measured in turn, round by round: in a
closed loop (processor time of Envoy and of the server, throughput) and in an open loop
at one rate for all (latencies).

The policy claims is decided by what Envoy's jwt_authn filter has verified.`,
		Example: `  ENVOY=$(.ci/envoy) authzbench envoy --policy prefix,rbac
  authzbench envoy --envoy /usr/bin/envoy --policy prefix --rate 800 --rounds 3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return e.do(cmd) },
	}
	e.bind(cmd.Flags())
	cmd.Flags().StringVar(&e.envoy, "envoy", "", "the program (default $ENVOY, then envoy in the PATH)")
	cmd.Flags().IntSliceVar(&e.experiments, "experiments", []int{0, 1, 10}, "numbers of ACTIVE experiments")
	cmd.Flags().Lookup("connections").Usage = "connections of clients to Envoy, each with one request under way"
	cmd.Flags().Lookup("rate").Usage = "of the open loop: requests per second, or a part of what goes through with the no-op"
	// The defaults of run suit gRPC. Over HTTP/1.1 a connection carries one request at
	// a time, so that connections are what --inflight is elsewhere; that flag would do
	// nothing here.
	e.Connections, cmd.Flags().Lookup("connections").DefValue = 16, "16"
	e.policies, cmd.Flags().Lookup("policy").DefValue = []string{"prefix", "rbac"}, "[prefix,rbac]"
	_ = cmd.Flags().MarkHidden("inflight")
	return cmd
}

// do runs the command: all policies one after the other, then one report.
func (e *throughEnvoy) do(cmd *cobra.Command) error {
	if err := e.validate(); err != nil {
		return err
	}
	var err error
	if e.envoy, err = findEnvoy(e.envoy); err != nil {
		return err
	}
	defer e.end()
	policies, err := eachPolicy(&e.comparison, cmd, []string{"noop", "understudy"}, e.policy)
	if err != nil {
		return err
	}
	result := &envoyReport{reportHead: e.head(), Policies: policies}
	return e.publish(result.write, result)
}

// proxied is a server behind an Envoy of its own. A shared Envoy would mix the
// processor time of all servers, and its connection pools would let one disturb the
// other.
type proxied struct {
	name  string
	proxy *proxy
	// server is nil without the filter.
	server *target
	// send are the clients' connections.
	send []sender
}

// envoySample is what one round says of one proxied server. The field names of its JSON
// are read by those who keep results, so they stay.
type envoySample struct {
	// Envoy and Server are the processor time for one request in the closed loop.
	Envoy  time.Duration `json:"envoy_cpu_ns"`
	Server time.Duration `json:"server_cpu_ns"`
	// Throughput is in requests per second, in the closed loop.
	Throughput float64 `json:"throughput"`
	// P50 and P99 are those of the open loop, seen by the clients: Envoy and server
	// together.
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	// Allowed is the part of answered requests with status 200, from 0 to 1.
	Allowed float64 `json:"allowed"`
	Errors  int     `json:"errors"`
}

// policy measures all servers with one policy. The rate of the open loop comes from
// what goes through with the no-op (all[1]): one rate for all, so that latencies are
// compared under the same load. There is no agreement check, since `run` makes it for
// the same servers.
func (e *throughEnvoy) policy(ctx context.Context, w workload) (r envoyPolicy, err error) {
	f := &fleet{}
	defer f.stop()
	all, err := e.startAll(ctx, f, w)
	if err != nil {
		return r, err
	}
	for _, p := range all {
		closedLoop(ctx, p.send, e.Prime)
	}
	capacity := closedLoop(ctx, all[1].send, e.Duration)
	r = envoyPolicy{Policy: w.policy.Name, Rate: e.Rate.of(capacity.throughput()), Series: make([]envoySeries, len(all))}
	return r, e.rounds(ctx, all, &r)
}

// startAll starts the servers and an Envoy for each; the first has no filter, the
// second calls the no-op. policy and envoyReport.writeRows rely on that order.
func (e *throughEnvoy) startAll(ctx context.Context, f *fleet, w workload) (all []proxied, err error) {
	start, policy, t := w.start, w.policy, w.traffic
	if err := start.startOwn(ctx, f, "noop", "server", "noop"); err != nil {
		return nil, err
	}
	for _, u := range start.understudies {
		if err := e.startUnderstudies(ctx, start, f, u, policy); err != nil {
			return nil, err
		}
	}
	// Only claims is decided by what Envoy verified; with the other policies jwt_authn
	// would add its own cost to every request.
	keys := ""
	if policy.Name == "claims" {
		if keys, err = t.keys.keySet(); err != nil {
			return nil, err
		}
	}
	program := envoyProgram{e.envoy, e.servers, e.folder}
	for _, server := range append([]*target{nil}, f.targets...) {
		p, asked := proxied{name: "no filter", server: server}, ""
		if server != nil {
			p.name, asked = server.name, server.address
		}
		if p.proxy, err = program.start(ctx, chain{p.name, asked, keys}); err != nil {
			return nil, err
		}
		f.closers = append(f.closers, p.proxy.stop)
		var closeAll func()
		if p.send, closeAll, err = newHTTPSenders(p.proxy.address, t, e.Connections); err != nil {
			return nil, err
		}
		f.closers = append(f.closers, closeAll)
		all = append(all, p)
	}
	return all, nil
}

// startUnderstudies starts one for each number of experiments: a server of its own, so
// that the caches and the memory of one number do not help the next.
func (e *throughEnvoy) startUnderstudies(ctx context.Context, start *starter, f *fleet, u understudy, policy policySpec) error {
	name := u.name
	for _, n := range e.experiments {
		u.name = fmt.Sprintf("%s-%d", name, n)
		node, err := start.startUnderstudy(ctx, f, u, policy)
		if err != nil {
			return err
		}
		if err := node.startExperiments(ctx, policy, n); err != nil {
			return err
		}
	}
	return nil
}

// rounds measures all in turn. Each round begins with another one, so that none is
// always the first after a pause.
func (e *throughEnvoy) rounds(ctx context.Context, all []proxied, r *envoyPolicy) error {
	for i, p := range all {
		r.Series[i] = envoySeries{Server: p.name, Samples: make([]envoySample, e.Rounds)}
	}
	for round := range e.Rounds {
		for turn := range all {
			i := (round + turn) % len(all)
			e.progress(fmt.Sprintf("%s, round %d of %d: %s", r.Policy, round+1, e.Rounds, all[i].name))
			sample, err := all[i].measure(ctx, e.plan, r.Rate)
			if err = errors.Join(err, ctx.Err()); err != nil {
				return fmt.Errorf("measuring %s: %w", all[i].name, err)
			}
			r.Series[i].Samples[round] = sample
		}
	}
	return nil
}

// measure measures one of them once: the closed loop for processor time and throughput,
// the open loop for latencies. The time of the server is read around that of Envoy, and
// so includes two reads of a clock more: microseconds in two seconds.
func (p *proxied) measure(ctx context.Context, plan plan, rate float64) (s envoySample, err error) {
	closedLoop(ctx, p.send, plan.Warmup)
	through := &target{name: "envoy", pid: p.proxy.pid()}
	var o *outcome
	run := func() error {
		s.Envoy, err = through.charge(func() { o = closedLoop(ctx, p.send, plan.Duration) })
		return err
	}
	if p.server == nil {
		err = run()
	} else {
		var inner error
		s.Server, err = p.server.charge(func() { inner = run() })
		err = errors.Join(err, inner)
	}
	if err != nil {
		return s, err
	}
	if o.checks() == 0 {
		return s, fmt.Errorf("nothing was answered: %w", o.firstError)
	}
	requests := time.Duration(o.checks())
	s.Envoy, s.Server = s.Envoy/requests, s.Server/requests
	s.Throughput, s.Allowed, s.Errors = o.throughput(), float64(o.allowed)/float64(o.checks()), o.errors
	// The latencies of the open loop take the place of the closed loop's, which are
	// those of full queues.
	if rate > 0 {
		// A rate of zero (--rate 0) leaves the closed loop's.
		o = openLoop(ctx, p.send, rate, plan.Duration, sleepPrecisely)
		s.Errors += o.errors
	}
	s.P50, s.P99 = o.latency.percentile(.5), o.latency.percentile(.99)
	return s, nil
}
