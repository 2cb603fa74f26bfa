package command

import (
	"errors"
	"fmt"

	"github.com/agnivade/levenshtein"
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
		if d := levenshtein.ComputeDistance(f.Name, name); d < least && !f.Hidden {
			best, least = f.Name, d
		}
	})
	return best
}
