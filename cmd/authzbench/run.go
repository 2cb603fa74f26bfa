package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setup is what all measurements can be told.
type setup struct {
	servers       cpuList
	generator     cpuList
	understudies  []string
	environment   []string
	markdown      string
	jsonFile      string
	stdout, shown io.Writer
	folder        string
}

func (s *setup) bind(f *pflag.FlagSet) {
	f.Var(&s.servers, "server-cpus", "the processors of the servers, as taskset writes them (default the first)")
	f.Var(&s.generator, "generator-cpus", "those of the generator (default all others)")
	f.StringArrayVar(&s.understudies, "understudy", nil, "a binary of understudy, or NAME=BINARY; may be repeated to compare (default it is built from this tree)")
	f.StringArrayVar(&s.environment, "understudy-env", nil, "a variable for understudy, such as GOGC=400; may be repeated")
	f.StringVar(&s.markdown, "markdown", "", "write the tables to this file instead of standard output")
	f.StringVar(&s.jsonFile, "json", "", "write every sample to this file")
}

// begin prepares processors and a temporary folder; the caller removes that.
func (s *setup) begin(cmd *cobra.Command) error {
	s.stdout, s.shown = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if err := splitProcessors(&s.servers, &s.generator); err != nil {
		return err
	}
	var err error
	s.folder, err = os.MkdirTemp("", "authzbench-")
	return err
}

func (s *setup) end() { _ = os.RemoveAll(s.folder) }

// binaries returns what --understudy names, or builds it.
func (s *setup) binaries(ctx context.Context) ([]understudy, error) {
	if len(s.understudies) == 0 {
		s.progress("building understudy")
		binary, err := buildUnderstudy(ctx, s.folder)
		return []understudy{{"understudy", binary, s.environment}}, err
	}
	var out []understudy
	for i, text := range s.understudies {
		name, binary, named := strings.Cut(text, "=")
		if !named {
			name, binary = "understudy", text
			if i > 0 {
				name = fmt.Sprintf("understudy-%d", i+1)
			}
		}
		path, err := filepath.Abs(binary)
		if err != nil {
			return nil, err
		}
		out = append(out, understudy{name, path, s.environment})
	}
	return out, nil
}

// progress tells a person who waits.
func (s *setup) progress(what string) { fmt.Fprintln(s.shown, what) }

// publish writes the report where it was asked for.
func (s *setup) publish(write func(io.Writer), everything any) error {
	var errs []error
	if s.jsonFile != "" {
		content, err := json.MarshalIndent(everything, "", "  ")
		errs = append(errs, err, os.WriteFile(s.jsonFile, content, 0o644))
	}
	if s.markdown == "" {
		write(s.stdout)
		return errors.Join(errs...)
	}
	var b strings.Builder
	write(&b)
	return errors.Join(append(errs, os.WriteFile(s.markdown, []byte(b.String()), 0o644))...)
}

// run is the comparison of servers.
type run struct {
	setup
	plan
	policies []string
	kinds    []string
	traffic  string
	targets  []string
}

func newRun() *cobra.Command {
	r := &run{}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Compare what a check costs, by policy and server",
		Long: `Compare what a check costs, by policy and server.

For each policy, every server is started with it and asked the same requests first:
a difference in verdict, status, headers or body ends the run. Then the servers are
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
	return cmd
}

func (r *run) bind(f *pflag.FlagSet) {
	r.setup.bind(f)
	r.Rate = rate{part: .5}
	f.StringSliceVar(&r.policies, "policy", policyNames, "the policies")
	f.StringSliceVar(&r.kinds, "servers", []string{"noop", "stock", "understudy"}, "the servers to start")
	f.StringVar(&r.traffic, "traffic", string(zipf), "zipf: 1,000 users × 200 paths; unique: no path and no token comes twice")
	f.StringArrayVar(&r.targets, "target", nil, "another server: name=host:port[,pid=N][,metrics=URL]; may be repeated")
	f.IntVar(&r.Connections, "connections", 4, "connections to a server")
	f.IntVar(&r.Inflight, "inflight", 64, "requests under way in the closed loop")
	f.Var(&r.Rate, "rate", "of the open loop: requests per second, or a part of the server's own throughput; 0 leaves it out")
	f.DurationVar(&r.Duration, "duration", 2*time.Second, "of each loop in a round")
	f.DurationVar(&r.Warmup, "warmup", 300*time.Millisecond, "before each closed loop")
	f.IntVar(&r.Rounds, "rounds", 5, "how often every server is measured")
}

func (r *run) do(cmd *cobra.Command) error {
	if err := r.validate(); err != nil {
		return err
	}
	if err := r.begin(cmd); err != nil {
		return err
	}
	defer r.end()
	start, k, err := r.prepare(cmd.Context())
	if err != nil {
		return err
	}
	result := &report{Machine: newMachine(&r.setup.servers, &r.generator), Command: "authzbench " + strings.Join(os.Args[1:], " "), Plan: r.plan}
	for _, name := range r.policies {
		series, err := r.policy(cmd.Context(), start, k, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		result.Policies = append(result.Policies, policyReport{name, series})
	}
	return r.finish(result)
}

func (r *run) validate() error {
	r.plan.Traffic = trafficKind(r.traffic)
	var errs []error
	check := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New(text))
		}
	}
	check(r.plan.Traffic == zipf || r.plan.Traffic == unique, "--traffic: it is zipf or unique")
	check(r.Rounds > 0 && r.Inflight > 0 && r.Connections > 0 && r.Duration > 0, "--rounds, --inflight, --connections and --duration are above zero")
	for _, k := range r.kinds {
		check(k == "noop" || k == "stock" || k == "understudy", "--servers: they are noop, stock and understudy")
	}
	return errors.Join(errs...)
}

// prepare makes everything that all policies share.
func (r *run) prepare(ctx context.Context) (*starter, *keys, error) {
	s := &starter{cpus: r.setup.servers, folder: r.folder, connections: r.Connections, servers: r.kinds}
	for _, text := range r.targets {
		t, err := parseTarget(text)
		if err != nil {
			return nil, nil, err
		}
		s.foreign = append(s.foreign, t)
	}
	var err error
	for _, k := range r.kinds {
		if k == "understudy" {
			if s.understudies, err = r.binaries(ctx); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := stayOn(r.generator); err != nil {
		return nil, nil, err
	}
	k, err := newKeys()
	return s, k, err
}

// policy measures all servers with one policy.
func (r *run) policy(ctx context.Context, start *starter, k *keys, name string) ([]series, error) {
	p, err := newPolicy(name, k)
	if err != nil {
		return nil, err
	}
	t, err := newTraffic(r.plan.Traffic, p.Algorithm, k)
	if err != nil {
		return nil, err
	}
	f, err := start.start(ctx, p)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	if err := f.agree(ctx, t); err != nil {
		return nil, err
	}
	return r.compare(ctx, f, t, func(what string) { r.progress(name + ", " + what) })
}

// finish publishes, and tells what makes one doubt.
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
