package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/authz/background"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/reportview"
	"understudy/cmd/understudy/terminal"
)

// ExampleRequire is the list that commands show as an example. It is what a commit without
// anybody who looks should require: enough requests, and what any commit should show.
const ExampleRequire = report.DefaultTerm + ",requests>=10000"

// defaultLines returns the default requirements on two lines, the second of which is indented.
func defaultLines(indent string) string {
	return strings.Replace(report.DefaultRequirements, ",failed", ",\n"+indent+"failed", 1)
}

// requireHelp is in the help of all commands that take --require.
var requireHelp = `LIST is what the report has to show, with commas between:
  default               what a careful commit requires: requests>=1000,
                        ` + defaultLines("                        ") + `;
                        a term of your own takes the place of one of these
  requests>=10000       at least so many requests were compared that one of the two
                        policies allows: what both deny, anybody can send
  callers>=20           they have at least so many distinct callers
  endpoints>=5          and at least so many distinct methods and paths
  duration>=1h30m       the preview was ACTIVE for so long; also 7d
  newly-denied=0        none of the requests would be newly denied, apart from those
                        that are accepted, or expected by the experiment's file
  newly-denied<=0.1%    at most this share of those that the live policy allows
  newly-allowed<=0.1%   at most this share of those that the live policy denies
  newly-denied<=1%@95   with a confidence of 95%, however often you look, at most this
                        share of callers; not met where fewer than 95% of the requests
                        have a caller; newly-denied<=0.1%@95/requests is of requests,
                        as if they were independent; newly-allowed, too
  response-changed<=1%  at most this share of those with the same result
  failed<=0.1%          at most this share of those compared failed in the experiment
  dropped<=1%           at most this share of all was not compared, by chance or not,
                        or because the live policy failed
  unjudged=0            no item in which the policies differ is left that no request
                        has shown and nobody has accepted
  all-nodes             every live sidecar with the policy reports
  different-committer   the one who commits has never set the experiment's policy, nor
                        what it expects
  confirmed             the one who commits has accepted nothing of it, nor set an
                        expectation that requests fit: somebody else confirms those
  accepted<=100         at most so many of the requests that differ are accepted or
                        expected
  scope=all-pairs       count what was compared with earlier live policies, too
Without the %, each of these limits is on a number: a caller who may ask for
something else makes a share smaller, and no number. A share is not known, and so not
met, if more than 1% of what was to be compared was lost and not by chance, and a
number is only if it has to be 0. Where chance chose what was compared, the upper end
of the 95% interval has to be within the limit, of a number above 0, too; it is not
known if it is as precise as fewer than 30 requests. What the
location requires of every commit counts as well. A list that says nothing about
newly-denied, newly-allowed, response-changed or failed is no answer once there are
such requests, nor one that says nothing about dropped once more than 1% was not
compared. The verdict is then "Look first", and not "Ready", and so it is while an item
is unjudged, whatever the list allows.`

// reportFlags are the flags of `report`. The server judges by require; the others are about what is printed.
type reportFlags struct {
	require            string
	watch, all, expect bool
}

// newReport shows what a preview has shown so far. It is for people, and its exit code is
// for pipelines.
//
// It reads and never changes anything, so it needs the right to view alone.
func newReport() *cobra.Command {
	var f reportFlags
	cmd, _ := newCommandWith(reportview.Formats, Help{"report EXPERIMENT", "Show what an experiment would change, or has changed with its commit",
		`It begins with the verdict. Then come the items of the change, with what requests have
shown of them, how many requests were compared and how they differ, what changes and
why, who is concerned, and what is not known. On a terminal it fits the screen; --all shows lists
to their ends.

--expect prints what differs, and is neither accepted nor expected, as entries for the
file of the experiment, each of which needs a reason.

Of an experiment that was committed it shows what was known then, as its revision
keeps it; POLICY@REVISION names one (see ` + "`understudy revisions`" + `).

The exit code is 0 if all requirements are met, those of the location and those of
--require, and 1 if not, or if requests would be newly denied, newly allowed, answered
differently or fail, or more than 1% were not compared, and none of the requirements is
about those, or if an item of the change is unjudged. Without any it is 0.

` + requireHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			if policy, revision, found := strings.Cut(args[0], "@"); found {
				return c.showRevisionReport(ctx, policy, revision, f)
			}
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			required, err := ParseRequire(f.require)
			if err != nil {
				return err
			}
			if f.expect && f.watch {
				return command.Usage(errors.New("--expect prints what differs now: give either it or --watch"))
			}
			if f.expect {
				return c.showExpectations(ctx, name)
			}
			if f.watch {
				return c.watch(ctx, name, required)
			}
			return c.showReport(ctx, name, required, f)
		})
	cmd.Example = `  understudy report shop/tighter
  understudy report shop@latest
  understudy report shop/tighter --watch
  understudy report shop/tighter --require '` + ExampleRequire + `' -o junit > report.xml
  understudy report shop/tighter -o markdown | gh pr comment --body-file -
  understudy report shop/tighter --expect >>experiment.yaml`
	bindRequire(cmd, &f.require)
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "show it again whenever it changes, until interrupted")
	cmd.Flags().BoolVar(&f.expect, "expect", false, "print what differs as expectations for the experiment's file, each of which needs a reason")
	cmd.Flags().BoolVar(&f.all, "all", false, "show lists to their ends, also where the terminal is too low for them")
	return cmd
}

// bindRequire declares --require, and completes the names of requirements.
func bindRequire(cmd *cobra.Command, require *string) {
	cmd.Flags().Var((*RequireFlag)(require), "require", "what the report has to show, such as '"+ExampleRequire+"'; lists add up")
	_ = cmd.RegisterFlagCompletionFunc("require", completeRequire)
}

// RequireFlag is the value of --require: the lists of all that are given, as one list. It implements pflag.Value.
//
// Lists add up, so that a pipeline can add its own to those of a variable. A requirement that is in
// two of them is an error.
type RequireFlag string

// Set implements pflag.Value: it adds a list.
// An empty one adds nothing: a variable of a pipeline may be unset.
func (f *RequireFlag) Set(list string) error {
	if *f != "" && list != "" {
		list = "," + list
	}
	*f += RequireFlag(list)
	return nil
}

// String implements pflag.Value.
func (f *RequireFlag) String() string { return string(*f) }

// Type implements pflag.Value: what the help calls the value.
func (*RequireFlag) Type() string { return "string" }

// ParseRequire reads the value of --require. Without any it is nil.
//
// Nil is no requirements at all, which the server distinguishes from ones that demand nothing.
func ParseRequire(list string) (*adminpb.CommitRequirements, error) {
	if list == "" {
		return nil, nil
	}
	required, err := report.Parse(list)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("--require: %w", err))
	}
	return required, nil
}

// report reads the report of an experiment, judged by requirements that may be nil.
//
// The server adds the requirements of the location, and judges all of them: there is one place that
// knows when a requirement is met, and commits use it, too.
func (c *Client) report(ctx context.Context, experiment string, required *adminpb.CommitRequirements) (*adminpb.Report, error) {
	return c.policies.GetReport(ctx, &adminpb.GetReportRequest{Name: experiment + "/report", Requirements: required})
}

// showReport prints a report once. That of an experiment which is not there any more, because
// it was committed, is the one that its revision keeps.
//
// Its exit code is for pipelines, so it is not 0 either where nobody has judged what differs.
func (c *Client) showReport(ctx context.Context, experiment string, required *adminpb.CommitRequirements, f reportFlags) error {
	r, err := c.report(ctx, experiment, required)
	if status.Code(err) == codes.NotFound {
		return c.showCommitted(ctx, experiment, f, err)
	}
	if err != nil {
		return err
	}
	if err := c.writeReport(r, f); err != nil {
		return err
	}
	if report.TakesBack(r) {
		c.note("`understudy rebase %s` merges what the live policy has changed into it", c.short(experiment))
	}
	if wantsMore(r) {
		c.explainWaiting(ctx, experiment, r)
	}
	return met(r)
}

// writeReport prints a report in the form that is asked for.
//
// As text its width is that of the terminal, so that no line is broken in two.
func (c *Client) writeReport(r *adminpb.Report, f reportFlags) error {
	o := reportview.OptionsFor(c.Out)
	o.Everything = f.all
	return reportview.Write(c.Out, c.Output, r, o)
}

// met is the exit code of a report.
//
// The error has no text: the report has said it.
func met(r *adminpb.Report) error {
	if report.Ready(r) {
		return nil
	}
	return &command.ExitError{Code: command.ExitFailure}
}

// wantsMore reports whether more traffic is what a report needs: nothing was compared with
// the present live policy, or a requirement is not met.
//
// A requirement that cannot be met by more traffic is among them: the note does no harm there.
func wantsMore(r *adminpb.Report) bool { return r.RequestCount == 0 || !r.RequirementsMet }

// explainWaiting says why a report that wants more does not get it, as far as the experiment
// shows it.
//
// It never fails: it is a note next to a report that was printed.
func (c *Client) explainWaiting(ctx context.Context, experiment string, r *adminpb.Report) {
	e, err := c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: experiment})
	preview := e.GetPreviewMetadata()
	switch {
	case err != nil:
	case preview.GetState() != adminpb.PolicyPreviewMetadata_ACTIVE:
		c.note("%[1]s is not being previewed, so nothing is added to its report: `understudy start %[1]s` starts it", c.short(experiment))
	case r.RequestCount > 0:
	case r.AllPairs.GetRequestCount() > 0:
		c.note("%s is being previewed; its sidecars have not reported a request since the live policy changed", c.short(experiment))
	default:
		c.note("%s is being previewed since %s; its sidecars have not reported a request yet", c.short(experiment), terminal.When(preview.StartTime))
	}
}

// note writes a sentence to standard error, next to what a script reads.
func (c *Client) note(format string, values ...any) {
	fmt.Fprintf(c.Err, "note: "+format+"\n", values...)
}

const (
	// firstPoll is between the first two looks at a report, and pollTime between later ones:
	// each is twice as long after the one before. Sidecars publish every two seconds at most.
	// So a `wait` right behind a few requests, as in a test, ends when they are counted.
	firstPoll = 100 * time.Millisecond
	pollTime  = time.Second
)

// watch shows a report again and again, until the context ends. Its exit code is that of
// the last one: who interrupts it has seen enough.
func (c *Client) watch(ctx context.Context, experiment string, required *adminpb.CommitRequirements) error {
	v, err := c.viewer()
	if err != nil {
		return err
	}
	var last *adminpb.Report
	err = c.follow(ctx, experiment, required, v.note, func(r *adminpb.Report) bool {
		v.show(r)
		last = r
		return false
	})
	if last == nil || ctx.Err() == nil {
		return err
	}
	return met(last)
}

// view is what shows a report again and again.
// view shows reports in place on a terminal, and elsewhere line by line.
type view struct {
	// show shows it once more.
	show func(*adminpb.Report)
	// note shows a text in its place, or below it.
	note func(string)
}

// viewer returns the view of `report --watch`.
func (c *Client) viewer() (view, error) {
	switch c.Output {
	case "text":
		return viewOn(c.Out, reportview.Lines), nil
	case "json":
		var last *adminpb.Report
		return view{show: func(r *adminpb.Report) {
			// One line for each change, so that `jq` can read it as it comes.
			if line, err := protojson.Marshal(r); err == nil && !proto.Equal(r, last) {
				fmt.Fprintln(c.Out, string(line))
			}
			last = r
		}, note: viewOn(c.Err, nil).note}, nil
	default:
		return view{}, command.Usage(fmt.Errorf("--watch goes with -o text, and with -o json as one line for each change; -o %s is for one report", c.Output))
	}
}

// viewOn is a view of lines that are drawn in place on a terminal. Where there is none, it
// is the verdict on a line whenever that has changed, with the time at which it was seen.
func viewOn(w io.Writer, lines func(*adminpb.Report, reportview.Options) []string) view {
	if terminal.Is(w) {
		screen := &terminal.Redraw{To: w}
		return view{
			show: func(r *adminpb.Report) { screen.Draw(lines(r, reportview.OptionsFor(w))) },
			note: func(text string) { screen.Draw([]string{text}) },
		}
	}
	last := ""
	say := func(text string) {
		if text != last {
			fmt.Fprintf(w, "%s  %s\n", time.Now().Format(time.TimeOnly), text)
			last = text
		}
	}
	return view{show: func(r *adminpb.Report) { say(verdict.Of(r).String()) }, note: say}
}

// follow reads a report again and again until done returns true. Only the first answer has
// to come: later, an API that does not answer for a while is asked again, and that is noted.
//
// It polls: a report changes with every publication of every sidecar, and a stream would need a
// connection for each who waits.
func (c *Client) follow(
	ctx context.Context, experiment string, required *adminpb.CommitRequirements, note func(string), done func(*adminpb.Report) bool,
) error {
	answered := false
	for pause := firstPoll; ; pause = min(2*pause, pollTime) {
		r, err := c.report(ctx, experiment, required)
		switch {
		case err == nil:
			answered = true
			if done(r) {
				return nil
			}
		case ctx.Err() != nil:
			return ctx.Err()
		// A mistyped address is UNAVAILABLE, too: before the first answer it is an error.
		case !answered || status.Code(err) != codes.Unavailable:
			return err
		default:
			note(c.noAnswer())
		}
		background.Sleep(ctx, pause)
	}
}

// noAnswer says that the admin API is asked again.
func (c *Client) noAnswer() string {
	return "no answer from the admin API at " + c.addr + "; asking again until there is one"
}
