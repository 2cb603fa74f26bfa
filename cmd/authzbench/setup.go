package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// setup holds the flags of all measurements, and what they make while they run.
type setup struct {
	servers      cpuList
	generator    cpuList
	understudies []string
	environment  []string
	markdown     string
	jsonFile     string
	// stdout gets the report, shown what a person who waits wants to see.
	stdout, shown io.Writer
	// folder is temporary: stores, sockets, files of policies, the binary. end removes
	// it.
	folder string
}

func (s *setup) bind(f *pflag.FlagSet) {
	f.Var(&s.servers, "server-cpus", "the processors of the servers, as taskset writes them (default the first)")
	f.Var(&s.generator, "generator-cpus", "those of the generator (default all others)")
	f.StringArrayVar(&s.understudies, "understudy", nil,
		"a binary of understudy, or NAME=BINARY; may be repeated to compare (default it is built from this tree)")
	f.StringArrayVar(&s.environment, "understudy-env", nil, "a variable for understudy, such as GOGC=400; may be repeated")
	f.StringVar(&s.markdown, "markdown", "", "write the tables to this file instead of standard output")
	f.StringVar(&s.jsonFile, "json", "", "write every sample to this file")
}

// begin chooses processors and makes a temporary folder. After it, end has to be
// called.
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

// progress shows a line to a person who waits: minutes pass without any other output.
func (s *setup) progress(what string) { fmt.Fprintln(s.shown, what) }

// publish writes the report where it was asked for: --json with every sample, and the
// tables as --markdown or on standard output. It tries both, since a measurement of
// minutes should not be lost to one wrong path.
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

// comparison holds the flags of measurements under load: run, preview and commit embed
// it. A flag means the same in all of them.
type comparison struct {
	setup
	plan
	policies []string
	traffic  string
	// keysFrom is the folder of --policies, if given.
	keysFrom string
}

func (c *comparison) bind(f *pflag.FlagSet) {
	c.setup.bind(f)
	c.Rate = rate{part: .5}
	f.StringSliceVar(&c.policies, "policy", policyNames, "the policies")
	f.StringVar(&c.keysFrom, "policies", "", "a folder that the command policies wrote, for its keys")
	f.StringVar(&c.traffic, "traffic", string(zipf), "zipf: 1,000 users × 200 paths; rest: 1,000 users, an ID of its own in each path, 5 % new tokens; unique: no path and no token comes twice")
	f.IntVar(&c.Connections, "connections", 4, "connections to a server")
	f.IntVar(&c.Inflight, "inflight", 64, "requests under way in the closed loop")
	f.Var(&c.Rate, "rate", "of the open loop: requests per second, or a part of the server's own throughput")
	f.DurationVar(&c.Duration, "duration", 2*time.Second, "of each loop in a round")
	f.DurationVar(&c.Prime, "prime", 2*time.Second,
		"of load for each server before the first round, so that its caches are filled")
	f.DurationVar(&c.Warmup, "warmup", 300*time.Millisecond, "before each loop")
	f.IntVar(&c.Rounds, "rounds", 5, "how often every server is measured")
}

// validate reports every mistake at once, before anything is started.
func (c *comparison) validate() error {
	c.Traffic = trafficKind(c.traffic)
	var errs []error
	if !slices.Contains(trafficKinds, c.Traffic) {
		errs = append(errs, errors.New("--traffic: it is zipf, rest or unique"))
	}
	if c.Rounds <= 0 || c.Inflight <= 0 || c.Connections <= 0 || c.Duration <= 0 || c.Warmup <= 0 {
		errs = append(errs, errors.New("--rounds, --inflight, --connections, --duration and --warmup: they are above zero"))
	}
	for _, name := range c.policies {
		if !slices.Contains(policyNames, name) {
			errs = append(errs, unknownPolicy(name))
		}
	}
	return errors.Join(errs...)
}

// prepare makes everything that all policies share, for some kinds of servers. From
// here on this process stays on the generator's processors; the build of the binary
// comes before that, since it may use all.
func (c *comparison) prepare(ctx context.Context, kinds []string) (*starter, *keys, error) {
	s := &starter{cpus: c.servers, folder: c.folder, connections: c.Connections, servers: kinds}
	if slices.Contains(kinds, "understudy") {
		var err error
		if s.understudies, err = c.binaries(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := stayOn(c.generator); err != nil {
		return nil, nil, err
	}
	k, err := c.keys()
	return s, k, err
}

// workload is what one policy is measured with.
type workload struct {
	policy  policySpec
	traffic *traffic
	start   *starter
}

// eachPolicy measures all policies one after the other. kinds are the servers that are started,
// and measure is called with each policy.
func eachPolicy[R any](c *comparison, cmd *cobra.Command, kinds []string, measure func(context.Context, workload) (R, error)) (results []R, err error) {
	if err := c.begin(cmd); err != nil {
		return nil, err
	}
	start, k, err := c.prepare(cmd.Context(), kinds)
	if err != nil {
		return nil, err
	}
	for _, name := range c.policies {
		w := workload{start: start}
		if w.policy, err = newPolicy(name, k); err == nil {
			w.traffic, err = newTraffic(c.Traffic, w.policy, k)
		}
		if err != nil {
			return nil, err
		}
		one, err := measure(cmd.Context(), w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, one)
	}
	return results, nil
}

// keys are new for each run, so that no key that signs anything is ever in this
// repository, unless --policies names those whose public parts a foreign server already
// has.
func (c *comparison) keys() (*keys, error) {
	if c.keysFrom != "" {
		return readKeys(c.keysFrom)
	}
	return newKeys()
}

// head begins a report.
func (c *comparison) head() reportHead {
	return reportHead{Machine: newMachine(&c.servers, &c.generator), Command: commandLine(), Plan: c.plan}
}

// commandLine is what the report shows, so that a table can be measured again.
func commandLine() string { return strings.Join(append([]string{"authzbench"}, os.Args[1:]...), " ") }
