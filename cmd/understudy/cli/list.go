package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/terminal"
)

// newList lists policies, or experiments if a policy is named: what is in a location is in
// a policy, so there is no other list.
func newList() *cobra.Command {
	var filter string
	cmd, _ := newCommand("list [POLICY]", "List the policies, or the experiments of one policy",
		`With POLICY, its experiments are listed; - lists those of all policies. REQUESTS is how
many were compared by an experiment that is being previewed, and DIFFER how many of
them it would decide differently; `+"`understudy report`"+` shows which.`,
		cobra.MaximumNArgs(1), func(c *Client, ctx context.Context, args []string) error {
			if len(args) == 0 {
				return c.listPolicies(ctx, filter)
			}
			return c.listExperiments(ctx, c.Name(args[0]), filter)
		})
	cmd.Flags().StringVar(&filter, "filter", "", "an AIP-160 filter, such as 'preview_metadata.state = ACTIVE'")
	return cmd
}

// listPolicies prints a table, or all pages as one answer in JSON. Stored policies that
// cannot be read are named on standard error (AIP-217): the list of the others is right
// without them.
func (c *Client) listPolicies(ctx context.Context, filter string) error {
	var unreadable []string
	policies, err := all(func(token string) ([]*adminpb.Policy, string, error) {
		page, err := c.policies.ListPolicies(ctx, &adminpb.ListPoliciesRequest{
			Parent: c.location, Filter: filter, PageToken: token, PageSize: 1000,
		})
		unreadable = page.GetUnreachable()
		return page.GetPolicies(), page.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(&adminpb.ListPoliciesResponse{Policies: policies, Unreachable: unreadable})
	}
	c.unreadable(unreadable)
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POLICY\tRULES\tETAG\tUPDATED\tRECONCILING")
	for _, p := range policies {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%v\n", authz.ResourceName(p.Name).ID(), len(p.Rules), p.Etag, terminal.When(p.UpdateTime), p.Reconciling)
	}
	return t.Flush()
}

// listExperiments is listPolicies of the experiments of a policy, or of all with -.
func (c *Client) listExperiments(ctx context.Context, policy, filter string) error {
	var unreadable []string
	experiments, err := all(func(token string) ([]*adminpb.PolicyExperiment, string, error) {
		page, err := c.policies.ListPolicyExperiments(ctx, &adminpb.ListPolicyExperimentsRequest{
			Parent: policy, Filter: filter, PageToken: token, PageSize: 1000,
		})
		unreadable = page.GetUnreachable()
		return page.GetPolicyExperiments(), page.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(&adminpb.ListPolicyExperimentsResponse{PolicyExperiments: experiments, Unreachable: unreadable})
	}
	c.unreadable(unreadable)
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "EXPERIMENT\tSTATE\tREQUESTS\tDIFFER\tETAG\tSTARTED\tUPDATED")
	reports := c.numbers(ctx, experiments)
	for i, e := range experiments {
		state := "never previewed"
		if m := e.PreviewMetadata; m != nil {
			state = m.State.String()
		}
		requests, differ := numbersOf(reports[i])
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.short(e.Name), state, requests, differ, e.Etag,
			terminal.When(e.PreviewMetadata.GetStartTime()), terminal.When(e.UpdateTime))
	}
	return t.Flush()
}
