package author

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/authz/replay"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// explainFlags are the flags of `explain`.
type explainFlags struct {
	client cli.Client
	// source says how bundles and folders are read.
	source sourceFlags
	// file has the policy, in place of the server; empty for none.
	file string
	// policy is the policy on the server that decided; empty for the one that the log names.
	policy string
}

// NewExplain makes the command that says why one decision of a log was made.
//
// No server keeps decisions by their IDs, so a decision log is where they are found. The decision is made again, as
// `replay` does.
func NewExplain() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain DECISION_ID FILE...",
		Short: "Say why one decision of a decision log was made",
		Long: `Say why one decision of a decision log was made: which expressions of the policy
decided, with file and line.

DECISION_ID is in the metadata of each answer to Envoy, in its access log if that has it,
in the records of experiments and in the decision log. No server keeps decisions by their
IDs: a FILE (- is standard input) is a decision log, in any of the forms that 'understudy
replay' reads. 'understudy serve --decision-log console' writes one to standard output.

The request is decided again, at its own time, by the version of the policy that the log
names: the live policy or one of its revisions. If that version is not kept any more, the
live policy is explained, with a note. With -f the policy is one of a file instead.

A request that a policy reads an erased or masked field of, such as a token, cannot be
decided again. 'understudy check --explain' explains a request that you send yourself.

The exit code is 0 if the decision was explained, 1 if it was not, and 2 if a flag or a
file makes no sense.`,
		Example: `  understudy explain 219da814-8e0f-4e1b-ac11-274b1a12e14e decisions.jsonl
  kubectl logs deploy/web -c understudy | understudy explain 219da814-8e0f-4e1b-ac11-274b1a12e14e -
  understudy explain 219da814-8e0f-4e1b-ac11-274b1a12e14e -f changed.yaml decisions.jsonl`,
		Args: command.Arguments(cobra.MinimumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.client.Attach(cmd)
			return f.run(cmd.Context(), args[0], args[1:])
		},
	}
	flags := cmd.Flags()
	f.source.bind(flags)
	f.client.BindConnection(flags)
	flags.StringVarP(&f.client.Output, "output", "o", "text", "text or json")
	flags.StringVarP(&f.file, "file", "f", "", "the policy, as 'understudy apply -f' reads it, an OPA bundle, a folder or a .rego file")
	flags.StringVar(&f.policy, "policy", "", "the policy on the server that decided; by default the one that the log names")
	command.CompleteOutput(cmd, "text", "json")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json", "rego", "gz")
	f.client.CompletePolicyFlag(cmd, "policy")
	return cmd
}

// validate returns the error of flags that make no sense.
func (f *explainFlags) validate() error {
	switch {
	case !command.OneOf(f.client.Output, "text", "json"):
		return command.Usage(errors.New("--output: it is text or json"))
	case f.file != "" && f.policy != "":
		return command.Usage(errors.New("-f and --policy: both name the policy; leave out one of them"))
	case f.file == "-":
		return command.Usage(errors.New("-f: standard input can only be the log"))
	}
	return nil
}

// find returns the decision with an ID in the files.
func (f *explainFlags) find(ctx context.Context, decisionID string, names []string) (*replay.Recorded, error) {
	files, err := recordings(names, f.client.In)
	if err != nil {
		return nil, err
	}
	var logs []replay.File
	for _, l := range files {
		logs = append(logs, l.File)
	}
	recorded, err := replay.Find(ctx, logs, decisionID)
	if errors.Is(err, replay.ErrNoDecision) {
		return nil, fmt.Errorf("there is no decision %s in %s; with --decision-log-sample a log has only a part of the allowed ones", decisionID, strings.Join(names, ", "))
	}
	return recorded, err
}

// run finds the decision and explains it.
func (f *explainFlags) run(ctx context.Context, decisionID string, names []string) error {
	if err := f.validate(); err != nil {
		return err
	}
	recorded, err := f.find(ctx, decisionID, names)
	if err != nil {
		return err
	}
	out, err := f.explained(ctx, recorded)
	if err != nil {
		return err
	}
	out.DecisionID = decisionID
	if at := recorded.Time(); !at.IsZero() {
		out.Time = at.Format(time.RFC3339Nano)
	}
	if err := f.print(out); err != nil {
		return err
	}
	if out.NotExplained != "" {
		return &command.ExitError{Code: command.ExitFailure}
	}
	return nil
}

// print prints the explanation.
func (f *explainFlags) print(out *cli.Explained) error {
	if f.client.Output == "json" {
		return terminal.WriteValue(f.client.Out, out)
	}
	return out.Print(f.client.Out)
}

// explained explains a decision by the policy that made it, or by that of the file.
func (f *explainFlags) explained(ctx context.Context, recorded *replay.Recorded) (*cli.Explained, error) {
	if f.file != "" {
		policy, err := (&explainCostFlags{client: f.client, source: f.source, file: f.file}).policy(ctx, "")
		if err != nil {
			return nil, err
		}
		out, err := explainBy(ctx, policy, recorded)
		if err != nil {
			return nil, explain(f.file, err)
		}
		out.Policy = f.file
		return out, nil
	}
	name, revision := recorded.Policy()
	if f.policy != "" {
		name = authz.PolicyName(f.client.Name(f.policy))
	}
	if !strings.HasPrefix(string(name), "projects/") {
		return nil, command.Usage(errors.New("the log does not name the policy: name it with --policy, or a file with -f"))
	}
	if err := f.client.Connect(); err != nil {
		return nil, command.Usage(err)
	}
	defer func() { _ = f.client.Conn.Close() }()
	policy, found, err := f.client.PolicyOf(ctx, name, revision)
	if err != nil {
		return nil, err
	}
	out, err := explainBy(ctx, policy, recorded)
	if err != nil {
		return nil, explain(string(name), err)
	}
	out.Policy, out.Etag = string(name), policy.GetEtag()
	if !found {
		out.Notes = append(out.Notes, "the version that decided, "+revision+", is not kept any more: this is what the live policy decides")
	}
	return out, nil
}

// explainBy decides a recorded request by a policy, and explains that.
func explainBy(ctx context.Context, policy *adminpb.Policy, recorded *replay.Recorded) (*cli.Explained, error) {
	why, err := recorded.Explain(ctx, policy)
	if err != nil {
		return nil, err
	}
	d := why.Decision
	out := &cli.Explained{
		NotExplained: why.NotDecided, Because: []cli.Decisive{},
	}
	if why.NotDecided == "" {
		out.Result, out.Rule, out.Path, out.Reason = d.Result(), d.Rule, d.RulePath(), d.Reason
	}
	for _, e := range why.Causes {
		out.Because = append(out.Because, cli.Decisive{File: e.File, Line: e.Line, Text: e.Shown()})
	}
	for _, m := range why.Missing {
		note := "the log does not have " + m.Field
		if m.Position != "" {
			note += ", which " + m.Position + " reads"
		}
		out.Notes = append(out.Notes, note)
	}
	if len(why.Missing) > 0 {
		out.Notes = append(out.Notes, "`understudy check --explain` explains such a request, sent with its token")
	}
	if failed := recorded.Failure(); failed != "" {
		out.Notes = append(out.Notes, "the log has a failure: "+failed)
	}
	if why.Drift != authz.Unchanged {
		out.Notes = append(out.Notes, "the log has another decision: "+string(why.Drift))
	}
	return out, nil
}

// ExplainCheck explains the decision of a policy on a CheckRequest.
func ExplainCheck(ctx context.Context, policy *adminpb.Policy, request []byte) (*cli.Explained, error) {
	var asked struct {
		Attributes struct {
			Request struct {
				Time time.Time `json:"time"`
			} `json:"request"`
		} `json:"attributes"`
	}
	// A request without a time is decided as of now.
	if err := json.Unmarshal(request, &asked); err != nil || asked.Attributes.Request.Time.IsZero() {
		asked.Attributes.Request.Time = time.Now()
	}
	return explainBy(ctx, policy, replay.Request(request, asked.Attributes.Request.Time))
}
