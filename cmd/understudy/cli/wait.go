package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/reportview"
)

// newWait is the step of a pipeline between start and commit.
//
// It has an exit code of its own for each way to end, so that a pipeline can go on differently: it
// takes a preview back that can no longer be good, and gives one more time that is not good yet.
func newWait() *cobra.Command {
	var require, etag string
	var timeout time.Duration
	var follow bool
	cmd, _ := newCommandWith(reportview.Formats, Help{"wait EXPERIMENT --require LIST", "Wait until the report of an experiment meets requirements",
		`For pipelines: it ends as soon as the answer is known, and prints the report.

The exit code is 0 if all requirements are met, 1 if one of them can no longer be
met, such as newly-denied=0 after the first request that would be denied, 3 if the
time is over, and 4 if there is no answer: the server cannot be reached, or refuses,
or there is no such experiment. It is 1 as well if people have to decide ("Look first"):
there was as much traffic as is required, and an item of the change is unjudged; or all
are met, but requests would be newly denied, newly allowed, answered differently or fail,
or more than 1% were not compared, and no requirement is about those.
A count that is over its limit stays so; for a share, and
for requests, callers and endpoints, more traffic can always help. It does not wait
for different-committer and confirmed: if these alone are not met, there is nothing more to wait for,
and the verdict says that somebody else has to commit.

It is 1, too, once the live policy changes: what was counted is about the policy before,
and the experiment may not have the change. --follow waits on, and counts from zero.

With --etag it is 1 once the experiment has another etag: somebody has changed it. What is
printed at the end names the etag that was judged, which is the one to commit.

` + requireHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			if timeout <= 0 {
				return command.Usage(fmt.Errorf("--timeout %v: it is more than 0, such as 1h", timeout))
			}
			required, err := ParseRequire(require)
			if err != nil {
				return err
			}
			return c.waitFor(ctx, &waitedExperiment{name: name, etag: etag, follow: follow}, required, timeout)
		})
	cmd.Example = `  understudy start shop/tighter
  understudy wait shop/tighter --require '` + ExampleRequire + `,duration>=10m' --timeout 1h
  understudy commit shop/tighter --yes --require '` + ExampleRequire + `'`
	// Every other error of the command becomes "no answer", flags aside.
	ask := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return noAnswer(ask(cmd, args)) }
	bindRequire(cmd, &require)
	command.BindCondition(cmd.Flags(), &etag, command.Etag, "the etag that the experiment has to have")
	cmd.Flags().BoolVar(&follow, "follow", false, "wait on if the live policy changes; requests are counted from zero then")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Hour, "how long to wait")
	return cmd
}

// errNoRequirements is that of a wait for nothing.
var errNoRequirements = command.Usage(errors.New("--require is needed: neither it nor the location says what to wait for; such as --require '" + ExampleRequire + "'"))

// waitFor waits until the requirements of a report are met, but for one about who commits, or
// cannot be any more, or the time is over. Then it prints the last report.
//
// The report that is printed is the one that was judged, and its etags are those to commit: who reads
// it once more may get another one.
func (c *Client) waitFor(ctx context.Context, experiment *waitedExperiment, required *adminpb.CommitRequirements, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	v := viewOn(c.Err, reportview.Progress)
	var last *adminpb.Report
	err := c.follow(ctx, experiment.name, required, v.note, func(r *adminpb.Report) bool {
		done := isDecided(r) || experiment.changedIn(r) != nil
		if last == nil && !done {
			c.explainWaiting(ctx, experiment.name, r)
		}
		// last is also the sign that the server has answered at all.
		last = r
		if !done {
			v.show(r)
		}
		return done
	})
	switch {
	case last == nil:
		return err
	case len(last.Requirements) == 0:
		return errNoRequirements
	// An interrupt prints no report: somebody did not want to wait for it.
	case err != nil && !isOver(ctx, err):
		return err
	}
	if err := c.printWaited(last); err != nil {
		return err
	}
	if err := experiment.changedIn(last); err != nil {
		return err
	}
	return outcome(last, timeout)
}

// waitedExperiment is what is waited for: any version of an experiment, or that with an etag, if it is not empty.
type waitedExperiment struct {
	name, etag string
	// follow says that the live policy may change. policyEtag is that of the first report.
	follow     bool
	policyEtag string
}

// changedIn returns the error of a report about other versions than those that are waited for.
func (w *waitedExperiment) changedIn(r *adminpb.Report) error {
	w.policyEtag = cmp.Or(w.policyEtag, r.PolicyEtag)
	var cause error
	switch {
	case w.etag != "" && r.ExperimentEtag != w.etag:
		cause = fmt.Errorf("the experiment has the etag %s now, and not %s: somebody has changed it", r.ExperimentEtag, w.etag)
	case !w.follow && r.PolicyEtag != w.policyEtag:
		cause = fmt.Errorf("the live policy has changed: its etag is %s now, and was %s when the wait began, so requests are counted from zero; --follow waits on", r.PolicyEtag, w.policyEtag)
	default:
		return nil
	}
	return &command.ExitError{Code: command.ExitFailure, Cause: cause}
}

// isOver reports whether a call failed because the time of its wait is over. The server knows the
// deadline too, and may say so a moment before the deadline is reached here.
func isOver(ctx context.Context, err error) bool {
	deadline, _ := ctx.Deadline()
	const early = time.Second
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded && time.Until(deadline) < early
}

// noAnswer gives an error the exit code of a wait that could not find out, unless it has one.
//
// An interrupt stays one, as everywhere.
func noAnswer(err error) error {
	var coded *command.ExitError
	if err == nil || errors.As(err, &coded) || errors.Is(err, context.Canceled) {
		return err
	}
	return &command.ExitError{Code: command.ExitNoAnswer, Cause: errors.New(Describe(err))}
}

// unreachableOf reports whether a requirement can no longer be met.
//
// The server says of each requirement whether more traffic can still help: a count that is over its
// limit stays so.
func unreachableOf(r *adminpb.Report) bool {
	for _, q := range r.Requirements {
		if q.Unreachable && !q.Met {
			return true
		}
	}
	return false
}

// printWaited prints the report at the end. As text it is the verdict with what each
// requirement has.
func (c *Client) printWaited(r *adminpb.Report) error {
	if c.Output != "text" {
		return reportview.Write(c.Out, c.Output, r, reportview.OptionsFor(c.Out))
	}
	for _, line := range reportview.Progress(r, reportview.OptionsFor(c.Out)) {
		fmt.Fprintln(c.Out, line)
	}
	_, err := fmt.Fprintf(c.Out, "judged: the experiment with the etag %s, against the live policy with the etag %s\n", r.ExperimentEtag, r.PolicyEtag)
	return err
}

// enough reports whether a report shows all that waiting can bring: a requirement about who
// commits is not one of evidence.
//
// Otherwise a pipeline that waits as the one who wrote the experiment would wait until its time is
// over.
func enough(r *adminpb.Report) bool { return r.RequirementsMet || report.OnlyAwaitsCommitter(r) }

// isDecided reports whether waiting can change nothing any more, or only people can.
func isDecided(r *adminpb.Report) bool {
	return isFinal(r) || unreachableOf(r) || report.AwaitsPeople(r)
}

// isFinal reports whether a report is enough and stays what it is: what no requirement is about may still
// be shown by requests that are being examined.
func isFinal(r *adminpb.Report) bool {
	return enough(r) && (report.AllJudged(r) || r.PendingRequestCount == 0)
}

// outcome is the error of a wait that has ended.
//
// What can never be met comes first: to wait longer would not help.
func outcome(r *adminpb.Report, timeout time.Duration) error {
	switch {
	case unreachableOf(r):
		return &command.ExitError{Code: command.ExitFailure, Cause: fmt.Errorf("more traffic cannot meet it: %s", reportview.Unmet(r))}
	case !enough(r) && report.AwaitsPeople(r):
		return &command.ExitError{Code: command.ExitFailure, Cause: fmt.Errorf("people have to decide: %s; see `understudy accept`", reportview.Unmet(r))}
	case !enough(r):
		return &command.ExitError{Code: command.ExitTimeout, Cause: fmt.Errorf("it is not met after %v: %s", timeout, reportview.Unmet(r))}
	case !report.AllJudged(r):
		return &command.ExitError{Code: command.ExitFailure, Cause: errors.New(reportview.NotReady(r))}
	default:
		return nil
	}
}
