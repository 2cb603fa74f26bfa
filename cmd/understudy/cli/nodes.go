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
//
// A sidecar that was stopped says so and is gone from the list; one that was killed stays in it for
// an hour.
func newNodes() *cobra.Command {
	var policy, filter string
	cmd, c := NewCommand(Help{"nodes [NODE]", "List the sidecars of a location, or show one as JSON",
		`SEEN is the time since a sidecar last reported; it does so every two seconds. One
that is silent for ten no longer counts, and after an hour it is forgotten.`},
		cobra.MaximumNArgs(1), func(c *Client, ctx context.Context, args []string) error {
			if len(args) > 0 {
				n, err := c.policies.GetNode(ctx, &adminpb.GetNodeRequest{Name: c.node(args[0])})
				if err != nil {
					return err
				}
				return c.print(n)
			}
			if policy != "" {
				// AIP-160: `:` asks whether a repeated field has the value.
				filter = strings.TrimPrefix(filter+fmt.Sprintf(" AND policies:%q", c.Name(policy)), " AND ")
			}
			return c.listNodes(ctx, filter)
		})
	cmd.Flags().StringVar(&policy, "policy", "", "only those that enforce this policy")
	cmd.Flags().StringVar(&filter, "filter", "", "an AIP-160 filter, such as 'error:*'")
	c.CompletePolicyFlag(cmd, "policy")
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
		// An error comes before a policy that is not there: it says why a change is not applied.
		switch absent := authz.AbsentDefault(n); {
		case n.Error != nil:
			failure = n.Error.Message
		case absent != "":
			failure = "no policy " + string(absent)
		}
		// It is the --node of the sidecar: by default the host name and a random suffix.
		name := authz.ResourceName(n.Name).ID()
		// It answers OK every time, whatever its policies say.
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
//
// Many sidecars usually lack the same one.
func (c *Client) explainAbsent(nodes []*adminpb.Node) error {
	said := make(map[string]bool)
	for _, n := range nodes {
		id := authz.AbsentDefault(n)
		if help := authz.AbsentDefaultHelp(id, authz.DefaultEffect(n)); id != "" && !said[help] {
			said[help] = true
			if _, err := fmt.Fprintln(c.Out, help); err != nil {
				return err
			}
		}
	}
	return nil
}
