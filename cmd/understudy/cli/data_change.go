package cli

import (
	"context"
	"errors"
	"fmt"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/content"
	"understudy/admin/dataset"
	adminpb "understudy/admin/v1"
	"understudy/cmd/understudy/command"
)

// dataChange has the flags of the commands that change a dataset.
//
// Every change can name the etag of the dataset that it is made to (AIP-154), and be validated alone
// (AIP-163).
type dataChange struct {
	file, etag   string
	validateOnly bool
}

// bind declares the flags; what is what the file has.
func (d *dataChange) bind(cmd *cobra.Command, what string) {
	cmd.Flags().StringVarP(&d.file, "file", "f", "", what+"; - is standard input (required)")
	command.BindCondition(cmd.Flags(), &d.etag, command.Etag, "the etag that the dataset has to have")
	cmd.Flags().BoolVar(&d.validateOnly, "validate-only", false, "check everything and change nothing")
	_ = cmd.MarkFlagFilename("file", "json")
}

// read returns the file. All mistakes in it are ones of usage: nothing was sent.
func (d *dataChange) read(c *Client) ([]byte, error) {
	if d.file == "" {
		return nil, command.Usage(errors.New("--file is required: it has JSON; - is standard input"))
	}
	document, err := command.ReadFile(d.file, c.In)
	if err != nil {
		return nil, command.Usage(fmt.Errorf("--file: %w", err))
	}
	return document, nil
}

// newDataPut uploads a document, to a dataset that it creates if there is none.
//
// The document is checked here in the way of the server, so a mistake in it is one of usage and has the
// position in the file.
func newDataPut() *cobra.Command {
	var d dataChange
	cmd, _ := newChange(Help{"put DATASET -f FILE", "Make a JSON document the content of a dataset",
		`The document replaces what was there, as a new version; if it says the same, nothing
changes. A dataset that does not exist is created.`},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			document, err := d.read(c)
			if err != nil {
				return err
			}
			if _, err := dataset.Canonical(document, dataset.MaxSize); err != nil {
				return command.Usage(fmt.Errorf("--file: %w", err))
			}
			op, err := c.putDataset(ctx, c.dataset(args[0]), document, d)
			return c.finish(ctx, op, err)
		})
	d.bind(cmd, "the document")
	return cmd
}

// putDataset uploads, and creates what is not there. Where nothing is to be changed, a dataset that is not
// there is validated alone: it could take any document.
//
// With an etag nothing is created: who names one means a dataset that is there.
func (c *Client) putDataset(ctx context.Context, name string, document []byte, d dataChange) (*longrunningpb.Operation, error) {
	request := &adminpb.UploadDatasetRequest{
		Name: name, Etag: d.etag, ValidateOnly: d.validateOnly,
		Content: &httpbody.HttpBody{ContentType: "application/json", Data: document},
	}
	// The usual case first: one call.
	op, err := c.datasets.UploadDataset(ctx, request)
	if status.Code(err) != codes.NotFound || d.etag != "" {
		return op, err
	}
	op, err = c.datasets.UpdateDataset(ctx, &adminpb.UpdateDatasetRequest{
		Dataset: &adminpb.Dataset{Name: name}, AllowMissing: true, ValidateOnly: d.validateOnly,
	})
	if err != nil || d.validateOnly {
		return op, err
	}
	return c.datasets.UploadDataset(ctx, request)
}

// newDataPatch changes parts of a dataset.
//
// It is for small changes of a large table: a put sends all of it.
func newDataPatch() *cobra.Command {
	var d dataChange
	cmd, _ := newChange(Help{"patch DATASET -f FILE", "Change parts of a dataset by a JSON Patch",
		`The file has a list of operations (RFC 6902), of at most 1 MiB, which are applied to the
current version as a whole or not at all:

  [{"op": "add", "path": "/u17", "value": {"roles": ["admin"]}},
   {"op": "remove", "path": "/u3"}]`},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			text, err := d.read(c)
			if err != nil {
				return err
			}
			patch := &structpb.ListValue{}
			if err := protojson.Unmarshal(text, patch); err != nil {
				return command.Usage(errors.New("--file: it is not a list of operations as JSON (RFC 6902)"))
			}
			// A number that a double does not hold would be stored as another one.
			if err := content.CheckExact("patch", text); err != nil {
				return command.Usage(fmt.Errorf("--file: %w", err))
			}
			op, err := c.datasets.PatchDataset(ctx, &adminpb.PatchDatasetRequest{
				Name: c.dataset(args[0]), Patch: patch, Etag: d.etag, ValidateOnly: d.validateOnly,
			})
			return c.finish(ctx, op, err)
		})
	d.bind(cmd, "the patch")
	return cmd
}

// newDataRollback makes an earlier version current.
//
// It makes no new version: the earlier one is current again, and those since then stay.
func newDataRollback() *cobra.Command {
	var etag string
	cmd, _ := newChange(Help{"rollback DATASET VERSION", "Make an earlier version of a dataset current again",
		"VERSION is a number of `understudy data versions`."},
		cobra.ExactArgs(2), func(c *Client, ctx context.Context, args []string) error {
			op, err := c.datasets.RollbackDataset(ctx, &adminpb.RollbackDatasetRequest{Name: c.version(args[0], args[1]), Etag: etag})
			return c.finish(ctx, op, err)
		})
	command.BindCondition(cmd.Flags(), &etag, command.Etag, "the etag that the dataset has to have")
	return cmd
}

// newDataDelete deletes a dataset, which can be restored.
//
// AIP-164, as with policies: it is a soft delete.
func newDataDelete() *cobra.Command {
	var etag string
	var yes bool
	cmd, _ := newChange(Help{"delete DATASET", "Delete a dataset",
		"It can be restored for 30 days, with its versions. In a script, --yes is needed."},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			if !yes && !c.interactive() {
				return errNoAnswer
			}
			op, err := c.datasets.DeleteDataset(ctx, &adminpb.DeleteDatasetRequest{Name: c.dataset(args[0]), Etag: etag})
			return c.finish(ctx, op, err)
		})
	command.BindCondition(cmd.Flags(), &etag, command.Etag, "the etag that the dataset has to have")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "needed without a terminal")
	return cmd
}

// newDataUndelete is the opposite of delete, for as long as datasets are kept.
//
// The version that was current is so again.
func newDataUndelete() *cobra.Command {
	cmd, _ := newChange(Help{"undelete DATASET", "Restore a deleted dataset", "Its versions come back with it."},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			op, err := c.datasets.UndeleteDataset(ctx, &adminpb.UndeleteDatasetRequest{Name: c.dataset(args[0])})
			return c.finish(ctx, op, err)
		})
	return cmd
}
