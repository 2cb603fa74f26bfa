package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// KnownCommand refuses what is no command, and names those that are like it.
func KnownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("there is no command %q", args[0])
	if like := root.SuggestionsFor(args[0]); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return Usage(fmt.Errorf("%s (see `%s --help`)", text, root.CommandPath()))
}

// OneOf reports whether a value is one of those that are allowed.
func OneOf(value string, allowed ...string) bool { return slices.Contains(allowed, value) }

// NoArguments refuses arguments with the exit code of a usage error.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(fmt.Errorf("%q is one argument too many (see `%s --help`)", args[0], cmd.CommandPath()))
	}
	return nil
}

// Arguments gives the errors of a check the exit code of a usage error.
//
// cobra's own errors count arguments; what a user needs is the form of the command.
func Arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
			return Usage(fmt.Errorf("the arguments do not fit: it is `%s` (see `%s --help`)", line, cmd.CommandPath()))
		}
		return nil
	}
}

// CompleteOutput completes the values of --output.
func CompleteOutput(cmd *cobra.Command, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
