package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	adminpb "understudy/admin/v1"
)

const stagesHelp = `A stage, such as development or production, is a location: a set of sidecars with
policies of its own. --location says from where policies are promoted.`

// stageCommands are the commands about locations, revisions and nodes.
func stageCommands() []*cobra.Command {
	return []*cobra.Command{newNext(), newPromote(), newRevisions(), newRollback(), newNodes()}
}

func newNext() *cobra.Command {
	var none bool
	cmd, _ := command("next [LOCATION]", "Show or set the location that policies are promoted to",
		stagesHelp+" LOCATION is\nthe ID of another one in its project, such as prod, or a whole resource name.", cobra.MaximumNArgs(1), func(c *client, ctx context.Context, args []string) error {
			if none && len(args) > 0 {
				return usage(errors.New("--none takes the next location away: give either it or a LOCATION"))
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
func (c *client) setNext(ctx context.Context, location []string) error {
	config := &adminpb.Config{Name: c.location + "/config"}
	if len(location) > 0 {
		config.NextLocation = c.sibling(location[0])
	}
	updated, err := c.policies.UpdateConfig(ctx, &adminpb.UpdateConfigRequest{
		Config: config, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"next_location"}},
	})
	return c.showConfig(updated, err)
}

func (c *client) showConfig(config *adminpb.Config, err error) error {
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.print(config)
	}
	next := config.NextLocation
	if next == "" {
		next = "nowhere; see `understudy next --help`"
	}
	_, err = fmt.Fprintf(c.out, "policies of %s are promoted to %s\n", c.location, next)
	return err
}

// sibling turns the ID of a location into a resource name, in the project of the
// client's; a whole name stays as it is.
func (c *client) sibling(short string) string {
	if strings.Contains(short, "/") {
		return short
	}
	return c.location[:strings.LastIndexByte(c.location, '/')+1] + short
}

func newPromote() *cobra.Command {
	var validateOnly bool
	cmd, _ := changing("promote [POLICY...]", "Make the policies of a location live in its next one",
		`What is live here becomes live there: the policies that are named, or all, in one
step and without uploading anything. Either all of them are promoted or none.
`+stagesHelp, cobra.ArbitraryArgs, func(c *client, ctx context.Context, args []string) error {
			var names []string
			for _, short := range args {
				names = append(names, c.name(short))
			}
			op, err := c.policies.PromotePolicies(ctx, &adminpb.PromotePoliciesRequest{
				Parent: c.location, Names: names, ValidateOnly: validateOnly,
			})
			return c.finish(ctx, op, err)
		})
	cmd.Example = `  understudy promote --location projects/shop/locations/dev web
  understudy promote --location projects/shop/locations/staging --validate-only -o json`
	cmd.Flags().BoolVar(&validateOnly, "validate-only", false, "check everything and change nothing")
	return cmd
}

func newRevisions() *cobra.Command {
	var filter string
	cmd, _ := command("revisions POLICY [REVISION]", "List the revisions of a policy, or show one as JSON",
		`A revision is what a policy was at a time, under the hash of its content: the same in
every location. The last 100 are kept. REVISION is an ID, the beginning of one, or
latest.`, cobra.RangeArgs(1, 2), func(c *client, ctx context.Context, args []string) error {
			if len(args) == 1 {
				return c.listRevisions(ctx, c.name(args[0]), filter)
			}
			name, err := c.revision(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			revision, err := c.policies.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: name})
			if err != nil {
				return err
			}
			return c.print(revision)
		})
	cmd.Flags().StringVar(&filter, "filter", "", `an AIP-160 filter, such as 'create_time > "2030-01-01T00:00:00Z"'`)
	return cmd
}

// readRevisions reads all revisions of a policy, newest first.
func (c *client) readRevisions(ctx context.Context, policy, filter string) ([]*adminpb.PolicyRevision, error) {
	return all(func(token string) ([]*adminpb.PolicyRevision, string, error) {
		page, err := c.policies.ListPolicyRevisions(ctx, &adminpb.ListPolicyRevisionsRequest{
			Parent: policy, Filter: filter, PageToken: token, PageSize: 1000,
		})
		return page.GetPolicyRevisions(), page.GetNextPageToken(), err
	})
}

func (c *client) listRevisions(ctx context.Context, policy, filter string) error {
	revisions, err := c.readRevisions(ctx, policy, filter)
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.print(&adminpb.ListPolicyRevisionsResponse{PolicyRevisions: revisions})
	}
	live, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: policy})
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REVISION\tLIVE\tCREATED\tRULES\tDISPLAY NAME")
	for _, r := range revisions {
		mark := "-"
		if r.Name == live.Revision && live.DeleteTime == nil {
			mark = "live"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", shortID(r.Name), mark, when(r.CreateTime),
			len(r.Snapshot.GetRules()), r.Snapshot.GetDisplayName())
	}
	return t.Flush()
}

// shownID is the number of characters of a revision's ID that people see.
const shownID = 12

func shortID(name string) string {
	id := lastSegment(name)
	return id[:min(len(id), shownID)]
}

// revisionGrammar is that of an ID or the beginning of one.
var revisionGrammar = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)

// revision returns the name of a policy's revision, of which an ID, the beginning of
// one or the alias latest is given.
func (c *client) revision(ctx context.Context, policy, given string) (string, error) {
	name := c.name(policy)
	if !revisionGrammar.MatchString(given) {
		return "", usage(fmt.Errorf("%q is no revision: it is an ID, the beginning of one, or latest", given))
	}
	filter := fmt.Sprintf("name = %q", name+"/revisions/"+given+"*")
	if given == "latest" {
		filter = "alternate_ids:latest"
	}
	found, err := c.readRevisions(ctx, name, filter)
	if err != nil {
		return "", err
	}
	switch len(found) {
	case 1:
		return found[0].Name, nil
	case 0:
		return "", fmt.Errorf("%s has no revision that begins with %q; see `understudy revisions %s`", name, given, policy)
	default:
		return "", fmt.Errorf("%d revisions of %s begin with %q: give more of the ID", len(found), name, given)
	}
}

func newRollback() *cobra.Command {
	var etag string
	var validateOnly bool
	cmd, _ := changing("rollback POLICY REVISION", "Make an earlier revision of a policy live again",
		`REVISION is an ID of 'understudy revisions POLICY', or the beginning of one. The
policy's experiments stay.`, cobra.ExactArgs(2), func(c *client, ctx context.Context, args []string) error {
			name, err := c.revision(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			op, err := c.policies.RollbackPolicy(ctx, &adminpb.RollbackPolicyRequest{
				Name: name, Etag: etag, ValidateOnly: validateOnly,
			})
			return c.finish(ctx, op, err)
		})
	cmd.Flags().StringVar(&etag, "etag", "", "the etag that the live policy has to have")
	cmd.Flags().BoolVar(&validateOnly, "validate-only", false, "check everything and change nothing")
	return cmd
}

func newNodes() *cobra.Command {
	var policy, filter string
	cmd, _ := command("nodes [NODE]", "List the sidecars of a location, or show one as JSON",
		`SEEN is the time since a sidecar last reported; it does so every two seconds. One
that is silent for ten no longer counts, and after an hour it is forgotten.`,
		cobra.MaximumNArgs(1), func(c *client, ctx context.Context, args []string) error {
			if len(args) > 0 {
				n, err := c.policies.GetNode(ctx, &adminpb.GetNodeRequest{Name: c.node(args[0])})
				if err != nil {
					return err
				}
				return c.print(n)
			}
			if policy != "" {
				filter = strings.TrimPrefix(filter+fmt.Sprintf(" AND policies:%q", c.name(policy)), " AND ")
			}
			return c.listNodes(ctx, filter)
		})
	cmd.Flags().StringVar(&policy, "policy", "", "only those that enforce this policy")
	cmd.Flags().StringVar(&filter, "filter", "", "an AIP-160 filter, such as 'error:*'")
	return cmd
}

// node turns the ID of a node into a resource name; a whole name stays as it is.
func (c *client) node(short string) string {
	if strings.Contains(short, "/") {
		return short
	}
	return c.location + "/nodes/" + short
}

func (c *client) listNodes(ctx context.Context, filter string) error {
	nodes, err := all(func(token string) ([]*adminpb.Node, string, error) {
		page, err := c.policies.ListNodes(ctx, &adminpb.ListNodesRequest{
			Parent: c.location, Filter: filter, PageToken: token, PageSize: 1000,
		})
		return page.GetNodes(), page.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.print(&adminpb.ListNodesResponse{Nodes: nodes})
	}
	t := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tPOLICIES\tAPPLIED\tSTARTED\tSEEN\tERROR")
	for _, n := range nodes {
		failure := "-"
		if n.Error != nil {
			failure = n.Error.Message
		}
		name := lastSegment(n.Name)
		if n.Observing {
			name += " (observing)"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\n", name, len(n.Policies), n.AppliedSequence,
			when(n.CreateTime), since(n.HeartbeatTime.AsTime()), failure)
	}
	return t.Flush()
}

// since tells the time from a moment until now, in whole seconds.
func since(t time.Time) string {
	return max(0, time.Since(t)).Truncate(time.Second).String() + " ago"
}
