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
	if like := likeCommands(root, args[0]); len(like) > 0 {
		text += "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return Usage(fmt.Errorf("%s (see `%s --help`)", text, root.CommandPath()))
}

// CheckWords makes the commands of cobra, help and completion, refuse what is no command.
//
// By themselves they print the help of the command above, as if that was asked for.
func CheckWords(root *cobra.Command) {
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err == nil && found.HasSubCommands() {
				err = KnownCommand(found, rest)
			}
			if err != nil {
				return err
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
		ValidArgsFunction: completeCommand,
	})
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil || completion == root {
		return
	}
	completion.Args = KnownCommand
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for _, shell := range completion.Commands() {
		shell.Args = Arguments(cobra.NoArgs)
	}
}

// completeCommand completes the words of a command.
func completeCommand(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	found, _, err := cmd.Root().Find(args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range found.Commands() {
		if c.IsAvailableCommand() && strings.HasPrefix(c.Name(), typed) {
			names = append(names, cobra.CompletionWithDesc(c.Name(), c.Short))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
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
