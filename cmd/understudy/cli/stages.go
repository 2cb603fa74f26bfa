package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/command"
)

// stagesHelp is in the help of the commands about several locations.
const stagesHelp = `A stage, such as development or production, is a location: a set of sidecars with
policies of its own. --location says from where policies are promoted.`

// StageCommands are the commands about locations, revisions and nodes.
//
// They are apart from [PolicyCommands] in the help: who has one location needs none of them.
func StageCommands() []*cobra.Command {
	return []*cobra.Command{newNext(), newPromote(), newRevisions(), newRevision(), newRollback(), newOperations(), newNodes()}
}

// newNext shows or sets where promote leads to. It is the config of a location, stored
// once for all who promote, so that nobody promotes to another place by a flag.
func newNext() *cobra.Command {
	var none bool
	cmd, _ := NewCommand(Help{"next [LOCATION]", "Show or set the location that policies are promoted to",
		stagesHelp + " LOCATION is\nthe ID of another one in its project, such as prod, or a whole resource name. Who sets\nit needs the right to promote there."}, cobra.MaximumNArgs(1), func(c *Client, ctx context.Context, args []string) error {
		if none && len(args) > 0 {
			return command.Usage(errors.New("--none takes the next location away: give either it or a LOCATION"))
		}
		if none || len(args) > 0 {
			return c.setNext(ctx, args)
		}
		config, err := c.policies.GetConfig(ctx, &adminpb.GetConfigRequest{Name: c.location + "/config"})
		return c.showConfig(config, err)
	})
	cmd.Example = `  understudy next --location projects/shop/locations/dev staging
  understudy next --location projects/shop/locations/dev`
	cmd.Flags().BoolVar(&none, "none", false, "take the next location away")
	return cmd
}

// setNext makes a location the next one; without any, there is none from then on.
//
// The mask has that field alone: what commits require stays as it is.
func (c *Client) setNext(ctx context.Context, location []string) error {
	config := &adminpb.Config{Name: c.location + "/config"}
	if len(location) > 0 {
		config.NextLocation = c.sibling(location[0])
	}
	updated, err := c.policies.UpdateConfig(ctx, &adminpb.UpdateConfigRequest{
		Config: config, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"next_location"}},
	})
	if err := c.showConfig(updated, err); err != nil {
		return err
	}
	c.noteEmpty(ctx, updated.NextLocation)
	return nil
}

// noteEmpty notes that a location has neither policies nor sidecars, as one has whose name is mistyped. Locations are not
// created: any name is one.
func (c *Client) noteEmpty(ctx context.Context, location string) {
	if location == "" {
		return
	}
	policies, err := c.policies.ListPolicies(ctx, &adminpb.ListPoliciesRequest{Parent: location, PageSize: 1})
	if err != nil || len(policies.Policies)+len(policies.Unreachable) > 0 {
		return
	}
	nodes, err := c.policies.ListNodes(ctx, &adminpb.ListNodesRequest{Parent: location, PageSize: 1})
	if err == nil && len(nodes.Nodes) == 0 {
		c.note("%s has neither policies nor sidecars; if that is unexpected, look at its name", location)
	}
}

// showConfig prints a config that was read or changed.
//
// A configuration that nobody has set is there all the same, and empty (AIP-156).
func (c *Client) showConfig(config *adminpb.Config, err error) error {
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(config)
	}
	location := strings.TrimSuffix(config.Name, "/config")
	if config.NextLocation == "" {
		_, err = fmt.Fprintf(c.Out, "policies of %s are not promoted: no next location is set; `understudy next LOCATION` sets it\n", location)
	} else {
		_, err = fmt.Fprintf(c.Out, "policies of %s are promoted to %s\n", location, config.NextLocation)
	}
	if required := report.Format(config.CommitRequirements); required != "" && err == nil {
		_, err = fmt.Fprintf(c.Out, "commits in it require %s\n", required)
	}
	return err
}
