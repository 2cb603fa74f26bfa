package cli

import (
	"context"

	"github.com/spf13/cobra"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/command"
)

// newStart begins a preview. Nothing changes for anybody who is asked about.
//
// AIP-236: nothing is compared before the start, and an update of the experiment ends its preview.
func newStart() *cobra.Command {
	var etag string
	cmd, _ := newChange(Help{"start EXPERIMENT", "Start the preview of an experiment",
		`From then on every request that its policy decides is decided by it too, without effect.

With --etag it is started only if it still is the version with this etag, such as the one
that 'understudy apply' has printed: another pipeline may have applied its own.`},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			op, err := c.policies.StartPreviewPolicyExperiment(ctx, &adminpb.StartPreviewPolicyExperimentRequest{Name: name, Etag: etag})
			return c.finish(ctx, op, err)
		})
	command.BindCondition(cmd.Flags(), &etag, command.Etag, "the etag that the experiment has to have")
	return cmd
}

// newStop ends a preview. What was recorded stays where it was sent.
func newStop() *cobra.Command {
	cmd, _ := newChange(Help{"stop EXPERIMENT", "End the preview of an experiment", "The experiment stays, and can be started again.\n" + nameHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			op, err := c.policies.StopPreviewPolicyExperiment(ctx, &adminpb.StopPreviewPolicyExperimentRequest{Name: name})
			return c.finish(ctx, op, err)
		})
	return cmd
}
