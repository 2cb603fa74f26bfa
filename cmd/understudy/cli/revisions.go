package cli

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"understudy/admin/access"
	"understudy/admin/content"
	"understudy/admin/history"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// newRevisions lists what a policy was. A revision is named by its content, so the same ID
// in two locations is the same policy.
//
// Of the JSON of one revision its snapshot can be applied again, to another policy for example.
func newRevisions() *cobra.Command {
	var filter string
	cmd, _ := NewCommand(Help{"revisions POLICY [REVISION]", "List the revisions of a policy, or show one as JSON",
		`A revision is what a policy was at a time, under the hash of its content: the same in
every location. The last 100 are kept. REVISION is an ID, the beginning of one, or
latest. HOW says how it became live: by an apply, the commit of an experiment, a
promotion, and if it did so again, how the last time. The JSON of one has all of
these, and what the preview had shown that was committed: ` + "`understudy report`" + `.`}, cobra.RangeArgs(1, 2), func(c *Client, ctx context.Context, args []string) error {
		if len(args) == 1 {
			return c.listRevisions(ctx, c.Name(args[0]), filter)
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
func (c *Client) readRevisions(ctx context.Context, policy, filter string) ([]*adminpb.PolicyRevision, error) {
	return all(func(token string) ([]*adminpb.PolicyRevision, string, error) {
		page, err := c.policies.ListPolicyRevisions(ctx, &adminpb.ListPolicyRevisionsRequest{
			Parent: policy, Filter: filter, PageToken: token, PageSize: 1000,
		})
		return page.GetPolicyRevisions(), page.GetNextPageToken(), err
	})
}

// listRevisions prints a table with the live revision marked; after a delete none is live.
//
// The live one is found by its name: a revision that was live twice is in the list once.
func (c *Client) listRevisions(ctx context.Context, policy, filter string) error {
	revisions, err := c.readRevisions(ctx, policy, filter)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(&adminpb.ListPolicyRevisionsResponse{PolicyRevisions: revisions})
	}
	live, err := c.policies.GetPolicy(ctx, &adminpb.GetPolicyRequest{Name: policy})
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REVISION\tLIVE\tCREATED\tCREATOR\tHOW\tRULES\tDISPLAY NAME")
	for _, r := range revisions {
		mark := "-"
		if r.Name == live.Revision && live.DeleteTime == nil {
			mark = "live"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", shortID(r.Name), mark, terminal.When(r.CreateTime), creatorOf(r.Creator, r.CreatorDisplay),
			howOf(r), len(r.Snapshot.GetRules()), r.Snapshot.GetDisplayName())
	}
	return t.Flush()
}

// howOf is how the content of a revision became live.
// The words are those of the page.
func howOf(r *adminpb.PolicyRevision) string {
	return cmp.Or(history.Of(r), "-")
}

// revisionIDs are the revisions of a policy, with how they became live, for a shell that
// completes; none if the server does not answer.
//
// A shell shows what stands behind a tab next to the word, and does not complete it.
func (c *Client) revisionIDs(ctx context.Context, policy string) (ids []string) {
	revisions, err := c.readRevisions(ctx, c.Name(policy), "")
	if err != nil {
		return nil
	}
	for _, r := range revisions {
		ids = append(ids, shortID(r.Name)+"\t"+howOf(r)+", "+terminal.When(r.CreateTime))
	}
	return ids
}

// creatorOf is who made something, in a table; a server without authentication does not know.
//
// The display is what an issuer calls a person. It is a text of theirs, so it is escaped.
func creatorOf(member, display string) string {
	if member == "" {
		return "-"
	}
	return terminal.Line(access.Principal{Member: member, Display: display}.Named())
}

// revisionGrammar is that of an ID or the beginning of one.
//
// It has neither a quote nor a wildcard, so that an ID can stand in a filter.
var revisionGrammar = regexp.MustCompile(`^[A-Za-z0-9_.:-]+$`)

// revision returns the name of a policy's revision, of which an ID, the beginning of
// one or the alias latest is given.
func (c *Client) revision(ctx context.Context, policy, given string) (string, error) {
	name := c.Name(policy)
	if !revisionGrammar.MatchString(given) {
		return "", command.Usage(fmt.Errorf("%q is no revision: it is an ID, the beginning of one, or latest", given))
	}
	filter := fmt.Sprintf("name = %q", authz.PolicyName(name).Revision(given+"*"))
	if given == "latest" {
		filter = "alternate_ids:latest"
	}
	// The server finds them: a beginning needs no list of all 100.
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

// RevisionOf is a revision of a policy, by an ID, the beginning of one or the alias latest.
//
// Both are as somebody has typed them.
type RevisionOf struct{ Policy, ID string }

// Revision reads a revision. The client has to be connected.
func (c *Client) Revision(ctx context.Context, r RevisionOf) (*adminpb.PolicyRevision, error) {
	name, err := c.revision(ctx, r.Policy, r.ID)
	if err != nil {
		return nil, c.unanswered(err)
	}
	found, err := c.policies.GetPolicyRevision(ctx, &adminpb.GetPolicyRevisionRequest{Name: name})
	return found, c.unanswered(err)
}

// newRevision prints the revision ID of a file. It asks no server.
func newRevision() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "revision -f FILE",
		Short: "Print the revision ID of a policy in a file",
		Long: `Print the revision ID of a policy in a file: the ID that the policy has, in every
location, once the file is applied. It needs no server.`,
		Example: `  git worktree add --detach ../before HEAD~1      # a commit earlier, with the files that policy.yaml names
  PARENT=$(understudy revision -f ../before/policy.yaml)
  understudy apply shop -f policy.yaml --parent-revision "$PARENT"`,
		Args: command.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := readResource(file, cmd.InOrStdin())
			if err != nil {
				return err
			}
			p := &adminpb.Policy{}
			if err := r.Decode(p, "an experiment has no revision"); err != nil {
				return command.Usage(fmt.Errorf("%s: it is no policy: %w", r.From, err))
			}
			id, err := content.RevisionID(p)
			if err == nil {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), id)
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "file", "f", "", "the policy as YAML or JSON; - is standard input (required)")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml", "json")
	return cmd
}

// newRollback makes an earlier revision live. It is a new change, not an undo: those that
// were made since are still revisions.
//
// AIP-162. The experiments of the policy are compared with the revision from then on.
func newRollback() *cobra.Command {
	var etag string
	var validateOnly bool
	cmd, _ := newChange(Help{"rollback POLICY REVISION", "Make an earlier revision of a policy live again",
		`REVISION is an ID of 'understudy revisions POLICY', or the beginning of one. The
policy's experiments stay.`}, cobra.ExactArgs(2), func(c *Client, ctx context.Context, args []string) error {
		name, err := c.revision(ctx, args[0], args[1])
		if err != nil {
			return err
		}
		op, err := c.policies.RollbackPolicy(ctx, &adminpb.RollbackPolicyRequest{
			Name: name, Etag: etag, ValidateOnly: validateOnly,
		})
		return c.finish(ctx, op, err)
	})
	command.BindCondition(cmd.Flags(), &etag, command.Etag, "the etag that the live policy has to have")
	cmd.Flags().BoolVar(&validateOnly, "validate-only", false, "check everything and change nothing")
	return cmd
}
