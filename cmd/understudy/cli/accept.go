package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// acceptFlags are the flags of `accept`.
type acceptFlags struct {
	reason, etag         string
	requests, callers    int64
	remove, validateOnly bool
}

// newAccept takes what a reviewer has looked at out of what counts against a commit.
func newAccept() *cobra.Command {
	var f acceptFlags
	cmd, c := NewCommand("accept EXPERIMENT [GROUP]", "Accept a group of differences, or list what was accepted",
		`A group that is accepted is still shown, but counts against no requirement: not against
newly-denied=0, for example. GROUP is the ID that `+"`understudy report`"+` shows, or the
beginning of one. The report says who accepted it and why, and the revision keeps that.

It is accepted for the callers that it has now, and for twice as many requests:
--max-callers and --max-requests allow more. It counts again when there are more, when it
has another cause, and when the experiment or the rules of the live policy change. A change
of the live policy's data alone leaves it accepted, and no limit begins anew. A path that is
folded with others is another group, which nobody has accepted. Accepting a group again
replaces what was accepted of it before.

It takes the right to commit. Where a location asks for different-committer, nobody
accepts who has set the experiment's policy.`,
		cobra.RangeArgs(1, 2), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			return f.run(ctx, c, name, args[1:])
		})
	cmd.Example = `  understudy accept shop/tighter 2b6a570b --reason 'a scanner: it never had access'
  understudy accept shop/tighter
  understudy accept shop/tighter 2b6a570b --delete`
	flags := cmd.Flags()
	flags.StringVar(&f.reason, "reason", "", "why the difference is as it should be")
	flags.Int64Var(&f.requests, "max-requests", 0, "the most requests that the group may have (at least 1; default twice what it has)")
	flags.Int64Var(&f.callers, "max-callers", 0, "the most callers that the group may have, with those it has now (at least 1; default those alone)")
	flags.StringVar(&f.etag, "etag", "", "the etag that the experiment has to have")
	flags.BoolVar(&f.remove, "delete", false, "take back what was accepted of the group")
	flags.BoolVar(&f.validateOnly, "validate-only", false, "check everything and change nothing")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		for name, value := range map[string]int64{"max-requests": f.requests, "max-callers": f.callers} {
			if cmd.Flags().Changed(name) && value < 1 {
				return command.Usage(fmt.Errorf("--%s is at least 1", name))
			}
		}
		return nil
	}
	experiments := cmd.ValidArgsFunction
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) != 1 {
			return experiments(cmd, args, typed)
		}
		return c.completeGroup(cmd, args[0])
	}
	return cmd
}

// run lists, accepts or takes back.
func (f *acceptFlags) run(ctx context.Context, c *Client, experiment string, group []string) error {
	switch {
	case len(group) == 0 && (f.reason != "" || f.remove):
		return command.Usage(fmt.Errorf("a GROUP is needed: `understudy report %s` shows the IDs of all groups", c.short(experiment)))
	case len(group) == 0:
		return c.listAcceptances(ctx, experiment)
	case f.remove && f.reason != "":
		return command.Usage(errors.New("--delete takes back what was accepted: give either it or --reason"))
	case f.remove:
		return f.takeBack(ctx, c, experiment, group[0])
	case f.reason == "":
		return command.Usage(errors.New("--reason is needed: others will read why this is as it should be"))
	}
	return f.accept(ctx, c, experiment, group[0])
}

// accept accepts a group, as the present report has it.
func (f *acceptFlags) accept(ctx context.Context, c *Client, experiment, group string) error {
	r, err := c.report(ctx, experiment, nil)
	if err != nil {
		return err
	}
	if f.etag != "" {
		r.ExperimentEtag = f.etag
	}
	id, err := c.groupID(r, group)
	if err != nil {
		return err
	}
	accepted, err := c.policies.CreateAcceptance(ctx, &adminpb.CreateAcceptanceRequest{
		Parent: experiment, ValidateOnly: f.validateOnly, Acceptance: &adminpb.Acceptance{
			Target: &adminpb.Acceptance_GroupId{GroupId: id}, Reason: f.reason, ExperimentEtag: r.ExperimentEtag, PolicyEtag: r.PolicyEtag,
			MaxRequestCount: f.requests, MaxCallerCount: f.callers,
		},
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(accepted)
	}
	begin := "accepted"
	if f.validateOnly {
		begin = "could be accepted"
	}
	_, err = fmt.Fprintf(c.Out, "%s: %s %s, for %s\n", begin, verdict.NameOf(accepted.Difference.GetKind()),
		endpointOf(accepted), verdict.LimitsOf(accepted))
	return err
}

// groupID returns the ID of the group of a report that one begins with.
func (c *Client) groupID(r *adminpb.Report, begin string) (string, error) {
	var found []string
	for _, d := range r.Differences {
		if d.GroupId != "" && strings.HasPrefix(d.GroupId, strings.ToLower(begin)) {
			found = append(found, d.GroupId)
		}
	}
	short := c.short(strings.TrimSuffix(r.Name, "/report"))
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("the report of %s has no group %s: `understudy report %[1]s` shows the IDs of all groups", short, terminal.Line(begin))
	default:
		return "", command.Usage(fmt.Errorf("%d groups of %s begin with %s: %s", len(found), short, terminal.Line(begin), strings.Join(found, ", ")))
	}
}

// takeBack deletes all acceptances of a group, or one by its ID.
func (f *acceptFlags) takeBack(ctx context.Context, c *Client, experiment, group string) error {
	kept, err := c.acceptances(ctx, experiment)
	if err != nil {
		return err
	}
	taken := &adminpb.ListAcceptancesResponse{}
	for _, a := range kept.Acceptances {
		if strings.HasPrefix(a.GetGroupId(), strings.ToLower(group)) || authz.ResourceName(a.Name).ID() == group {
			taken.Acceptances = append(taken.Acceptances, a)
		}
	}
	switch {
	case len(taken.Acceptances) == 0:
		return fmt.Errorf("nobody has accepted a group %s of %s: `understudy accept %[2]s` lists what was accepted", terminal.Line(group), c.short(experiment))
	case slices.ContainsFunc(taken.Acceptances, func(a *adminpb.Acceptance) bool { return a.GetGroupId() != taken.Acceptances[0].GetGroupId() }):
		return command.Usage(fmt.Errorf("more than one accepted group of %s begins with %s", c.short(experiment), terminal.Line(group)))
	}
	for _, a := range taken.Acceptances {
		if _, err := c.policies.DeleteAcceptance(ctx, &adminpb.DeleteAcceptanceRequest{Name: a.Name, Etag: a.Etag, ValidateOnly: f.validateOnly}); err != nil {
			return err
		}
	}
	if c.Output == "json" {
		return c.print(taken)
	}
	begin := "not accepted any more"
	if f.validateOnly {
		begin = "could be taken back"
	}
	first := taken.Acceptances[0]
	_, err = fmt.Fprintf(c.Out, "%s: %s %s\n", begin, verdict.NameOf(first.Difference.GetKind()), endpointOf(first))
	return err
}

// acceptances reads all acceptances of an experiment.
func (c *Client) acceptances(ctx context.Context, experiment string) (*adminpb.ListAcceptancesResponse, error) {
	out := &adminpb.ListAcceptancesResponse{}
	var err error
	out.Acceptances, err = all(func(token string) ([]*adminpb.Acceptance, string, error) {
		page, err := c.policies.ListAcceptances(ctx, &adminpb.ListAcceptancesRequest{
			Parent: experiment, PageToken: token, PageSize: 1000, OrderBy: "create_time",
		})
		out.Unreachable = page.GetUnreachable()
		return page.GetAcceptances(), page.GetNextPageToken(), err
	})
	return out, err
}

// listAcceptances prints one acceptance a line.
func (c *Client) listAcceptances(ctx context.Context, experiment string) error {
	kept, err := c.acceptances(ctx, experiment)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(kept)
	}
	if len(kept.Unreachable) > 0 {
		c.note("what was accepted of %s cannot be read: accept again what is to be accepted", c.short(experiment))
	}
	if len(kept.Acceptances) == 0 {
		c.note("nothing of %[1]s was accepted: `understudy report %[1]s` shows the groups that could be", c.short(experiment))
		return nil
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "GROUP\tKIND\tPATH\tREQUESTS\tCALLERS\tSTATE\tBY\tREASON")
	for _, a := range kept.Acceptances {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s of %s\t%s of %s\t%s\t%s\t%s\n", report.ShortID(a.GetGroupId()), verdict.NameOf(a.Difference.GetKind()), endpointOf(a),
			report.Number(a.RequestCount), report.Number(a.MaxRequestCount), report.Number(a.CallerCount), report.Number(a.MaxCallerCount),
			terminal.Line(verdict.StateOf(a)), terminal.Line(verdict.AccepterOf(a)), terminal.Line(a.Reason))
	}
	return t.Flush()
}

// endpointOf is the method and the path of what was accepted.
func endpointOf(a *adminpb.Acceptance) string {
	return terminal.Line(a.Difference.GetMethod() + " " + a.Difference.GetPath())
}

// completeGroup completes the groups of an experiment's report, each with what it is.
func (c *Client) completeGroup(cmd *cobra.Command, experiment string) ([]string, cobra.ShellCompDirective) {
	name, err := c.experiment(experiment)
	if err != nil || c.Connect() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = c.Conn.Close() }()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	r, err := c.report(ctx, name, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var ids []string
	for _, d := range r.Differences {
		if d.GroupId == "" {
			continue
		}
		ids = append(ids, report.ShortID(d.GroupId)+"\t"+verdict.NameOf(d.Kind)+" "+terminal.Line(d.Method+" "+d.Path))
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
