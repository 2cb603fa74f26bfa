package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// FlagError is a mistake in a flag, with the flag that was probably meant. If the command is a group of commands, a word
// before the flag is the mistake: the flag is that of a command with a similar name.
//
// Nothing is ever set by a guess: the flag that was meant is only named.
func FlagError(c *cobra.Command, err error) error {
	if c.HasAvailableSubCommands() {
		if err := KnownCommand(c, c.Flags().Args()); err != nil {
			return err
		}
	}
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

// suggestedDistance is the most insertions, deletions and replacements between a word and a command that is suggested for it.
const suggestedDistance = 2

// distance is how many insertions, deletions and replacements make a word of the name of a command, or of a word that
// people write for it.
func distance(word string, c *cobra.Command) int {
	least := levenshtein.ComputeDistance(word, c.Name())
	for _, other := range c.SuggestFor {
		if word == other {
			return 0
		}
		if len(other) > 2*suggestedDistance { // each short word is like another one
			least = min(least, levenshtein.ComputeDistance(word, other))
		}
	}
	return least
}

// likeCommands returns the commands of a group whose names are most like a word, or begin with it.
func likeCommands(group *cobra.Command, word string) (names []string) {
	// Two words without a letter in common are not alike, however short they are.
	least := min(suggestedDistance, len(word)-1)
	word = strings.ToLower(word)
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			least = min(least, distance(word, c))
		}
	}
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() && (distance(word, c) == least || strings.HasPrefix(c.Name(), word)) {
			names = append(names, c.Name())
		}
	}
	return names
}
