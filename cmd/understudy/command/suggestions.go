package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagError is a mistake in a flag, with the flag that was probably meant.
//
// Nothing is ever set by a guess: the flag that was meant is only named.
func FlagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if like := likeFlag(c.Flags(), unknown.GetSpecifiedName()); like != "" {
			err = fmt.Errorf("%w; did you mean --%s?", err, like)
		}
	}
	return Usage(fmt.Errorf("%w (see `%s --help`)", err, c.CommandPath()))
}

// likeFlag returns the flag whose name is most like another, or nothing if none is.
func likeFlag(flags *pflag.FlagSet, name string) string {
	best, least := "", 1+max(1, len(name)/4)
	flags.VisitAll(func(f *pflag.Flag) {
		if d := distance(f.Name, name); d < least && !f.Hidden {
			best, least = f.Name, d
		}
	})
	return best
}

// distance is the number of characters to insert, delete or replace that makes one
// word of another.
//
// It is Levenshtein's distance, in one row: names of flags are short.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
