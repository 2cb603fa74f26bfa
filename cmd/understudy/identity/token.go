package identity

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"understudy/admin/authentication/tokens"
	"understudy/cmd/understudy/command"
)

// newToken makes the command that makes a token. It asks no server: which tokens one takes
// is in its files.
//
// A token has 256 random bits, so its SHA-256 needs no salt: nobody can try them all.
func newToken() *cobra.Command {
	var file, expires string
	cmd := &cobra.Command{
		Use:   "token NAME",
		Short: "Make a token, and the line of a token file by which a server knows it",
		Long: `Make a token for a program or a person. Standard output has the token, once: nothing
keeps it. Standard error has the line for a file of 'understudy serve --admin-token-file',
which holds a SHA-256 of the token and is no secret. Servers read such a file again when it
changes. In bindings its bearer is token:NAME.

If standard output is a file, nobody else can read it afterwards, and if standard error is
one, others can neither read nor write it: servers refuse token files that they can.

With --expires the token is refused from then on; its bearer and the server's log are warned a
week before. To replace a token, add the new line next to the old one, and remove that when nobody uses
its token any more.`,
		Example: `  understudy token ci >ci.token 2>>tokens
  understudy token ci --file ci.token --expires 90d 2>>tokens
  understudy serve --admin-token-file tokens --admin-owner token:ci
  understudy list --token-file ci.token`,
		Args: command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			end, err := parseExpiry(expires, time.Now())
			if err != nil {
				return command.Usage(fmt.Errorf("--expires: %w", err))
			}
			token, line, err := tokens.New(args[0], end)
			if err != nil {
				return command.Usage(fmt.Errorf("NAME: %w", err))
			}
			// The shell has made the files already, with the permissions of its umask. What is refused here has
			// not been written yet.
			if err := hide(cmd.OutOrStdout(), true); err != nil {
				return err
			}
			if err := hide(cmd.ErrOrStderr(), false); err != nil {
				return err
			}
			if err := writeToken(cmd, file, token); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.ErrOrStderr(), line)
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&expires, "expires", "", "when the token ends: after a time such as 90d or 12h, or at one such as 2030-01-31T00:00:00Z (default never)")
	cmd.Flags().StringVar(&file, "file", "", "write the token into a new file that nobody else can read, instead of standard output")
	return cmd
}

// daysPattern is a number of days.
var daysPattern = regexp.MustCompile(`^[0-9]{1,5}d$`)

// parseExpiry reads when a token ends, which is to come; zero if the text is empty.
//
// Days are those of the calendar: 90d ends at the same time of day, whatever the clock does in between.
func parseExpiry(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	end, err := time.Parse(time.RFC3339, text)
	// A time is tried first, then days, which time.ParseDuration does not know, then a duration.
	switch after, notTime := time.ParseDuration(text); {
	case err == nil:
	case daysPattern.MatchString(text):
		days, _ := strconv.Atoi(strings.TrimSuffix(text, "d"))
		end = now.AddDate(0, 0, days)
	case notTime == nil:
		end = now.Add(after)
	default:
		return end, errors.New("it is a time to come: days or hours such as 90d or 12h, or a time such as 2030-01-31T00:00:00Z")
	}
	if !end.After(now) {
		return end, errors.New("that is over already: it is a time to come, such as 90d")
	}
	return end, nil
}

// hide takes from others what they can do with a file that a shell has made, before there is
// anything in it.
//
// alone says that others may not even read it. A pipe or a terminal has no others.
func hide(stream io.Writer, alone bool) error {
	file, ok := stream.(*os.File)
	if !ok {
		return nil
	}
	if err := tokens.Hide(file, alone); err != nil {
		return fmt.Errorf("others can read what is written: %w; use --file, or umask 077", err)
	}
	return nil
}

// writeToken writes a token to standard output, or into a file that is not there yet: an
// older token may still be in use.
func writeToken(cmd *cobra.Command, path, token string) error {
	if path == "" {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), token)
		return err
	}
	// O_EXCL also refuses a symbolic link that somebody has put there.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return command.Usage(fmt.Errorf("--file: %w", err))
	}
	_, err = fmt.Fprintln(file, token)
	return errors.Join(err, file.Close())
}
