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
	cmd, c := NewCommand(Help{"accept EXPERIMENT [ID]", "Accept a group of differences or an unseen item, or list what was accepted",
		`A group that is accepted is still shown, but counts against no requirement: not against
newly-denied=0, for example. An item in which the policies differ, and that no request has
shown, counts for unjudged=0 as if it had been seen. ID is that of a group or of an item,
as ` + "`understudy report`" + ` shows it, or the beginning of one; ` + allItems + ` is all items at once. The
report says who accepted it and why, and the revision keeps that.

A group is accepted for the callers that it has now, and for twice as many requests:
--max-callers and --max-requests allow more. It counts again when there are more, and when
the experiment or the rules of the live policy change. A change of the live policy's data
alone leaves it accepted, and no limit begins anew. Requests that differ for another cause are
another group, which nobody has accepted. Its path keeps its name, however many other paths
there are. An item is accepted as
long as the policies differ in it, in the same way. Accepting the same again replaces what
was accepted of it before.

It takes the right to commit. Where a location asks for different-committer, nobody
accepts who has set the experiment's policy.`},
		cobra.RangeArgs(1, 2), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			return f.run(ctx, c, name, args[1:])
		})
	cmd.Example = `  understudy accept shop/tighter 2b6a570b --reason 'a scanner: it never had access'
  understudy accept shop/tighter
  understudy accept shop/tighter 9c01d2e4 --reason 'the night shift begins in March'
  understudy accept shop/tighter 2b6a570b --delete`
	flags := cmd.Flags()
	flags.StringVar(&f.reason, "reason", "", "why that is as it should be: others will read it, so a yes is none")
	flags.Int64Var(&f.requests, "max-requests", 0, "the most requests that the group may have (at least 1; default twice what it has)")
	flags.Int64Var(&f.callers, "max-callers", 0, "the most callers that the group may have, with those it has now (at least 1; default those alone)")
	command.BindCondition(flags, &f.etag, command.Etag, "the etag that the experiment has to have")
	flags.BoolVar(&f.remove, "delete", false, "take back what was accepted of it")
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
		return c.completeAccepted(cmd, args[0])
	}
	return cmd
}

// run lists, accepts or takes back.
func (f *acceptFlags) run(ctx context.Context, c *Client, experiment string, id []string) error {
	switch {
	case len(id) == 0 && (f.reason != "" || f.remove):
		return command.Usage(fmt.Errorf("an ID is needed: `understudy report %s` shows those of all groups and items", c.short(experiment)))
	case len(id) == 0:
		return c.listAcceptances(ctx, experiment)
	case f.remove && f.reason != "":
		return command.Usage(errors.New("--delete takes back what was accepted: give either it or --reason"))
	case f.remove:
		return f.takeBack(ctx, c, experiment, id[0])
	case f.reason == "":
		return command.Usage(errors.New("--reason is needed: others will read why this is as it should be"))
	}
	return f.accept(ctx, c, experiment, id[0])
}

// accept accepts a group or an item, as the present report has it.
func (f *acceptFlags) accept(ctx context.Context, c *Client, experiment, id string) error {
	r, err := c.report(ctx, experiment, nil)
	if err != nil {
		return err
	}
	if f.etag != "" {
		r.ExperimentEtag = f.etag
	}
	asked, err := c.target(r, id)
	if err != nil {
		return err
	}
	if asked.GetItemId() != "" && f.requests+f.callers > 0 {
		return command.Usage(errors.New("--max-requests and --max-callers go with a group: no request has shown an item that is accepted"))
	}
	asked.Reason, asked.ExperimentEtag, asked.PolicyEtag = f.reason, r.ExperimentEtag, r.PolicyEtag
	asked.MaxRequestCount, asked.MaxCallerCount = f.requests, f.callers
	accepted, err := c.policies.CreateAcceptance(ctx, &adminpb.CreateAcceptanceRequest{
		Parent: experiment, ValidateOnly: f.validateOnly, Acceptance: asked,
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
	limits := ""
	if accepted.GetGroupId() != "" {
		limits = ", for " + verdict.LimitsOf(accepted)
	}
	_, err = fmt.Fprintf(c.Out, "%s: %s%s\n", begin, targetOf(accepted), limits)
	return err
}

// allItems stands for the change_id of a report.
const allItems = "all-items"

// target returns an acceptance of the group or the item of a report whose ID begins so.
func (c *Client) target(r *adminpb.Report, begin string) (*adminpb.Acceptance, error) {
	if begin == allItems && r.ChangeId != "" {
		return ofItem(r.ChangeId), nil
	}
	var found []*adminpb.Acceptance
	add := func(id string, a *adminpb.Acceptance) {
		if id != "" && strings.HasPrefix(id, strings.ToLower(begin)) {
			found = append(found, a)
		}
	}
	for _, d := range r.Differences {
		add(d.GroupId, ofGroup(d.GroupId))
	}
	for _, item := range r.Items {
		add(item.ItemId, ofItem(item.ItemId))
	}
	add(r.ChangeId, ofItem(r.ChangeId))
	short := c.short(r.Name)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("the report of %s has no group or item %s: `understudy report %[1]s` shows the IDs of all", short, terminal.Line(begin))
	default:
		var ids []string
		for _, a := range found {
			ids = append(ids, a.GetGroupId()+a.GetItemId())
		}
		return nil, command.Usage(fmt.Errorf("%d groups or items of %s begin with %s: %s", len(found), short, terminal.Line(begin), strings.Join(ids, ", ")))
	}
}

// ofGroup and ofItem are acceptances of what has an ID.
func ofGroup(id string) *adminpb.Acceptance {
	return &adminpb.Acceptance{Target: &adminpb.Acceptance_GroupId{GroupId: id}}
}

func ofItem(id string) *adminpb.Acceptance {
	return &adminpb.Acceptance{Target: &adminpb.Acceptance_ItemId{ItemId: id}}
}

// takeBack deletes all acceptances of a group or an item, or one by its ID.
func (f *acceptFlags) takeBack(ctx context.Context, c *Client, experiment, id string) error {
	kept, err := c.acceptances(ctx, experiment)
	if err != nil {
		return err
	}
	taken := &adminpb.ListAcceptancesResponse{
		Acceptances: slices.DeleteFunc(kept.Acceptances, func(a *adminpb.Acceptance) bool { return !isMeant(a, id) }),
	}
	switch {
	case len(taken.Acceptances) == 0:
		return fmt.Errorf("nobody has accepted %s of %s: `understudy accept %[2]s` lists what was accepted", terminal.Line(id), c.short(experiment))
	case slices.ContainsFunc(taken.Acceptances, func(a *adminpb.Acceptance) bool { return acceptedID(a) != acceptedID(taken.Acceptances[0]) }):
		return command.Usage(fmt.Errorf("more than one that was accepted of %s begins with %s", c.short(experiment), terminal.Line(id)))
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
	_, err = fmt.Fprintf(c.Out, "%s: %s\n", begin, targetOf(taken.Acceptances[0]))
	return err
}

// isMeant reports whether an acceptance is of the group or item whose ID begins with id, or has
// that ID itself.
func isMeant(a *adminpb.Acceptance, id string) bool {
	ofAll := id == allItems && a.GetItemId() != "" && a.GetItem().GetKind() == adminpb.Report_Item_ITEM_KIND_UNSPECIFIED
	return ofAll || strings.HasPrefix(acceptedID(a), strings.ToLower(id)) || authz.ResourceName(a.Name).ID() == id
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
		c.note("nothing of %[1]s was accepted: `understudy report %[1]s` shows the groups and items that could be", c.short(experiment))
		return nil
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tWHAT\tREQUESTS\tCALLERS\tSTATE\tBY\tREASON")
	for _, a := range kept.Acceptances {
		requests, callers := "-", "-"
		if a.GetGroupId() != "" {
			requests = report.Number(a.RequestCount) + " of " + report.Number(a.MaxRequestCount)
			callers = report.Number(a.CallerCount) + " of " + report.Number(a.MaxCallerCount)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", report.ShortID(acceptedID(a)), targetOf(a), requests, callers,
			terminal.Line(verdict.StateOf(a)), terminal.Line(verdict.AccepterOf(a)), terminal.Line(a.Reason))
	}
	return t.Flush()
}

// acceptedID is the ID of what was accepted.
func acceptedID(a *adminpb.Acceptance) string { return a.GetGroupId() + a.GetItemId() }

// targetOf is what was accepted, on one line.
func targetOf(a *adminpb.Acceptance) string { return verdict.Target(a).Write(terminal.Line, quoted) }

// quoted is what is quoted of a policy, on one line.
func quoted(text string) string { return "`" + terminal.Line(text) + "`" }

// completeAccepted completes the groups and the unseen items of an experiment's report, each with
// what it is.
func (c *Client) completeAccepted(cmd *cobra.Command, experiment string) ([]string, cobra.ShellCompDirective) {
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
	for _, item := range r.Items {
		if item.ItemId != "" && !report.SeenWhole(item) {
			ids = append(ids, report.ShortID(item.ItemId)+"\t"+verdict.What(item).Write(terminal.Line, quoted))
		}
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
