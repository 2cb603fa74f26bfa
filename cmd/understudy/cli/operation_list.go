package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/spf13/cobra"

	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// newOperations lists what was done in a location. Each change is an operation, which is kept
// for 30 days: that of a commit with the report that it was judged by.
func newOperations() *cobra.Command {
	var filter string
	cmd, _ := NewCommand(Help{"operations [OPERATION]", "List the changes of a location, or show one as JSON",
		`Each change of policies and experiments is an operation, which is done when every live
sidecar has applied it, and is kept for 30 days. OPERATION is an ID or the beginning
of one. That of a commit has the report that it was judged by.`},
		cobra.MaximumNArgs(1), func(c *Client, ctx context.Context, args []string) error {
			if len(args) == 0 {
				return c.listOperations(ctx, filter)
			}
			name, err := c.operation(ctx, args[0])
			if err != nil {
				return err
			}
			op, err := c.operations.GetOperation(ctx, &longrunningpb.GetOperationRequest{Name: name})
			if err != nil {
				return err
			}
			return c.print(op)
		})
	cmd.Example = `  understudy operations
  understudy operations --filter 'metadata.verb = commit AND metadata.create_time > "2030-01-01T00:00:00Z"'
  understudy operations 3f2a -o json | jq .metadata.report`
	cmd.Flags().StringVar(&filter, "filter", "", "an AIP-160 filter, such as 'metadata.verb = commit'")
	return cmd
}

// readOperations reads all operations of the location, the latest first.
//
// google.longrunning.ListOperations has no order_by, so they are sorted here.
func (c *Client) readOperations(ctx context.Context, filter string) ([]*longrunningpb.Operation, []string, error) {
	var unreadable []string
	found, err := all(func(token string) ([]*longrunningpb.Operation, string, error) {
		page, err := c.operations.ListOperations(ctx, &longrunningpb.ListOperationsRequest{
			Name: c.location, Filter: filter, PageToken: token, PageSize: 1000,
		})
		unreadable = page.GetUnreachable()
		return page.GetOperations(), page.GetNextPageToken(), err
	})
	slices.SortStableFunc(found, func(a, b *longrunningpb.Operation) int {
		return commonMetadata(b).GetCreateTime().AsTime().Compare(commonMetadata(a).GetCreateTime().AsTime())
	})
	return found, unreadable, err
}

// listOperations prints one operation a line.
//
// Operations are kept for 30 days. All of them are read: who looks here wants to know what happened.
func (c *Client) listOperations(ctx context.Context, filter string) error {
	found, unreadable, err := c.readOperations(ctx, filter)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(&longrunningpb.ListOperationsResponse{Operations: found, Unreachable: unreadable})
	}
	c.unreadable(unreadable)
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "OPERATION\tVERB\tTARGET\tCREATED\tCREATOR\tSTATE")
	for _, op := range found {
		m := commonMetadata(op)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", shortID(op.Name), m.GetVerb(), c.short(m.GetTarget()), terminal.When(m.GetCreateTime()),
			creatorOf(m.GetCreator(), m.GetCreatorDisplay()), stateOf(op))
	}
	return t.Flush()
}

// stateOf is how far an operation is, on one line.
//
// A failed one is stored, too: the sidecars that could not apply it go on with what they had.
func stateOf(op *longrunningpb.Operation) string {
	m := commonMetadata(op)
	switch {
	case op.GetError() != nil:
		return "failed: " + terminal.Line(op.GetError().GetMessage())
	case op.Done:
		return doneOn(m.GetAppliedNodeCount())
	default:
		return fmt.Sprintf("applied by %d of %d sidecars", m.GetAppliedNodeCount(), m.GetNodeCount())
	}
}

// operation returns the name of an operation, of which an ID, the beginning of one or the whole
// name is given.
//
// A beginning that fits several is an error, and never the latest of them.
func (c *Client) operation(ctx context.Context, given string) (string, error) {
	if strings.HasPrefix(given, "projects/") {
		return given, nil
	}
	// It goes into a filter, between quotes.
	if !revisionGrammar.MatchString(given) {
		return "", command.Usage(fmt.Errorf("%q is no operation: it is an ID, the beginning of one, or a whole name", given))
	}
	found, _, err := c.readOperations(ctx, fmt.Sprintf("name = %q", c.location+"/operations/"+given+"*"))
	switch {
	case err != nil:
		return "", err
	case len(found) == 1:
		return found[0].Name, nil
	case len(found) == 0:
		return "", fmt.Errorf("%s has no operation that begins with %q; see `understudy operations`", c.location, given)
	default:
		return "", fmt.Errorf("%d operations begin with %q: give more of the ID", len(found), given)
	}
}

// operationIDs are the operations of the location, with what they did, for a shell that
// completes; none if the server does not answer.
func (c *Client) operationIDs(ctx context.Context) (ids []string) {
	found, _, err := c.readOperations(ctx, "")
	if err != nil {
		return nil
	}
	for _, op := range found {
		m := commonMetadata(op)
		ids = append(ids, authz.ResourceName(op.Name).ID()+"\t"+m.GetVerb()+" of "+c.short(m.GetTarget())+", "+terminal.When(m.GetCreateTime()))
	}
	return ids
}
