package identity

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"understudy/admin/authentication/tokens"
	"understudy/cmd/understudy/command"
)

// newToken makes the command that makes a token. It asks no server: which tokens one takes
// is in its files.
func newToken() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a token, and the line of a token file by which a server knows it",
		Long: `Make a token for a program or a person. Standard output has the token, once: nothing
keeps it. Standard error has the line for a file of 'understudy serve --admin-token-file',
which holds a SHA-256 of the token and is no secret. Servers read such a file again when it
changes. In bindings its bearer is token:NAME.

To replace a token, add the new line beside the old one, and remove that when nobody uses
its token any more.`,
		Example: `  understudy token ci >ci.token 2>>tokens
  understudy token ci --file ci.token 2>>tokens
  understudy serve --admin-token-file tokens --admin-owner token:ci
  understudy list --token-file ci.token`,
		Args: command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			token, line, err := tokens.New(args[0])
			if err != nil {
				return command.Usage(fmt.Errorf("NAME: %w", err))
			}
			if err := writeToken(cmd, file, token); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), line)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&file, "file", "", "write the token into a new file that nobody else can read, instead of standard output")
	return cmd
}

// writeToken writes a token to standard output, or into a file that is not there yet: an
// older token may still be in use.
func writeToken(cmd *cobra.Command, path, token string) error {
	if path == "" {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), token)
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return command.Usage(fmt.Errorf("--file: %w", err))
	}
	_, err = fmt.Fprintln(file, token)
	return errors.Join(err, file.Close())
}
