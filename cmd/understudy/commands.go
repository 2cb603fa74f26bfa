package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminpb "understudy/admin/v1"
)

const nameHelp = `A policy is named by its ID, such as web, and an experiment as web/strict; a whole
resource name does as well.`

// clientCommands are the commands of the admin API.
func clientCommands() []*cobra.Command {
	return []*cobra.Command{
		newList(), newGet(), newApply(), newStart(), newStop(), newCommit(), newDelete(), newUndelete(),
	}
}

func newList() *cobra.Command {
	var filter string
	cmd, _ := command("list [POLICY]", "List the policies, or the experiments of one policy",
		"With POLICY, its experiments are listed; - lists those of all policies.",
		cobra.MaximumNArgs(1), func(c *client, ctx context.Context, args []string) error {
			if len(args) == 0 {
				return c.listPolicies(ctx, filter)
			}
			return c.listExperiments(ctx, c.name(args[0]), filter)
		})
	cmd.Flags().StringVar(&filter, "filter", "", "an AIP-160 filter, such as 'preview_metadata.state = ACTIVE'")
	return cmd
}

func (c *client) listPolicies(ctx context.Context, filter string) error {
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
	if c.output == "json" {
		return c.print(&adminpb.ListPoliciesResponse{Policies: policies, Unreachable: unreadable})
	}
	c.unreadable(unreadable)
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POLICY\tRULES\tETAG\tUPDATED\tRECONCILING")
	for _, p := range policies {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%v\n", lastSegment(p.Name), len(p.Rules), p.Etag, when(p.UpdateTime), p.Reconciling)
	}
	return t.Flush()
}

func (c *client) listExperiments(ctx context.Context, policy, filter string) error {
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
	if c.output == "json" {
		return c.print(&adminpb.ListPolicyExperimentsResponse{PolicyExperiments: experiments, Unreachable: unreadable})
	}
	c.unreadable(unreadable)
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "EXPERIMENT\tSTATE\tETAG\tSTARTED\tUPDATED")
	for _, e := range experiments {
		state := "never previewed"
		if m := e.PreviewMetadata; m != nil {
			state = m.State.String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.short(e.Name), state, e.Etag,
			when(e.PreviewMetadata.GetStartTime()), when(e.UpdateTime))
	}
	return t.Flush()
}

func lastSegment(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func when(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return t.AsTime().Local().Format(time.DateTime)
}

func newGet() *cobra.Command {
	cmd, _ := command("get NAME", "Show a policy or an experiment as JSON", nameHelp,
		cobra.ExactArgs(1), func(c *client, ctx context.Context, args []string) error {
			name := c.name(args[0])
			if isExperiment(name) {
				e, err := c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
				if err != nil {
					return err
				}
				return c.print(e)
			}
			p, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: name})
			if err != nil {
				return err
			}
			return c.print(p)
		})
	return cmd
}

func newStart() *cobra.Command {
	cmd, _ := changing("start EXPERIMENT", "Start the preview of an experiment",
		"From then on every request that its policy decides is decided by it too, without effect.",
		cobra.ExactArgs(1), func(c *client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			op, err := c.policies.StartPreviewPolicyExperiment(ctx, &adminpb.StartPreviewPolicyExperimentRequest{Name: name})
			return c.finish(ctx, op, err)
		})
	return cmd
}

func newStop() *cobra.Command {
	cmd, _ := changing("stop EXPERIMENT", "End the preview of an experiment", "The experiment stays, and can be started again.\n"+nameHelp,
		cobra.ExactArgs(1), func(c *client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			op, err := c.policies.StopPreviewPolicyExperiment(ctx, &adminpb.StopPreviewPolicyExperimentRequest{Name: name})
			return c.finish(ctx, op, err)
		})
	return cmd
}

func newCommit() *cobra.Command {
	var etag, parentEtag string
	var validateOnly bool
	cmd, _ := changing("commit EXPERIMENT --etag ETAG", "Put an experiment live and delete it",
		`The etag says which version was previewed: 'understudy get' and every preview record
show it. If the experiment has changed since, nothing is committed.`,
		cobra.ExactArgs(1), func(c *client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			if etag == "" {
				return usage(fmt.Errorf("--etag is required: it says which version was previewed; see `understudy get %s`", args[0]))
			}
			op, err := c.policies.CommitPolicyExperiment(ctx, &adminpb.CommitPolicyExperimentRequest{
				Name: name, Etag: etag, ParentEtag: parentEtag, ValidateOnly: validateOnly,
			})
			return c.finish(ctx, op, err)
		})
	cmd.Flags().StringVar(&etag, "etag", "", "the etag of the experiment as it was previewed (required)")
	cmd.Flags().StringVar(&parentEtag, "parent-etag", "", "the etag that the live policy has to have")
	cmd.Flags().BoolVar(&validateOnly, "validate-only", false, "check everything and change nothing")
	return cmd
}

func newDelete() *cobra.Command {
	var etag string
	var yes bool
	cmd, _ := changing("delete NAME", "Delete a policy with its experiments, or an experiment",
		`A deleted policy can be restored for 30 days; an experiment cannot. On a terminal, you
are asked before a policy goes that has experiments, or that sidecars apply.
`+nameHelp,
		cobra.ExactArgs(1), func(c *client, ctx context.Context, args []string) error {
			name := c.name(args[0])
			if isExperiment(name) {
				op, err := c.policies.DeletePolicyExperiment(ctx,
					&adminpb.DeletePolicyExperimentRequest{Name: name, Etag: etag})
				return c.finish(ctx, op, err)
			}
			if err := c.confirmDelete(ctx, name, yes); err != nil {
				return err
			}
			op, err := c.policies.DeletePolicy(ctx, &adminpb.DeletePolicyRequest{Name: name, Etag: etag})
			return c.finish(ctx, op, err)
		})
	cmd.Flags().StringVar(&etag, "etag", "", "the etag that the resource has to have")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask, on a terminal either")
	return cmd
}

func newUndelete() *cobra.Command {
	cmd, _ := changing("undelete POLICY", "Restore a deleted policy", "Its experiments do not come back.",
		cobra.ExactArgs(1), func(c *client, ctx context.Context, args []string) error {
			op, err := c.policies.UndeletePolicy(ctx, &adminpb.UndeletePolicyRequest{Name: c.name(args[0])})
			return c.finish(ctx, op, err)
		})
	return cmd
}
