package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"understudy/admin/report"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// NewData makes the commands about datasets.
//
// They are a group of their own: a dataset has a document where a policy has rules, so the commands
// about policies have no meaning for it. What they have in common, they have by name: get, list, diff,
// rollback, delete, undelete.
func NewData() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "data",
		Short: "Show and change the datasets that policies read",
		Long: `Show and change datasets: tables that policies read, and that change apart from them.
A dataset is one JSON document, in versions. It is named by its ID, such as users; a
whole resource name does as well.`,
		Example: `  understudy data put users -f users.json
  understudy data patch users -f patch.json
  understudy data versions users
  understudy data diff users 6 7
  understudy data rollback users 6`,
		Args: command.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddGroup(&cobra.Group{ID: "data", Title: "Commands:"})
	for _, c := range []*cobra.Command{
		newDataPut(), newDataPatch(), newDataGet(), newDataList(), newDataVersions(), newDataDiff(), newDataRollback(), newDataDelete(), newDataUndelete(),
	} {
		c.GroupID = "data"
		cmd.AddCommand(c)
	}
	return cmd
}

// dataset turns the ID of a dataset into a resource name; a whole name stays as it is.
//
// It checks nothing: what is no name is refused by the server, whose error names the field.
func (c *Client) dataset(short string) string {
	if strings.HasPrefix(short, "projects/") {
		return short
	}
	return string(authz.Location(c.location).Dataset(short))
}

// version turns the number of a version into its resource name.
//
// A version is named by its number.
func (c *Client) version(dataset, number string) string {
	return c.dataset(dataset) + "/versions/" + number
}

// newDataList lists the datasets of the location.
//
// The contents are left out: a location may have hundreds of MiB of them.
func newDataList() *cobra.Command {
	var filter string
	cmd, _ := NewCommand(Help{"list", "List the datasets", "-o json has all fields but the contents: `understudy data get` shows one."},
		cobra.NoArgs, func(c *Client, ctx context.Context, _ []string) error { return c.listDatasets(ctx, filter) })
	cmd.Flags().StringVar(&filter, "filter", "", "an AIP-160 filter, such as 'size_bytes > 1000000'")
	return cmd
}

// listDatasets prints a table, or all pages as one answer in JSON. What is stored and cannot be read is
// named on standard error (AIP-217).
func (c *Client) listDatasets(ctx context.Context, filter string) error {
	var unreadable []string
	datasets, err := all(func(token string) ([]*adminpb.Dataset, string, error) {
		page, err := c.datasets.ListDatasets(ctx, &adminpb.ListDatasetsRequest{Parent: c.location, Filter: filter, PageToken: token, PageSize: 1000})
		unreadable = page.GetUnreachable()
		return page.GetDatasets(), page.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(&adminpb.ListDatasetsResponse{Datasets: datasets, Unreachable: unreadable})
	}
	for _, name := range unreadable {
		fmt.Fprintf(c.Err, "%s is stored, but cannot be read: `understudy data delete` removes it for good\n", name)
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DATASET\tVERSION\tBYTES\tSINCE\tETAG\tRECONCILING")
	for _, d := range datasets {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%v\n", authz.ResourceName(d.Name).ID(), cmp.Or(numberOf(d.Version), "-"),
			report.Number(d.SizeBytes), whenOrNever(d.VersionCreateTime), d.Etag, d.Reconciling)
	}
	return t.Flush()
}

// numberOf is the number of a version; empty if there is none.
func numberOf(version string) string { return authz.ResourceName(version).ID() }

// whenOrNever is a time in a table.
//
// A dataset that was created without a document has no version yet.
func whenOrNever(t *timestamppb.Timestamp) string {
	if t == nil {
		return "-"
	}
	return terminal.When(t)
}

// newDataVersions lists the versions of a dataset, the current one marked.
//
// A version is a document as it was at a time. Nothing changes one.
func newDataVersions() *cobra.Command {
	cmd, _ := NewCommand(Help{"versions DATASET", "List the versions of a dataset",
		"The last 20 are kept, and at most 256 MiB of them: those that were current last."},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			return c.listVersions(ctx, c.dataset(args[0]))
		})
	return cmd
}

// listVersions prints a table with the current version marked; after a delete none is current.
func (c *Client) listVersions(ctx context.Context, name string) error {
	var unreadable []string
	versions, err := all(func(token string) ([]*adminpb.DatasetVersion, string, error) {
		page, err := c.datasets.ListDatasetVersions(ctx, &adminpb.ListDatasetVersionsRequest{Parent: name, PageToken: token, PageSize: 1000})
		unreadable = page.GetUnreachable()
		return page.GetDatasetVersions(), page.GetNextPageToken(), err
	})
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return c.print(&adminpb.ListDatasetVersionsResponse{DatasetVersions: versions, Unreachable: unreadable})
	}
	d, err := c.datasets.GetDataset(ctx, &adminpb.GetDatasetRequest{Name: name})
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(c.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERSION\tCURRENT\tCREATED\tCREATOR\tBYTES\tSHA-256")
	for _, v := range versions {
		// A dataset that is soft-deleted keeps its versions, and none of them is read.
		mark := "-"
		if v.Name == d.Version && d.DeleteTime == nil {
			mark = "current"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%.12s\n", numberOf(v.Name), mark, terminal.When(v.CreateTime),
			creatorOf(v.Creator, v.CreatorDisplay), report.Number(v.SizeBytes), v.Sha256)
	}
	return t.Flush()
}
