package cli

import (
	"context"

	"github.com/spf13/cobra"

	adminpb "understudy/admin/v1"
)

// nameHelp is in the help of all commands that take a name.
const nameHelp = `A policy is named by its ID, such as web, and an experiment as web/strict; a whole
resource name does as well.`

// PolicyCommands are the commands of the admin API.
func PolicyCommands() []*cobra.Command {
	return []*cobra.Command{
		newList(), newGet(), newApply(), newStart(), newReport(), newWait(), newCommit(), newStop(), newDelete(), newUndelete(),
	}
}

// newGet shows a resource as the API has it, which `apply -f` reads again.
func newGet() *cobra.Command {
	cmd, _ := newCommand("get NAME", "Show a policy or an experiment as JSON", nameHelp+"\n"+configHelp,
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			name := c.Name(args[0])
			if isConfig(name) {
				config, err := c.policies.GetConfig(ctx, &adminpb.GetConfigRequest{Name: name})
				if err != nil {
					return err
				}
				return c.print(config)
			}
			if isExperiment(name) {
				e, err := c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
				if err != nil {
					return err
				}
				if err := c.print(e); err != nil {
					return err
				}
				c.noteNumbers(ctx, e)
				return nil
			}
			p, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: name})
			if err != nil {
				return err
			}
			return c.print(p)
		})
	return cmd
}

// Policy reads the policy of a name, or that of an experiment, which has the experiment's etag.
// The client has to be connected.
func (c *Client) Policy(ctx context.Context, short string) (*adminpb.Policy, error) {
	name := c.Name(short)
	if !isExperiment(name) {
		p, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: name})
		return p, c.unanswered(err)
	}
	e, err := c.policies.GetPolicyExperiment(ctx, &adminpb.GetPolicyExperimentRequest{Name: name})
	if err != nil {
		return nil, c.unanswered(err)
	}
	p := e.GetPolicy()
	p.Etag = e.GetEtag()
	return p, nil
}
