package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// knownCommand refuses what is no command, and names those that are like it.
func knownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("there is no command %q", args[0])
	if like := root.SuggestionsFor(args[0]); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return usage(fmt.Errorf("%s (see `%s --help`)", text, root.CommandPath()))
}

func oneOf(value string, allowed ...string) bool { return slices.Contains(allowed, value) }

// noArguments refuses arguments with the exit code of a usage error.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage(fmt.Errorf("%q is one argument too many (see `%s --help`)", args[0], cmd.CommandPath()))
	}
	return nil
}

// usageArgs gives the errors of a check the exit code of a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			line := strings.TrimSuffix(cmd.UseLine(), " [flags]")
			return usage(fmt.Errorf("the arguments do not fit: it is `%s` (see `%s --help`)", line, cmd.CommandPath()))
		}
		return nil
	}
}

// completeOutput completes the values of --output.
func completeOutput(cmd *cobra.Command, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}
