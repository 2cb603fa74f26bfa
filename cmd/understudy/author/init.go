package author

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"understudy/cmd/understudy/command"
)

// skeleton has the files of a policy to begin with.
//
//go:embed skeleton
var skeleton embed.FS

// NewInit makes the command that writes the files of a policy to begin with.
func NewInit() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Write the files of a policy to begin with",
		Long: `Write the files of a policy to begin with: policy.yaml, its Rego, and tests of it.

FOLDER is made if it is missing; by default it is this folder. A file that is there already
is an error, and then nothing is written.

The exit code is 0 if the files are written, 1 if they could not be, and 2 for a mistake in
the command.`,
		Example: `  understudy init shop
  understudy test shop/policy.yaml
  understudy apply shop -f shop/policy.yaml`,
		Args: command.Arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := "."
			if len(args) == 1 {
				folder = args[0]
			}
			return writeSkeleton(cmd, folder)
		},
	}
}

// writeSkeleton writes the files into a folder.
func writeSkeleton(cmd *cobra.Command, folder string) error {
	files, err := skeleton.ReadDir("skeleton")
	if err != nil {
		return err
	}
	for _, f := range files {
		path := filepath.Join(folder, f.Name())
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is there already; name a folder without it", path)
		}
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	for _, f := range files {
		content, err := skeleton.ReadFile("skeleton/" + f.Name())
		if err != nil {
			return err
		}
		path := filepath.Join(folder, f.Name())
		if err := os.WriteFile(path, content, 0o666); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "wrote", path)
	}
	file := filepath.Join(folder, "policy.yaml")
	fmt.Fprintf(cmd.OutOrStdout(), "next: understudy test %s, then understudy apply NAME -f %s\n", file, file)
	return nil
}
