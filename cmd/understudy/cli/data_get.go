package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"understudy/admin/policydiff"
	adminpb "understudy/admin/v1"
	"understudy/authz"
	"understudy/cmd/understudy/command"
	"understudy/cmd/understudy/terminal"
)

// newDataGet shows what a dataset contains.
//
// The document is canonical: the same content is the same text, so two outputs can be compared as
// texts.
func newDataGet() *cobra.Command {
	var version string
	cmd, _ := NewCommand(Help{"get DATASET", "Show what a dataset contains",
		"It is indented for people; -o json has it as it is kept, on one line."},
		cobra.ExactArgs(1), func(c *Client, ctx context.Context, args []string) error {
			document, err := c.download(ctx, args[0], version)
			if err != nil {
				return err
			}
			text := bytes.NewBuffer(document)
			if c.Output == "text" {
				text = &bytes.Buffer{}
				if err := json.Indent(text, document, "", "  "); err != nil {
					return fmt.Errorf("reading the document: %w", err)
				}
			}
			text.WriteByte('\n')
			_, err = text.WriteTo(c.Out)
			return err
		})
	cmd.Flags().StringVar(&version, "version", "", "the number of a version; the current one without it")
	return cmd
}

// download returns the content of the version with a number; empty means the current one.
//
// It is at most the largest dataset, which fits one message.
func (c *Client) download(ctx context.Context, name, number string) ([]byte, error) {
	body, err := c.datasets.DownloadDataset(ctx, &adminpb.DownloadDatasetRequest{Name: c.dataset(name), Version: number})
	return body.GetData(), err
}

// newDataDiff compares two versions value by value.
//
// The exit codes are those of the package: 1 is "they differ", and a server that is away is 1, too.
// Who has to distinguish them reads -o json.
func newDataDiff() *cobra.Command {
	cmd, _ := NewCommand(Help{"diff DATASET VERSION [VERSION]", "Show what differs between two versions of a dataset",
		`Without a second VERSION, the first one is compared with the current one. The exit code is
1 if they differ. -o json has each value that differs, with its path.`},
		cobra.RangeArgs(2, 3), func(c *Client, ctx context.Context, args []string) error {
			left, err := c.download(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			right, err := c.download(ctx, args[0], append(args, "")[2])
			if err != nil {
				return err
			}
			id := authz.ResourceName(c.dataset(args[0])).ID()
			values, err := differingValues(id, left, right)
			if err != nil {
				return err
			}
			return c.showValues(values)
		})
	return cmd
}

// differingValues are the values in which two documents differ, with paths as a policy has them
// that mounts the dataset under its ID.
//
// The comparison is that of policies, so that a path here is the path in a report.
func differingValues(id string, left, right []byte) ([]policydiff.Value, error) {
	l, errLeft := asData(id, left)
	r, errRight := asData(id, right)
	if err := errors.Join(errLeft, errRight); err != nil {
		return nil, err
	}
	return policydiff.Of(l, r).Values, nil
}

// asData returns a policy whose data has a document.
func asData(id string, document []byte) (*adminpb.Policy, error) {
	value := &structpb.Value{}
	if err := protojson.Unmarshal(document, value); err != nil {
		return nil, fmt.Errorf("reading the document: %w", err)
	}
	return &adminpb.Policy{Data: &structpb.Struct{Fields: map[string]*structpb.Value{id: value}}}, nil
}

// showValues prints values that differ. The error has the exit code that says so.
//
// Values come from a file that somebody uploaded, and are escaped.
func (c *Client) showValues(values []policydiff.Value) error {
	if c.Output == "json" {
		out := make([]map[string]any, len(values))
		for i, v := range values {
			out[i] = map[string]any{"path": v.Path, "left": raw(v.Left), "right": raw(v.Right)}
		}
		e := json.NewEncoder(c.Out)
		e.SetEscapeHTML(false)
		if err := e.Encode(map[string]any{"equal": len(values) == 0, "values": out}); err != nil {
			return err
		}
	}
	palette := terminal.PaletteFor(c.Out)
	for _, v := range values {
		if c.Output == "json" {
			break
		}
		fmt.Fprintln(c.Out, palette.Bold(terminal.Line(v.Path)))
		if v.Left != "" {
			fmt.Fprintln(c.Out, palette.Red("- "+terminal.Line(v.Left)))
		}
		if v.Right != "" {
			fmt.Fprintln(c.Out, palette.Green("+ "+terminal.Line(v.Right)))
		}
	}
	if len(values) == 0 {
		return nil
	}
	return &command.ExitError{Code: command.ExitFailure}
}

// raw is a value in JSON; null where it is not there.
func raw(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}
