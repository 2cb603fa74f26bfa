package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/terminal"
)

// newNodes lists the sidecars as they report themselves to the store; it asks none of
// them.
func newNodes() *cobra.Command {
	var policy, filter string
	cmd, _ := NewCommand("nodes [NODE]", "List the sidecars of a location, or show one as JSON",
		`SEEN is the time since a sidecar last reported; it does so every two seconds. One
that is silent for ten no longer counts, and after an hour it is forgotten.`,
		cobra.MaximumNArgs(1), func(c *Client, ctx context.Context, args []string) error {
			if len(args) > 0 {
				n, err := c.policies.GetNode(ctx, &adminpb.GetNodeRequest{Name: c.node(args[0])})
				if err != nil {
					return err
				}
				return c.print(n)
			}
			if policy != "" {
				filter = strings.TrimPrefix(filter+fmt.Sprintf(" AND policies:%q", c.Name(policy)), " AND ")
			}
			return c.listNodes(ctx, filter)
		})
	cmd.Flags().StringVar(&policy, "policy", "", "only those that enforce this policy")
	cmd.Flags().StringVar(&filter, "filter", "", "an AIP-160 filter, such as 'error:*'")
	return cmd
}

// listNodes prints one sidecar a line. APPLIED is the last change that it has applied: one
// that falls behind the others gets no changes from the store.
func (c *Client) listNodes(ctx context.Context, filter string) error {
	nodes, err := all(func(token string) ([]*adminpb.Node, string, error) {
		page, err := c.policies.ListNodes(ctx, &adminpb.ListNodesRequest{
			Parent: c.location, Filter: filter, PageToken: token, PageSize: 1000,
		})
		return page.GetNodes(), page.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(&adminpb.ListNodesResponse{Nodes: nodes})
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tPOLICIES\tAPPLIED\tSTARTED\tSEEN\tERROR")
	for _, n := range nodes {
		failure := "-"
		switch absent := authz.AbsentDefault(n); {
		case n.Error != nil:
			failure = n.Error.Message
		case absent != "":
			failure = "no policy " + string(absent)
		}
		name := authz.ResourceName(n.Name).ID()
		if n.Observing {
			name += " (observing)"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", name, len(n.Policies), n.AppliedSequence,
			terminal.When(n.CreateTime), terminal.Since(n.HeartbeatTime.AsTime()), failure)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return c.explainAbsent(nodes)
}

// explainAbsent says once for each default policy that does not exist what that means.
func (c *Client) explainAbsent(nodes []*adminpb.Node) error {
	said := make(map[string]bool)
	for _, n := range nodes {
		id := authz.AbsentDefault(n)
		if help := authz.AbsentDefaultHelp(id, authz.DefaultVerdict(n)); id != "" && !said[help] {
			said[help] = true
			if _, err := fmt.Fprintln(c.Out, help); err != nil {
				return err
			}
		}
	}
	return nil
}
