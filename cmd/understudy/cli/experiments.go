package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/command"
)

// newStart begins a preview. Nothing changes for anybody who is asked about.
func newStart() *cobra.Command {
	cmd, _ := newChange("start EXPERIMENT", "Start the preview of an experiment",
		"From then on every request that its policy decides is decided by it too, without effect.",
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			op, err := c.policies.StartPreviewPolicyExperiment(ctx, &adminpb.StartPreviewPolicyExperimentRequest{Name: name})
			return c.finish(ctx, op, err)
		})
	return cmd
}

// newStop ends a preview. What was recorded stays where it was sent.
func newStop() *cobra.Command {
	cmd, _ := newChange("stop EXPERIMENT", "End the preview of an experiment", "The experiment stays, and can be started again.\n"+nameHelp,
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

// newCommit puts live what was previewed. The etag is required: without it a version that
// nobody has previewed could go live, because somebody changed it meanwhile (AIP-154).
func newCommit() *cobra.Command {
	var etag, parentEtag string
	var validateOnly bool
	cmd, _ := newChange("commit EXPERIMENT --etag ETAG", "Put an experiment live and delete it",
		`The etag says which version was previewed: 'understudy get' and every preview record
show it. If the experiment has changed since, nothing is committed.`,
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			if etag == "" {
				return command.Usage(fmt.Errorf("--etag is required: it says which version was previewed; see `understudy get %s`", args[0]))
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
