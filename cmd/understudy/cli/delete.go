package cli

import (
	"context"

	"github.com/spf13/cobra"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/command"
)

// newDelete asks before it deletes, if what goes cannot come back.
//
// AIP-164: a policy is soft-deleted, keeps its ID for 30 days, and can be undeleted in that time.
// AIP-135 has the etag, which protects against deleting what somebody has just changed.
func newDelete() *cobra.Command {
	var etag string
	var yes bool
	cmd, _ := newChange(Help{"delete NAME", "Delete a policy with its experiments, or an experiment",
		`A deleted policy can be restored for 30 days; an experiment cannot. On a terminal, you
are asked before an experiment is deleted, and a policy that has experiments or that
sidecars apply. In a script, --yes is needed.
` + nameHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name := c.Name(args[0])
			if err := c.confirmDelete(ctx, name, yes); err != nil {
				return err
			}
			if isExperiment(name) {
				op, err := c.policies.DeletePolicyExperiment(ctx,
					&adminpb.DeletePolicyExperimentRequest{Name: name, Etag: etag})
				return c.finish(ctx, op, err)
			}
			op, err := c.policies.DeletePolicy(ctx, &adminpb.DeletePolicyRequest{Name: name, Etag: etag})
			return c.finish(ctx, op, err)
		})
	cmd.SuggestFor = []string{"rm", "remove"}
	command.BindCondition(cmd.Flags(), &etag, command.Etag, "the etag that the resource has to have")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask; needed without a terminal")
	return cmd
}

// newUndelete is the opposite of delete for policies, for as long as they are kept.
//
// The policy decides again as soon as the sidecars have it, by the content that it was deleted with.
func newUndelete() *cobra.Command {
	cmd, _ := newChange(Help{"undelete POLICY", "Restore a deleted policy", "Its experiments do not come back."},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			op, err := c.policies.UndeletePolicy(ctx, &adminpb.UndeletePolicyRequest{Name: c.Name(args[0])})
			return c.finish(ctx, op, err)
		})
	return cmd
}
