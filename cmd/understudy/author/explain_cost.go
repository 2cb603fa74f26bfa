package author

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// explainCostFlags are the flags of `explain-cost`.
type explainCostFlags struct {
	client cli.Client
	// source says how bundles and folders are read.
	source sourceFlags
	// file has the policy, in place of the server; empty for none.
	file string
}

// NewExplainCost makes the command that says which decisions of a policy are expensive, and why.
func NewExplainCost() *cobra.Command {
	var f explainCostFlags
	cmd := &cobra.Command{
		Use:   "explain-cost [POLICY]",
		Short: "Say which decisions of a policy are expensive, and why",
		Long: `Say which decisions of a policy are expensive, and why.

The compiled policy says it, with file and line: which values of a request are asked for
whole, so that each new one is evaluated, about which it only asks a question, and what keeps
decisions from being cached. An evaluation that ends with an error, such as two values of one
rule, is made again by OPA's interpreter, and its decision is not cached either.

How many decisions were answered from the cache, and what each took, is in the metrics
understudy_decisions_total and understudy_decision_time_seconds_total of each sidecar.

POLICY is read from the server, or from a file with -f: a policy or an experiment as
'understudy apply -f' reads it, an OPA bundle, a folder or a .rego file.

The exit code is 0 if the policy was explained, 1 if the server does not answer or the policy
does not compile, and 2 if a flag or a file makes no sense.`,
		Example: `  understudy explain-cost shop
  understudy explain-cost shop/tighter -o json
  understudy explain-cost -f policy.yaml`,
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
	command.CompleteOutput(cmd, "text", "json")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json", "rego", "gz")
	return cmd
}

// run explains the policy of a name, or of the file.
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
	_, err = io.WriteString(f.client.Out, strings.Join(out.Reasons, "\n")+"\n")
	return err
}

// validate returns the error of flags that make no sense, alone or together.
//
// All of it is known before a server is asked.
func (f *explainCostFlags) validate(name string) error {
	switch {
	case !command.OneOf(f.client.Output, "text", "json"):
		return command.Usage(errors.New("--output: it is text or json"))
	case name == "" && f.file == "":
		return command.Usage(errors.New("there is nothing to explain: name a POLICY of the server, or a file with -f"))
	case name != "" && f.file != "":
		return command.Usage(errors.New("one policy is explained: give either POLICY or -f"))
	}
	return nil
}

// explained is the explanation of the policy.
func (f *explainCostFlags) explained(ctx context.Context, name string) (out costExplanation, err error) {
	policy, err := f.policy(ctx, name)
	if err != nil {
		return out, err
	}
	shown := cmp.Or(name, f.file)
	cost, err := authz.ExplainCost(ctx, policy)
	if err != nil {
		return out, explain(shown, err)
	}
	return costExplanation{Policy: shown, Cached: cost.Cacheable, Reasons: reasonsOf(cost), Causes: causesOf(cost)}, nil
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

// costExplanation is what `explain-cost` prints.
//
// It is the output with -o json. Reasons are for people; programs read causes.
type costExplanation struct {
	Policy string `json:"policy"`
	// Cached says that decisions are cached.
	Cached bool `json:"cached"`
	// Reasons say in sentences why decisions are evaluated.
	Reasons []string    `json:"reasons"`
	Causes  []costCause `json:"causes"`
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
