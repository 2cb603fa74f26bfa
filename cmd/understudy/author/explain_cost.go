package author

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// explainCostFlags are the flags of `explain-cost`.
//
// Policy and metrics may come from two places, since the sidecar that decides need
// not be the one that serves the API.
type explainCostFlags struct {
	client cli.Client
	// source says how bundles and folders are read.
	source sourceFlags
	// file has the policy, in place of the server; empty for none.
	file string
	// replay is the log whose requests are replayed; empty for none.
	replay string
	// health is the health port of a sidecar; empty for no costs.
	health  string
	timeout time.Duration
}

// NewExplainCost makes the command that says which decisions of a policy are expensive, and
// why.
//
// It changes nothing and starts nothing: the costs are those that live traffic has had.
func NewExplainCost() *cobra.Command {
	var f explainCostFlags
	cmd := &cobra.Command{
		Use:   "explain-cost [POLICY]",
		Short: "Say what the decisions of a policy cost, and why",
		Long: `Say what the decisions of a policy cost, and why.

What they cost is read from the metrics of one sidecar, since its start: how many were
answered from the decision cache, how many were evaluated, and the mean time of each. Why,
the compiled policy says, with file and line: which values of a request are asked for
whole, so that each new one is evaluated, about which it only asks a question, and what keeps
decisions from being cached. An evaluation that ends with an error, such as two values of one
rule, is made again by OPA's interpreter, and its decision is not cached either.

With --replay the requests of a decision log are decided by the policy, as 'understudy replay'
reads them, and what each of them is asked is counted: how often a question was asked, how
many different answers there were, and how often the answer was new, so that the request had
to be evaluated. The questions with most new answers come first: their lines make decisions
not repeat. All are in -o json.

POLICY is read from the server, or from a file with -f: a policy or an experiment as
'understudy apply -f' reads it, an OPA bundle, a folder or a .rego file. A file without
POLICY, and an experiment, is explained without metrics.

The exit code is 0 if the policy was explained, 1 if the server or the sidecar does not
answer, the policy does not compile or nothing of the log could be replayed, and 2 if a flag
or a file makes no sense.`,
		Example: `  understudy explain-cost shop
  understudy explain-cost shop --health 10.0.0.7:8282 -o json
  understudy explain-cost -f policy.yaml
  understudy explain-cost shop --replay decisions.jsonl
  understudy explain-cost shop -f changed.yaml`,
		Args: command.Arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.client.Attach(cmd)
			return f.run(cmd.Context(), strings.Join(args, ""))
		},
		ValidArgsFunction: f.client.CompletePolicy,
	}
	flags := cmd.Flags()
	f.source.bind(flags)
	f.client.BindConnection(flags)
	flags.StringVarP(&f.client.Output, "output", "o", "text", "text or json")
	flags.StringVarP(&f.file, "file", "f", "", "the policy; - is a bundle on standard input")
	flags.StringVar(&f.replay, "replay", "", "a decision log whose requests are replayed by the policy; - is standard input")
	flags.StringVar(&f.health, "health", command.EnvOr("HEALTH_ADDR", "127.0.0.1:8282"), "the sidecar's health port, --health-addr, or '' for no costs (UNDERSTUDY_HEALTH_ADDR)")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Second, "how long to wait for the metrics")
	command.CompleteOutput(cmd, "text", "json")
	_ = cmd.MarkFlagFilename("replay")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json", "rego", "gz")
	return cmd
}

// run explains the policy of a name, of the file, or both.
func (f *explainCostFlags) run(ctx context.Context, name string) error {
	if err := f.validate(name); err != nil {
		return err
	}
	out, err := f.explained(ctx, name)
	if err != nil {
		return err
	}
	if f.client.Output == "json" {
		return terminal.WriteValue(f.client.Out, out)
	}
	return out.print(f.client.Out, f.replay)
}

// validate returns the error of flags that make no sense, alone or together.
//
// All of it is known before a server is asked.
func (f *explainCostFlags) validate(name string) error {
	switch {
	case !command.OneOf(f.client.Output, "text", "json"):
		return command.Usage(errors.New("--output: it is text or json"))
	case f.timeout <= 0:
		return command.Usage(errors.New("--timeout: it is a duration above zero, such as 5s"))
	case f.file == "-" && f.replay == "-":
		return command.Usage(errors.New("-f and --replay: only one of them can be standard input"))
	case name == "" && f.file == "":
		return command.Usage(errors.New("there is nothing to explain: name a POLICY of the server, or a file with -f"))
	}
	return nil
}

// explained is the explanation of the policy: of its text, of what a log asked it, and of what a sidecar
// has counted.
//
// If both a name and a file are given, the costs are those of the name, and the reasons those of the
// file: what a change would mean for what is expensive today.
func (f *explainCostFlags) explained(ctx context.Context, name string) (out costExplanation, err error) {
	policy, err := f.policy(ctx, name)
	if err != nil {
		return out, err
	}
	cost, err := authz.ExplainCost(ctx, policy)
	if err != nil {
		return out, explain(shownName(name, f.file), err)
	}
	out = costExplanation{Policy: shownName(name, f.file), Cached: cost.Cacheable, Reasons: reasonsOf(cost), Causes: causesOf(cost)}
	// Where nothing is cached each request is evaluated, whatever it asks.
	if f.replay != "" && cost.Cacheable {
		if out.Replay, err = f.replayCost(ctx, policy, f.policyID(name), cost.Causes); err != nil {
			return out, err
		}
	}
	// An experiment decides nothing live, and so has no such metrics.
	if resource := authz.ResourceName(f.client.Name(name)); name != "" && f.health != "" && resource.Experiment() == "" {
		if out.Costs, err = readCosts(ctx, f.health, resource.ID(), f.timeout); err != nil {
			return out, err
		}
		out.measured = true
	}
	return out, nil
}

// policyID is how a log calls the policy of a name; empty without one.
//
// That of an experiment is its policy's: the log is one of live decisions.
func (f *explainCostFlags) policyID(name string) string {
	if name == "" {
		return ""
	}
	return string(authz.ResourceName(f.client.Name(name)).Policy().ID())
}

// policy reads the policy. A bundle or a module has one rule, the default one.
func (f *explainCostFlags) policy(ctx context.Context, name string) (*adminpb.Policy, error) {
	if f.file == "" {
		if err := f.client.Connect(); err != nil {
			return nil, command.Usage(err)
		}
		defer func() { _ = f.client.Conn.Close() }()
		return f.client.Policy(ctx, name)
	}
	read := testFlags{source: f.source, in: f.client.In}
	policy, err := read.read(ctx, f.file)
	if err == nil && !command.OneOf(filepath.Ext(f.file), ".yaml", ".yml", ".json") {
		// A rule without a path is envoy/authz/allow.
		policy.Rules = []*adminpb.PolicyRule{{Filter: &adminpb.PolicyRule_Rego{Rego: &adminpb.RegoFilter{}}}}
	}
	return policy, err
}

// shownName is what the explanation is of.
//
// With both it is the name: what is measured is of the live policy.
func shownName(name, file string) string {
	if name == "" {
		return file
	}
	return name
}

// costExplanation is what `explain-cost` prints.
//
// It is the output with -o json. Reasons are for people; programs read causes.
type costExplanation struct {
	Policy string `json:"policy"`
	// Cached says that decisions are cached.
	Cached bool `json:"cached"`
	// Costs are those of one sidecar since its start, by path.
	Costs []pathCost `json:"costs,omitempty"`
	// Reasons say in sentences why decisions are evaluated.
	Reasons []string    `json:"reasons"`
	Causes  []costCause `json:"causes"`
	// Replay is what the requests of a log were asked; nil if there is none, or nothing is cached.
	Replay *costReplay `json:"replay,omitempty"`
	// measured says that a sidecar was asked.
	measured bool
}

// costCause is a place of the policy; the kinds are those of [rego.CauseKind].
type costCause struct {
	Kind string `json:"kind"`
	What string `json:"what,omitempty"`
	File string `json:"file,omitempty"`
	Row  int    `json:"row,omitempty"`
}

// causesOf are the causes as JSON has them; never null.
func causesOf(cost authz.Cost) []costCause {
	out := []costCause{}
	for _, c := range cost.Causes {
		out = append(out, costCause{string(c.Kind), c.What, c.File, c.Row})
	}
	return out
}

// print prints the costs and the reasons as people read them.
func (e costExplanation) print(out io.Writer, log string) error {
	var b strings.Builder
	if e.measured {
		printCosts(&b, e.Policy, e.Costs)
		b.WriteByte('\n')
	}
	for _, reason := range e.Reasons {
		fmt.Fprintf(&b, "%s\n", reason)
	}
	switch {
	case e.Replay != nil:
		b.WriteByte('\n')
		e.Replay.print(&b, log)
	case log != "":
		fmt.Fprintf(&b, "So %s was not replayed: no decision repeats.\n", terminal.Escape(log))
	}
	_, err := io.WriteString(out, b.String())
	return err
}
