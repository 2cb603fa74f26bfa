package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin/report"
	"understudy/admin/report/verdict"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/terminal"
)

// newRebase moves the base of an experiment to the live policy.
//
// The content stays: by this a caller says that it has the changes of the live policy, or that they are given up.
func newRebase() *cobra.Command {
	var yes bool
	cmd, _ := newChange(Help{"rebase EXPERIMENT", "Say that an experiment has all it is to have of the live policy",
		`An experiment is made from the policy that is live when it is created. What the live
policy has changed since then, and the experiment does not have, its commit undoes: its
report says so first, and no requirement is met with that.

Bring such changes into the file of the experiment and apply it. If the report still lists
some, because the experiment has them in other words or is to undo them, this command
says that it is made from the policy that is live now. It lists them and asks; in a
script, --yes is needed. The content, its etag and what was counted stay as they are.
` + nameHelp},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name, err := c.experiment(args[0])
			if err != nil {
				return err
			}
			return c.rebase(ctx, name, yes)
		})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask; needed without a terminal if changes are listed")
	return cmd
}

// rebase names the live revision as the base of an experiment, after it has shown what that gives up.
func (c *Client) rebase(ctx context.Context, name string, yes bool) error {
	live, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: string(authz.ResourceName(name).Policy())})
	if err != nil {
		return err
	}
	r, err := c.report(ctx, name, nil)
	if err != nil {
		return err
	}
	if r.PolicyEtag != live.Etag {
		return errors.New("nothing was changed: the live policy has just changed; try again")
	}
	if err := c.confirmRebase(r, yes); err != nil {
		return err
	}
	op, err := c.policies.UpdatePolicyExperiment(ctx, &adminpb.UpdatePolicyExperimentRequest{
		PolicyExperiment: &adminpb.PolicyExperiment{Name: name, BaseRevision: live.Revision},
		UpdateMask:       &fieldmaskpb.FieldMask{Paths: []string{"base_revision"}},
	})
	return c.finish(ctx, op, err)
}

// confirmRebase asks whether changes of the live policy are given up.
func (c *Client) confirmRebase(r *adminpb.Report, yes bool) error {
	if !report.TakesBack(r) {
		return nil
	}
	var b strings.Builder
	for _, text := range verdict.TakenBack(r) {
		fmt.Fprintf(&b, "  %s\n", terminal.Line(text))
	}
	text := "the experiment does not have " + report.Counted(r.GetTakenBackCount(), "change") + " of the live policy:\n" + b.String()
	switch {
	case yes:
		fmt.Fprint(c.Err, "note: "+text)
	case !c.interactive():
		return errors.New("nothing was changed: " + text + "bring them into its file, or give them up with --yes")
	case !c.ask("Note: " + text + "A commit undoes them, and nothing says so any more. Go on?"):
		return errors.New("nothing was changed")
	}
	return nil
}
