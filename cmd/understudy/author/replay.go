package author

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz/replay"
	"understudy/cmd/understudy/cli"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/reportview"
	"understudy/cmd/understudy/terminal"
)

// replayFlags are the flags of `replay`.
// replayFlags have all that a preview has from its server: two policies, requirements and a name.
type replayFlags struct {
	// source says how bundles and folders are read, client how names are.
	source sourceFlags
	client cli.Client
	// live and candidate are what is compared: files, folders, bundles or names.
	live, candidate string
	// rules are those that decide in what has no rules of its own; a log's entries of others
	// are left out.
	rules []string
	// policy is the policy whose entries are taken from a log of several.
	policy  string
	require string
	strict  bool
	timeout time.Duration
	// duplicateKeys is deny or allow, as for `serve`.
	duplicateKeys string
	// tests is the file that tests are written to, and testsFor live or candidate: the policy
	// whose answers they state.
	tests, testsFor string
}

// NewReplay makes the command that answers what a change would have done to the traffic of
// yesterday, without a server and without waiting for more.
//
// Its report is made by the same code as that of a preview (package report), of the same evidence, so
// both can be held against the same requirements.
func NewReplay() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay --live POLICY --candidate POLICY FILE...",
		Short: "Compare two policies on recorded traffic",
		Long: `Compare two policies on recorded traffic: decide each entry of decision logs by both,
as of the entry's own time, and print the report that a preview would have made.

A POLICY is a file of 'understudy apply -f', an OPA bundle, a folder or a .rego file as
'understudy import' reads it, or the name of a policy or an experiment on the server.
A name that both have is refused: ./shop is the folder, projects/…/policies/shop that of
the server. The head of the report says where each side comes from. What has no rules of
its own decides by --rule, or by envoy/authz/allow.

A FILE (- is standard input) has decisions of OPA, opa-envoy-plugin or Understudy: lines
of JSON, OPA's JSON console, chunks as OPA uploads them, OTLP in JSON, gzip or not; or
CheckRequests, one a line. Other lines are left out. Those that cannot be read are
counted, and end the command only with --strict.

With --tests what was found becomes regression tests: a test_ rule for each group of
differences, of a request of that route, which was run with both policies before it is
written. It states what the live policy answers, so it fails with the candidate until
that is fixed. What the candidate answers, where that is what you want, is stated with
--tests-for candidate.

Entries that a policy asks for a field which was erased or masked are not compared but
counted, by field. Where a log has what was decided then, the live policy is held against
that.

Without --require the exit code is 0, whatever the report shows; if nothing could be
compared, it is 1. With --require it is 0 if the report fulfils it, and 1 if it does
not, or if requests would be newly denied, newly allowed, answered differently or fail,
or more than 1% were not compared, and --require is not about those, or if an item of
the change is unjudged. It is 2 if a flag or a file makes no sense.`,
		Example: `  understudy replay --live ./policy --candidate ./policy-next opa-*.log.gz
  understudy replay --live shop --candidate shop/tighter --require '` + cli.ExampleRequire + `' decisions.jsonl
  understudy replay --live live.yaml --candidate next.yaml --tests replay_test.rego decisions.jsonl
  kubectl logs deploy/web -c opa | understudy replay --live shop --candidate next.yaml -o markdown -`,
		Args: command.Arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.client.Attach(cmd)
			return f.run(cmd.Context(), args)
		},
	}
	f.bind(cmd)
	return cmd
}

// bind declares the flags. Those of the connection are used only if a policy is named.
func (f *replayFlags) bind(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.source.bind(flags)
	f.client.BindConnection(flags)
	flags.StringVarP(&f.client.Output, "output", "o", "text", "text, json, markdown or junit")
	flags.StringVar(&f.live, "live", "", "the policy that decided, or decides now")
	flags.StringVar(&f.candidate, "candidate", "", "the policy that is to replace it")
	flags.StringArrayVar(&f.rules, "rule", nil, "a rule that decides, such as envoy/authz/allow; may be repeated, the first denial ends the chain")
	flags.StringVar(&f.policy, "policy", "", "take only entries of this policy, of logs that name one; that of --live if it is a name")
	flags.Var((*cli.RequireFlag)(&f.require), "require", "what the report has to show, such as '"+cli.ExampleRequire+"'; lists add up")
	flags.BoolVar(&f.strict, "strict", false, "end with an error at the first record that cannot be read")
	flags.StringVar(&f.duplicateKeys, "duplicate-keys", "deny", "that of 'understudy serve', deny or allow: with deny a request is counted, and not compared, if a policy reads its body and an object of that has a key twice")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Second, "the longest time for one decision")
	flags.StringVar(&f.tests, "tests", "", "write a Rego test of each group of differences to this file: minimised, and without credentials")
	flags.StringVar(&f.testsFor, "tests-for", string(replay.Live), "whose answers the tests state, live or candidate: with the other one they fail")
	command.CompleteOutput(cmd, reportview.Formats...)
	_ = cmd.MarkFlagFilename("tests", "rego")
	f.client.CompletePolicyFlag(cmd, "policy")
	for _, side := range []string{"live", "candidate"} {
		// Its error is that of a flag that does not exist. A file may be meant as well.
		_ = cmd.RegisterFlagCompletionFunc(side, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			return f.client.CompleteSide(cmd, nil, typed)
		})
	}
	_ = cmd.RegisterFlagCompletionFunc("tests-for", cobra.FixedCompletions([]string{"live", "candidate"}, cobra.ShellCompDirectiveNoFileComp))
}

// check refuses flags that make no sense.
//
// Requirements about sidecars or people are refused: they would never be met, and nobody would see why.
func (f *replayFlags) check() (*adminpb.CommitRequirements, error) {
	switch {
	case f.live == "":
		return nil, command.Usage(errors.New("--live is required: the policy that decides now"))
	case f.candidate == "":
		return nil, command.Usage(errors.New("--candidate is required: the policy that is to replace it"))
	case !command.OneOf(f.client.Output, reportview.Formats...):
		return nil, command.Usage(errors.New("--output: it is text, json, markdown or junit"))
	case f.timeout <= 0:
		return nil, command.Usage(errors.New("--timeout: it is a duration above zero, such as 5s"))
	case !command.OneOf(f.duplicateKeys, "deny", "allow"):
		return nil, command.Usage(errors.New("--duplicate-keys: it is deny or allow"))
	case !command.OneOf(f.testsFor, string(replay.Live), string(replay.Candidate)):
		return nil, command.Usage(errors.New("--tests-for: it is live or candidate"))
	}
	required, err := cli.ParseRequire(f.require)
	if err != nil {
		return nil, err
	}
	if required.GetRequireAllNodes() {
		return nil, command.Usage(errors.New("--require: all-nodes is about sidecars, and a recording has none; leave it out"))
	}
	if required.GetRequireDifferentCommitter() || required.GetRequireConfirmation() {
		return nil, command.Usage(errors.New("--require: different-committer and confirmed are about who commits, and a replay commits nothing; leave them out"))
	}
	return required, nil
}

// run reads both policies, replays, and prints. What was found so far is printed when it is
// interrupted, too.
//
// The first interrupt ends the replay, and the report is that of what was read by then. Its exit code
// is that of a failure.
func (f *replayFlags) run(ctx context.Context, names []string) error {
	required, err := f.check()
	if err != nil {
		return err
	}
	live, err := f.read(ctx, "--live", f.live)
	if err != nil {
		return err
	}
	candidate, err := f.read(ctx, "--candidate", f.candidate)
	if err != nil {
		return err
	}
	files, err := recordings(names, f.client.In)
	if err != nil {
		return err
	}
	// Little is kept between entries, so that the garbage of many can wait.
	defer debug.SetGCPercent(debug.SetGCPercent(garbagePercent))
	progress := newReplayProgress(f.client.Err, files)
	result, err := replay.Run(ctx, replay.Options{
		Live: live.policy, Candidate: candidate.policy, Expects: candidate.expects,
		Versions: replay.Versions{LiveEtag: live.etag, CandidateEtag: candidate.etag, LiveRevision: live.revision},
		Policy:   f.chosen(live), Rules: rulePaths(f.rules), Files: progress.files, Workers: runtime.GOMAXPROCS(0),
		Timeout: f.timeout, Strictness: replay.Strictness{Strict: f.strict, DuplicateKeys: f.duplicateKeys == "allow"}, Progress: progress.show,
		Examples: f.tests != "",
	})
	progress.end()
	var refused *replay.PolicyError
	switch {
	// Which of the two does not compile is part of the error.
	case errors.As(err, &refused):
		return explain("the "+string(refused.Side), refused.Err)
	case err != nil && !errors.Is(err, context.Canceled):
		return err
	}
	made := &replayed{flags: f, live: live, candidate: candidate, result: result, interrupted: err != nil}
	if err := f.writeTests(ctx, made); err != nil {
		return err
	}
	return f.show(made, required)
}

// garbagePercent is how much garbage there may be, in percent of what is in use.
//
// It is more than twice Go's default, for a few hundred MiB.
const garbagePercent = 250

// chosen is the policy whose entries are taken.
//
// A log of a sidecar has the decisions of all its policies. Without a name all are taken.
func (f *replayFlags) chosen(live *replaySource) string {
	if f.policy != "" {
		return f.policy
	}
	return live.id
}

// rulePaths are the rules as the policy names them.
func rulePaths(rules []string) (out []string) {
	for _, r := range rules {
		out = append(out, rulePath(r))
	}
	return out
}

// replayed is a replay with what it was made of.
//
// interrupted says that the files were not read to their ends.
type replayed struct {
	flags           *replayFlags
	live, candidate *replaySource
	result          *replay.Result
	interrupted     bool
}

// show prints the report. The error is the exit code.
//
// An empty report would be "no difference", so a file without decisions is an error before that.
func (f *replayFlags) show(r *replayed, required *adminpb.CommitRequirements) error {
	if r.result.Entries == 0 && !r.interrupted {
		return fmt.Errorf("there are no decisions to replay: %s. Is it a decision log, in JSON?", strings.Join(r.read(), "; "))
	}
	// There are no nodes: a recording is one observer, and it has not been silent.
	made := report.Build(report.Input{PolicyEtag: r.live.etag, ExperimentEtag: r.candidate.etag, Evidence: r.result.Evidence, Change: r.result.Items, Expects: r.candidate.expects})
	report.FinishItems(made, r.result.Items)
	report.SetResults(made, nil, required, report.Committer{})
	if err := r.write(made); err != nil {
		return err
	}
	switch {
	case r.interrupted:
		return &command.ExitError{Code: command.ExitFailure, Cause: context.Canceled}
	case r.result.Compared == 0:
		return errors.New("no entry could be compared: the report says why")
	case !report.Ready(made):
		return &command.ExitError{Code: command.ExitFailure}
	}
	return nil
}

// write prints the report in the form that was asked for, with what the replay says next to it.
//
// Names and notes come from files and servers, and are escaped.
func (r *replayed) write(made *adminpb.Report) error {
	if r.flags.client.Output == "json" {
		return r.writeJSON(made)
	}
	o := reportview.OptionsFor(r.flags.client.Out)
	o.Name = terminal.Line(r.flags.candidate)
	o.Sides = []reportview.Side{r.candidate.side("candidate"), r.live.side("live")}
	o.Notes, o.NotesOf = r.notes(), "log"
	return reportview.Write(r.flags.client.Out, r.flags.client.Output, made, o)
}
