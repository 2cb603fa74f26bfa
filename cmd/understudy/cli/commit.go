package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/reportview"
)

// commitFlags are the flags of `commit`.
type commitFlags struct {
	etag, parentEtag, require string
	validateOnly, yes         bool
}

// newCommit puts live what was previewed. What that is is never guessed: it is the pair of
// versions that the report spoke of, or the version whose etag is given. Otherwise one
// could go live that nobody has previewed, because somebody changed it meanwhile
// (AIP-154).
func newCommit() *cobra.Command {
	var f commitFlags
	cmd, _ := newChange(Help{"commit EXPERIMENT", "Put an experiment live and delete it",
		`It shows the report, asks, and commits exactly the pair that the report spoke of: the
version of the experiment, in place of the live policy that it was compared with.
If either has changed since, nothing is committed, and the error says what changed.

Without --require it is held against what a careful reviewer would ask for:
` + defaultLines("") + `.
What is not met is listed, group by group and item by item, and it asks for one reason
why that is as it should be. With that reason each is accepted, as ` + "`understudy accept`" + `
does it, for what was shown and no more, and then it is committed. With --require the
same is done with what decides and none of the requirements is about: what they judge
stays judged.

In a script nobody can be asked, so there it takes --yes with --require, by which
the report is judged once more as it is committed. What the location requires of
every commit is always judged. With --yes nothing is committed by which requests
would be newly denied, newly allowed, answered differently or fail, or of which more
than 1% were not compared, if no requirement is about those, nor anything of which an
item is unjudged.

With --etag the version that has this etag is committed, without showing the report;
` + "`understudy list POLICY`" + ` and every preview record name it. It warns of what a careful
reviewer would have asked for, and of a live policy that has changed since it was
compared, unless --parent-etag says which it has to be.

` + requireHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			return f.run(ctx, c, name)
		})
	cmd.Example = `  understudy commit shop/tighter
  understudy commit shop/tighter --yes --require '` + ExampleRequire + `'
  understudy commit shop/tighter --etag 'W/"0a93ab142f0ab7e4c8a050fb25187cdc"'`
	flags := cmd.Flags()
	bindRequire(cmd, &f.require)
	command.BindCondition(flags, &f.etag, command.Etag, "commit the version of the experiment with this etag, without showing the report")
	command.BindCondition(flags, &f.parentEtag, command.ParentEtag, "with --etag, the etag that the live policy has to have")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask; without a terminal it takes --require, too")
	flags.BoolVar(&f.validateOnly, "validate-only", false, "check everything and change nothing")
	return cmd
}

// run commits by the report, or by the etag that is given.
//
// With an etag nobody is asked: who names a version has seen it, or has a pipeline that has.
func (f *commitFlags) run(ctx context.Context, c *Client, name string) error {
	required, err := ParseRequire(f.require)
	if err != nil {
		return err
	}
	request := &adminpb.CommitPolicyExperimentRequest{
		Name: name, Etag: f.etag, ParentEtag: f.parentEtag, ValidateOnly: f.validateOnly, Requirements: required,
	}
	if f.etag != "" {
		f.warn(ctx, c, name)
		op, err := c.policies.CommitPolicyExperiment(ctx, request)
		return c.finish(ctx, op, err)
	}
	if err := f.mayGoWithoutEtag(c, name); err != nil {
		return err
	}
	return f.byReport(ctx, c, request)
}

// mayGoWithoutEtag returns the error of flags that do not say what is committed, where
// nobody can be asked.
//
// Of a commit without an etag, a person looks at the report, or requirements do. The errors name
// both ways, since one who writes a pipeline meets this first.
func (f *commitFlags) mayGoWithoutEtag(c *Client, name string) error {
	short := c.short(name)
	switch {
	case f.parentEtag != "":
		return command.Usage(fmt.Errorf("--parent-etag goes with --etag: without them, `understudy commit %s` takes both from the report", short))
	case f.validateOnly || c.interactive() || f.yes && f.require != "":
		return nil
	case f.yes:
		return command.Usage(errors.New("--require is needed with --yes where standard input is no terminal: nobody looks at the report, so say what it has to show, such as --require '" + ExampleRequire + "'; or commit one version with --etag"))
	default:
		return command.Usage(errors.New("standard input is no terminal, so nobody can be asked: give --yes and --require, such as --yes --require '" + ExampleRequire + "', or commit one version with --etag"))
	}
}

// byReport shows the report, asks, and commits the pair that the report is about.
//
// Between the report and the commit another one may change the experiment or the live policy. Then
// the etags are others, the server answers ABORTED, and nothing is committed.
func (f *commitFlags) byReport(ctx context.Context, c *Client, request *adminpb.CommitPolicyExperimentRequest) error {
	// Without requirements the report is held against careful ones, so that it says what is missing;
	// what is committed then is for the person to say.
	given := request.Requirements
	if !report.Demands(given) {
		request.Requirements = carefulOf(given)
	}
	r, err := c.report(ctx, request.Name, request.Requirements)
	if err != nil {
		return err
	}
	if r.ExperimentEtag == "" || r.PolicyEtag == "" {
		return fmt.Errorf("the report of %s names no versions, so it is not known what to commit: --etag names one", c.short(request.Name))
	}
	// Standard error: with -o json standard output is the operation.
	for _, line := range reportview.Lines(r, reportview.OptionsFor(c.Err)) {
		fmt.Fprintln(c.Err, line)
	}
	if report.Demands(given) {
		err = f.asRequired(r)
	}
	if err == nil {
		err = f.carefully(ctx, c, request, r, given)
	}
	if err != nil {
		return err
	}
	request.Etag, request.ParentEtag = r.ExperimentEtag, r.PolicyEtag
	op, err := c.policies.CommitPolicyExperiment(ctx, request)
	if status.Code(err) == codes.Aborted {
		return c.changedSince(ctx, r, request.Name, err)
	}
	return c.finish(ctx, op, err)
}

// asRequired returns the error of a report that does not show what is required, or that nobody looks at
// while something that decides is not judged.
//
// The server judges the same again with the commit. Here it is judged first, so that the error has
// the words of the report which was just shown.
func (f *commitFlags) asRequired(r *adminpb.Report) error {
	switch {
	case !r.RequirementsMet:
		return fmt.Errorf("nothing was committed: %s", reportview.Unmet(r))
	case f.yes && !report.Ready(r):
		return fmt.Errorf("nothing was committed: %s", reportview.NotReady(r))
	default:
		return nil
	}
}

// errNothingCommitted is that of somebody who was asked and said no.
var errNothingCommitted = errors.New("nothing was committed")

// warn warns on standard error of what nobody has judged of a version that is named by its etag. It
// never fails: the commit is judged by the server.
//
// The report may be of another version than the etag: then it says nothing about it.
func (f *commitFlags) warn(ctx context.Context, c *Client, name string) {
	r, err := c.report(ctx, name, report.Default())
	if err != nil || r.ExperimentEtag != f.etag {
		return
	}
	if f.parentEtag == "" {
		c.warnOfOtherPolicy(r, name)
	}
	// The error of the commit has what the location requires.
	r.Requirements = slices.DeleteFunc(r.Requirements, func(q *adminpb.Report_RequirementResult) bool {
		return q.Source == adminpb.Report_RequirementResult_LOCATION
	})
	if f.require == "" && len(report.Unmet(r)) > 0 {
		fmt.Fprintf(c.Err, "warning: nobody has judged what a careful commit requires: %s\n", reportview.Unmet(r))
	}
}

// warnOfOtherPolicy warns if the live policy is not the one that an experiment was compared with.
func (c *Client) warnOfOtherPolicy(r *adminpb.Report, name string) {
	// RequestCount is of the present pair, AllPairs of all live policies that the experiment was
	// compared with.
	if r.RequestCount > 0 || r.AllPairs.GetRequestCount() == 0 {
		return
	}
	fmt.Fprintf(c.Err, "warning: the live policy has changed since %s was compared: nothing of its report (%s) is about the one that is live now, which this commit replaces; --parent-etag makes that an error\n",
		c.short(name), report.Counted(r.AllPairs.RequestCount, "request"))
}

// changedSince is the error of a commit that was refused because one of the pair is another
// one now: what has changed, and what to do. The cause is what the API answered, if that
// says more than can be found out.
//
// The live policy is looked at first: a hot fix that a commit would undo is the worse surprise.
func (c *Client) changedSince(ctx context.Context, r *adminpb.Report, name string, cause error) error {
	short, policy := c.short(name), string(authz.ResourceName(name).Policy())
	live, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: policy})
	if err == nil && live.Etag != r.PolicyEtag {
		return &refusal{cause, fmt.Sprintf("nothing was committed: the live policy has changed since the report%s.\n"+
			"The experiment does not have that change, so its commit would undo it.\n"+
			"To keep it, bring it into the experiment: `understudy apply %[2]s -f FILE`, then `understudy start %[2]s`.\n"+
			"To see what the experiment changes now: `understudy report %[2]s`.", c.differenceOf(ctx, r.PolicyEtag, live), short)}
	}
	e, err := c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
	if err == nil && e.Etag != r.ExperimentEtag {
		return &refusal{cause, fmt.Sprintf("nothing was committed: %[1]s has changed since the report, and nobody has seen the report of what it is now.\n"+
			"Start its preview if it has none, `understudy start %[1]s`, and read `understudy report %[1]s`.", short)}
	}
	return cause
}

// refusal is the error of a call in other words. Its cause stays that of the API.
//
// [Describe] prints its text alone, and codes and details are those of the cause.
type refusal struct {
	cause error
	text  string
}

// Error implements error.
func (e *refusal) Error() string { return e.text }

// Unwrap returns what the API answered.
func (e *refusal) Unwrap() error { return e.cause }

// differenceOf says in what a live policy differs from the one that had an etag before, as
// far as that is kept as a revision.
//
// It is a part of an error, so whatever it cannot find out it leaves out.
func (c *Client) differenceOf(ctx context.Context, etag string, live *adminpb.Policy) string {
	when := ""
	if live.UpdateTime != nil {
		when = " at " + live.UpdateTime.AsTime().Local().Format("15:04:05")
	}
	revisions, err := c.readRevisions(ctx, live.Name, "")
	if err != nil {
		return when
	}
	// A revision keeps the policy as it was live, with the etag that it had then.
	at := slices.IndexFunc(revisions, func(r *adminpb.PolicyRevision) bool { return r.Snapshot.GetEtag() == etag })
	if at < 0 {
		return when
	}
	was, err := c.policies.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: revisions[at].Name})
	parts := changedParts(was.GetSnapshot(), live)
	if err != nil || len(parts) == 0 {
		return when
	}
	return when + ": " + strings.Join(parts, ", ")
}

// unmetOf are the violations of a state that a change needs, such as the requirements of a commit, as far as the message
// does not have them.
//
// AIP-193 has PreconditionFailure for them.
func unmetOf(st *status.Status) (lines []string) {
	for _, d := range st.Details() {
		if failed, ok := d.(*errdetails.PreconditionFailure); ok {
			for _, v := range failed.Violations {
				if !strings.Contains(st.Message(), v.Description) {
					lines = append(lines, v.Subject+": "+v.Description)
				}
			}
		}
	}
	return lines
}

// changedParts names the parts in which two policies differ: modules by their names, data
// by their first keys, and rules.
//
// It is for one line of an error. `understudy diff` shows the lines themselves.
func changedParts(before, after *adminpb.Policy) (parts []string) {
	parts = append(parts, changedKeys(before.GetModules(), after.GetModules(), "", func(a, b string) bool { return a == b })...)
	parts = append(parts, changedKeys(before.GetData().GetFields(), after.GetData().GetFields(), "data.",
		func(a, b *structpb.Value) bool { return proto.Equal(a, b) })...)
	if !slices.EqualFunc(before.GetRules(), after.GetRules(), func(a, b *adminpb.PolicyRule) bool { return proto.Equal(a, b) }) {
		parts = append(parts, "rules")
	}
	return parts
}

// changedKeys are the keys of two maps that are in one alone, or have other values.
//
// They are sorted, so that the same change has the same text.
func changedKeys[V any](before, after map[string]V, prefix string, same func(a, b V) bool) (keys []string) {
	all := make(map[string]V)
	maps.Copy(all, before)
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		a, had := before[key]
		b, has := after[key]
		switch {
		case !had:
			keys = append(keys, prefix+key+" was added")
		case !has:
			keys = append(keys, prefix+key+" was removed")
		case !same(a, b):
			keys = append(keys, prefix+key)
		}
	}
	return keys
}
